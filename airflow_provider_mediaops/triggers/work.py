"""Base class for triggers that do all of a task's work and yield one event."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.triggers.event import done_event, error_event, unexpected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class WorkTrigger(BaseTrigger):
    """
    Base class for triggers that run a whole task and yield one event: a value, or a typed error.

    An ``OSError`` is no error of this provider, and retried by the task's own rule: the event's value holds its
    arguments, from which the task raises it again. The constructor takes plain values and never raises, because an
    exception there stops the whole triggerer.

    :param settled_after: the minimum time from the trigger's start to its event, in seconds.
    """

    #: The name of an ``OSError``'s arguments in the event's value.
    os_error_key: ClassVar[str]

    def __init__(self, *, settled_after: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.settled_after = settled_after

    @abstractmethod
    async def _work(self) -> dict[str, Any]:
        """Do the work and return its value; raise TypeError or InvalidArgumentError for another version's arguments."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Do the work, and yield one event: its value, or an error."""
        started = time.monotonic()
        payload = await self._payload()
        await asyncio.sleep(self.settled_after - (time.monotonic() - started))
        yield TriggerEvent(payload)

    async def _payload(self) -> dict[str, Any]:
        try:
            return done_event(await self._work())
        except MediaOpsError as error:
            return error_event(error)
        except OSError as error:
            # An OSError with a number gets its class back.
            return done_event({self.os_error_key: [error.errno, error.strerror] if error.errno else [str(error)]})
        except (TypeError, InvalidArgumentError) as error:
            return error_event(InvalidConnectionError(f"The trigger's arguments cannot be used: {error}"))
        except ValueError as error:
            self.log.exception("The work ended with an unexpected error.")
            return error_event(unexpected(error))
