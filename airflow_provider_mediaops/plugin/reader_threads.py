"""
Run blocking work in a bounded number of threads, so that a store that hangs does not hold up the API server.

A thread that hangs cannot be stopped. It counts against the limits of its store and of all, and each store leaves
threads for the others. The threads are daemons: the API server does not wait for them when it stops.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow_provider_mediaops import metrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _Outcome: TypeAlias = tuple[Any, Exception | None]

Result = TypeVar("Result")


class NoAnswerError(Exception):
    """
    The work did not end in time, or was not begun.

    :param store: the store.
    :param reason: what happened, in words that follow its name.
    """

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store} {reason}")
        metrics.count("pages.reads.no_answer")


class ReaderThreads:
    """
    A bounded number of threads for work that may block.

    :param max_threads: how many there are at the same time.
    :param max_per_store: how many of them may work for one store.
    :param max_waiting: how much work may wait for a thread; more is refused at once.
    :param stuck_after: the seconds after which work counts as stuck. A store whose threads are all stuck gets no more.
    """

    def __init__(self, *, max_threads: int, max_per_store: int, max_waiting: int, stuck_after: float) -> None:
        self._max_threads = max_threads
        self._max_per_store = max_per_store
        self._max_waiting = max_waiting
        self._stuck_after = stuck_after
        self._lock = threading.Lock()
        # By store, when each of its running jobs began.
        self._running: dict[str, list[float]] = {}
        self._waiting: list[_Job] = []

    async def run(self, store: str, work: Callable[[], Result], *, seconds: float) -> Result:
        """
        Run work in a thread, and wait for its result.

        :param store: the store that it reads.
        :param work: the work; it may block.
        :param seconds: how long to wait for its begin and its end, together.
        :returns: its result.
        :raises NoAnswerError: if it has not ended by then; at once if too much work waits already, or if all work that
            the store may have is stuck.
        :raises Exception: what the work raises.
        """
        result: Result | None
        result, error = await self._outcome(store, work, seconds)
        if error is None:
            return cast("Result", result)
        try:
            raise error
        finally:
            # Its traceback has this frame; a frame that has it too would keep all that its callers had read.
            del error

    async def _outcome(self, store: str, work: Callable[[], Any], seconds: float) -> _Outcome:
        loop = asyncio.get_running_loop()
        job = _Job(store, work, loop, loop.create_future())
        with self._lock:
            if len(self._waiting) >= self._max_waiting:
                raise NoAnswerError(store, "was not asked: too many pages are waiting already")
            begun = self._running.get(store, [])
            if len(begun) == self._max_per_store and time.monotonic() - max(begun) > self._stuck_after:
                raise NoAnswerError(store, "has not answered the last requests, and was not asked again")
            self._waiting.append(job)
        self._start_jobs()
        try:
            ended, _ = await asyncio.wait([job.done], timeout=seconds)
            if not ended:
                raise NoAnswerError(store, f"did not answer within {seconds:g} s")
            return job.done.result()
        finally:
            # An outcome that comes later is not kept.
            job.done.cancel()
            with self._lock, suppress(ValueError):
                self._waiting.remove(job)

    def _start_jobs(self) -> None:
        with self._lock:
            for job in list(self._waiting):
                if sum(map(len, self._running.values())) >= self._max_threads:
                    return
                begun = self._running.setdefault(job.store, [])
                if len(begun) < self._max_per_store:
                    self._waiting.remove(job)
                    began = time.monotonic()
                    thread = threading.Thread(target=self._work, args=(job, began), name="mediaops-page", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError as error:
                        # There can be no further thread now. This reader is told, and the next one is tried.
                        job.hand_over((None, error))
                    else:
                        begun.append(began)

    def _work(self, job: _Job, began: float) -> None:
        outcome = None
        try:
            outcome = _outcome_of(job.work)
        finally:
            with self._lock:
                self._running[job.store].remove(began)
                if not self._running[job.store]:
                    del self._running[job.store]
            # Not earlier: whoever gets the result may ask the store again at once.
            if outcome:
                job.hand_over(outcome)
            # The frames of an error's traceback lead back to this one.
            del job, outcome
            self._start_jobs()


class _Job:
    """Work, and the future that waits for it on an event loop."""

    def __init__(
        self,
        store: str,
        work: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[_Outcome],
    ) -> None:
        self.store = store
        self.done = done
        self.work = work
        self._loop = loop

    def hand_over(self, outcome: _Outcome) -> None:
        """
        Hand the outcome over to the event loop, if that still wants it.

        :param outcome: the result of the work, and its error.
        """
        # The loop is closed if the server stopped in the meantime.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, outcome)

    def _end(self, outcome: _Outcome) -> None:
        if not self.done.done():
            # An error is a result here: as the error of the future it would be in a cycle with it.
            self.done.set_result(outcome)


def _outcome_of(work: Callable[[], Any]) -> _Outcome:
    """Do work; return its result and its error."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - the waiting coroutine raises it
        return None, error
