"""The waiting that all sensors share, in the triggerer."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    InvalidConnectionError,
    MediaOpsError,
    TemporaryError,
)
from airflow_provider_mediaops.hooks.threads import in_thread
from airflow_provider_mediaops.triggers.deferral import settled
from airflow_provider_mediaops.triggers.event import done_event, error_event, unexpected
from airflow_provider_mediaops.waiting import Done, Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.waiting import Verdict, Watch


class WatchTrigger(BaseTrigger):
    """
    Looks at a service until what is waited for is there.

    A temporary failure is waited out, with a longer pause each time and one warning per change of state; a permanent
    one is handed to the task. The constructor takes plain values and never raises, because an exception there stops
    the whole triggerer.

    :param conn_id: the connection's id.
    :param watch: what is waited for: the fields of the service's watch, plain values.
    :param poke_interval: seconds between two looks.
    :param exponential_backoff: whether the interval grows.
    :param max_wait: the longest interval in seconds, where it grows.
    :param start_after: seconds to wait before the first look, where the sensor itself has just looked.
    :param failures: how many looks of the sensor have failed in a row; the pauses go on growing from there.
    :param silent_fail: whether a permanent error is only logged and the wait goes on.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        watch: dict[str, Any],
        poke_interval: float = 60.0,
        exponential_backoff: bool = False,
        max_wait: float | None = None,
        silent_fail: bool = False,
        start_after: float = 0.0,
        failures: int = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.watch = watch
        self.poke_interval = poke_interval
        self.exponential_backoff = exponential_backoff
        self.max_wait = max_wait
        self.silent_fail = silent_fail
        self.start_after = start_after
        self.failures = failures

    @abstractmethod
    def _make_hook(self) -> ServiceHook:
        """Make the hook of the connection; nothing is fetched yet."""

    @abstractmethod
    def _make_watch(self) -> Watch:
        """Make the watch of its fields; raise InvalidArgumentError if one is wrong."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "conn_id": self.conn_id,
            "watch": self.watch,
            "poke_interval": self.poke_interval,
            "exponential_backoff": self.exponential_backoff,
            "max_wait": self.max_wait,
            "silent_fail": self.silent_fail,
            "start_after": self.start_after,
            "failures": self.failures,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and yield one event: done, or a permanent error."""
        yield TriggerEvent(await settled(self, self._payload()))

    async def _payload(self) -> dict[str, Any]:
        try:
            # In a thread: the first call imports the service's modules.
            watch, hook = await in_thread(lambda: (self._make_watch(), self._make_hook()))
            if self.start_after:
                await asyncio.sleep(self.start_after)
            async with hook:
                return done_event(await self._wait(hook, watch))
        except MediaOpsError as error:
            return error_event(error)
        # TypeError: a row of another version of this provider, whose watch has other fields.
        except (TypeError, InvalidArgumentError) as error:
            return error_event(InvalidConnectionError(str(error)))
        except ValueError as error:
            self.log.exception("The wait ended with an unexpected error.")
            return error_event(unexpected(error))

    async def _wait(self, hook: ServiceHook, watch: Watch) -> Any:
        pace = Pace(self.poke_interval, self.exponential_backoff, self.max_wait)
        looks, failures = 0, self.failures
        state: object = None
        while True:
            looks += 1
            try:
                verdict = await self._look(hook, watch)
            except MediaOpsError as error:
                if not (isinstance(error, TemporaryError) or self.silent_fail):
                    raise
                failures += 1
                pause = pace.after_failure(failures, error.retry_after)
                # Told once per kind of failure: a service that is down for hours would fill the log.
                if state is not type(error):
                    self.log.warning("The wait goes on in %.0f s: %s", pause, error.message)
                state = type(error)
            else:
                if isinstance(verdict, Done):
                    return verdict.value
                if state != verdict.seen:
                    self.log.info("Waiting: %s", verdict.seen)
                state = verdict.seen
                failures = 0
                pause = pace.after_look(looks)
            await asyncio.sleep(pause)

    async def _look(self, hook: ServiceHook, watch: Watch) -> Verdict:
        service = await hook.aservice()
        return await hook.arun(watch.look(service.ask))
