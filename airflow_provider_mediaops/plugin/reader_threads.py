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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow_provider_mediaops.plugin.rendered_fields import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Job:
    store: str
    work: Callable[[], Any]
    # Its result, and the error that it raised. As the error of the future, that would be in a cycle with it.
    done: asyncio.Future[tuple[Any, Exception | None]]
    began: float = 0.0


class ReaderThreads:
    """Threads for work that may block, of which each store has a share. They serve one event loop."""

    def __init__(self, *, max_threads: int, max_per_store: int, max_waiting: int, stuck_after: float) -> None:
        self._max_threads = max_threads
        self._max_per_store = max_per_store
        self._max_waiting = max_waiting
        # A store whose threads have all worked for longer is asked nothing more.
        self._stuck_after = stuck_after
        # Only the event loop changes these.
        self._running: dict[str, list[_Job]] = {}
        self._waiting: list[_Job] = []

    async def run(self, store: str, work: Callable[[], Result], *, seconds: float) -> Result:
        """
        Run work for a store in a thread, and return its result or raise its error.

        :raises NoAnswerError: if it has not ended in time, at once if too much waits already or the store is stuck.
        """
        if len(self._waiting) >= self._max_waiting:
            raise NoAnswerError(store, "was not asked: too many pages are waiting already")
        began = [job.began for job in self._running.get(store, [])]
        if len(began) == self._max_per_store and time.monotonic() - max(began) > self._stuck_after:
            raise NoAnswerError(store, "has not answered the last requests, and was not asked again")
        job = _Job(store, work, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._start_jobs()
        try:
            await asyncio.wait([job.done], timeout=seconds)
            if not job.done.done():
                raise NoAnswerError(store, "did not answer in time")
            result, error = job.done.result()
            if error is not None:
                raise error
            return cast("Result", result)
        finally:
            # An outcome that comes later is not kept.
            job.done.cancel()
            with suppress(ValueError):
                self._waiting.remove(job)
            # An error's traceback has this frame; a frame that has it too would keep all that its callers had read.
            result = error = None
            del job

    def _start_jobs(self) -> None:
        for job in list(self._waiting):
            if sum(map(len, self._running.values())) >= self._max_threads:
                return
            running = self._running.setdefault(job.store, [])
            if len(running) == self._max_per_store:
                continue
            self._waiting.remove(job)
            job.began = time.monotonic()
            loop = job.done.get_loop()
            try:
                threading.Thread(target=self._work, args=(job, loop), name="mediaops-page", daemon=True).start()
            except RuntimeError as error:
                # There can be no further thread now. This reader is told, and the next one is tried.
                job.done.set_result((None, error))
            else:
                running.append(job)

    def _work(self, job: _Job, loop: asyncio.AbstractEventLoop) -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = job.work()
        except BaseException as raised:  # noqa: BLE001 - the waiting coroutine raises it
            # A panic of a library in Rust is not an Exception, and would end the server's loop.
            error = raised if isinstance(raised, Exception) else RuntimeError(f"The work ended by {raised!r}.")
        # The loop is closed if the server stopped in the meantime.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._end, job, result, error)
        # The frames of an error's traceback lead back to this one.
        del job, result, error

    def _end(self, job: _Job, result: Any, error: Exception | None) -> None:
        running = self._running[job.store]
        running.remove(job)
        if not running:
            del self._running[job.store]
        if not job.done.done():
            job.done.set_result((result, error))
        self._start_jobs()
