"""The frame of the triggers that do a task's work in the triggerer, whole."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.triggers.event import done_event, error_event, unexpected
from airflow_provider_mediaops.triggers.serialized import serialized

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# A task that goes on within seconds of its deferral may be failed by Airflow, which then takes the late news of its
# pause for the end of what it has just begun (apache/airflow#71580). So the work is done at once, and told later.
SETTLED_AFTER = 10.0


class WorkTrigger(BaseTrigger):
    """
    Does a task's work in the triggerer, and tells with one event what became of it: a value, or a typed error.

    An ``OSError`` is of no class of this provider, and retried as the task says: the event's value then holds its
    arguments, of which the task makes it again. The constructor takes plain values and never raises, because an
    exception there stops the whole triggerer.

    :param settled_after: the event comes no sooner than so many seconds after the trigger's start.
    """

    #: Under which name the event's value holds the arguments of an ``OSError``.
    os_error_key: ClassVar[str]

    def __init__(self, *, settled_after: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.settled_after = settled_after

    @abstractmethod
    async def _work(self) -> dict[str, Any]:
        """Do the work and return its outcome; TypeError or InvalidArgumentError for another version's arguments."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give the class and the arguments that make this trigger again."""
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Do the work, and yield one event: its outcome, or an error."""
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
            # With its number it will have its class again.
            return done_event({self.os_error_key: [error.errno, error.strerror] if error.errno else [str(error)]})
        except (TypeError, InvalidArgumentError) as error:
            return error_event(InvalidConnectionError(f"The trigger's arguments cannot be used: {error}"))
        except ValueError as error:
            self.log.exception("The work ended with an unexpected error.")
            return error_event(unexpected(error))
