"""Time in which pauses are over at once, while the network has its own: real, but for what a fault adds to it."""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from airflow_provider_mediaops.books.batch import runner
from airflow_provider_mediaops.books.batch.options import RETRY_AFTER_SECONDS, BatchOptions
from airflow_provider_mediaops.http import connections, transport
from airflow_provider_mediaops.http.exchange import Clock
from airflow_provider_mediaops.http.request_threads import RequestThreads

if TYPE_CHECKING:
    import pytest

    from airflow_provider_mediaops.http.exchange import Response

#: A time limit of the network that no exchange is to reach: no pause is about as long.
NEVER_SECONDS = 40_000
# So far is a time limit of the network away while it runs: connecting and reading have one each, and both together.
# An event loop looks for something that happens after a day (86,400 seconds) at the latest.
_NETWORK_SECONDS = (30_000.0, 86_000.0)
_SEND = RequestThreads.send
# Shorter waits are real: they cost little, and the small time limits of the network are among them.
_SHORTEST_PAUSE_SECONDS = 0.6
# How long an event loop looks for something that happens, before it goes on to the end of a pause.
_LOOK_SECONDS = 0.002


class StillWaitingError(BaseException):
    """A wait goes on and on. No handler of errors takes it for one of them."""


@dataclass
class MadeUpTime:
    """
    A clock that pauses move on.

    :param skipped: the seconds of all pauses so far.
    :param patience: how many pauses there may be; None for any number.
    :param jumps: whether the clock is set by 400 days, forth and back, and runs an hour ahead at each look.
    """

    skipped: float = 0.0
    patience: int | None = None
    jumps: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looks: int = 0
    _ahead: float = 0.0
    _late: float = 0.0
    _unsent: WeakSet[Any] = field(default_factory=WeakSet)

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        if self.jumps:
            self._ahead += 3600.0
        return time.monotonic() + self.skipped + self._ahead

    def now(self) -> datetime:
        """Return the date and time in UTC."""
        self._looks += 1
        days = 400 * (-1) ** self._looks if self.jumps else 0
        return datetime.now(timezone.utc) + timedelta(seconds=self.skipped, days=days)

    def network(self) -> float:
        """Return the seconds by which exchanges in a worker are timed. Pauses do not move them on."""
        return time.monotonic() + self._late

    def loop(self) -> float:
        """Return the seconds of an event loop: exchanges and pauses."""
        return self.network() + self.skipped

    def skip(self, seconds: float) -> None:
        """Move the clock on."""
        with self._lock:
            self.skipped += seconds

    def exceed_limits(self) -> bool:
        """
        Have the time limits of all exchanges that are under way pass.

        :returns: whether that is done: not while one of them has not sent its request, because then it would be the
            connection that takes too long.
        """
        with self._lock:
            if not self._unsent:
                self._late += 2 * NEVER_SECONDS + 1
                return True
            return False

    def noting(self, kind: type[Any]) -> type[Any]:
        """
        Return a class that notes which exchanges have not sent their requests.

        :param kind: the class whose objects follow one exchange each. They have a time ``sent_at``.
        """
        made_up = self

        class Noting(kind):  # type: ignore[misc]
            def __init__(self, *arguments: Any) -> None:
                with made_up._lock:
                    made_up._unsent.add(self)
                    super().__init__(*arguments)

            def __setattr__(self, name: str, value: Any) -> None:
                super().__setattr__(name, value)
                if name == "sent_at" and value is not None:
                    made_up._unsent.discard(self)

        return Noting

    def pause(self, seconds: float) -> None:
        """End a pause."""
        if self.patience is not None:
            self.patience -= 1
            if self.patience < 0:
                self.patience = None
                raise StillWaitingError
        self.skip(seconds)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let everything that the package does from now on happen in this time."""
        patch.setattr(time, "sleep", self.pause)
        patch.setattr(connections, "time", SimpleNamespace(monotonic=self.network))
        patch.setattr(transport, "Deadline", self.noting(connections.Deadline))
        patch.setattr(asyncio, "new_event_loop", lambda: _Loop(self))
        patch.setattr(RequestThreads, "send", _send)
        patch.setattr(Clock.__init__, "__defaults__", (self.monotonic, self.now, lambda low, high: (low + high) / 2))
        # The tick of a list that is kept from its next request would be real, and so would the pause that keeps it.
        patch.setattr(runner, "_SHORTEST_SLEEP_SECONDS", 1.0)
        # A list says once a second how far it is: its pauses of minutes would take as many steps.
        defaults = BatchOptions.__init__.__defaults__ or ()
        short = tuple((1.0, 2.0, 3.0) if value is RETRY_AFTER_SECONDS else value for value in defaults)
        patch.setattr(BatchOptions.__init__, "__defaults__", short)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that goes on to the end of a pause if nothing happens meanwhile."""

    def __init__(self, made_up: MadeUpTime) -> None:
        self._made_up = made_up
        self._selector_of_pauses = _Selector(made_up)
        super().__init__(self._selector_of_pauses)

    def time(self) -> float:
        return self._made_up.loop()

    async def send(self, threads: RequestThreads, *arguments: Any) -> Response:
        """Send a request in a thread."""
        request = object()
        self._selector_of_pauses.working.add(request)
        try:
            return await _SEND(threads, *arguments)
        finally:
            self._selector_of_pauses.working.discard(request)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        working = self._selector_of_pauses.working
        future = super().run_in_executor(executor, func, *args)
        working.add(future)
        future.add_done_callback(working.discard)
        return future


class _Selector(selectors.DefaultSelector):
    """Looks for what happens, and ends a pause if nothing does."""

    def __init__(self, made_up: MadeUpTime) -> None:
        super().__init__()
        self._made_up = made_up
        #: What threads do for the loop; no pause is over before it.
        self.working: set[Any] = set()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        shortest, longest = _NETWORK_SECONDS
        if timeout is None or timeout <= _SHORTEST_PAUSE_SECONDS or shortest < timeout < longest:
            return super().select(timeout)
        found = super().select(_LOOK_SECONDS)
        if not found and not self.working:
            self._made_up.pause(timeout)
        return found


async def _send(threads: RequestThreads, *arguments: Any) -> Response:
    loop = asyncio.get_running_loop()
    return await (loop.send(threads, *arguments) if isinstance(loop, _Loop) else _SEND(threads, *arguments))


def settle(value: Any) -> Any:
    """Carry out a coroutine in made-up time."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(value)
    finally:
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _cancel_others() -> None:
    """Cancel what a wait that was broken off leaves behind."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
