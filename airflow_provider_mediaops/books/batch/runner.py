"""Look up a list of ISBNs on an event loop: as many requests at a time as the rate and the service's delay call for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.options import ResumePoint
from airflow_provider_mediaops.books.batch.scheduler import SLICE, LookupScheduler
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.exceptions import MediaOpsError, PermanentError
from airflow_provider_mediaops.http.exchange import CallFlow

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.options import BatchOptions, SeenLookups
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.runner import InThread

# An update is yielded this often even if nothing was done, so that its receiver can log the progress.
_UPDATE_EVERY_SECONDS = 1.0
# No shorter sleep if the time to do something has come but something else prevents it.
_SHORTEST_SLEEP_SECONDS = 0.1
# After an error that ends the batch, requests under way have so many seconds to be answered.
_LAST_ANSWERS_SECONDS = 10.0
# Rows that are done out of order are handed out at once, unless they are more than this.
_FEW = 64


#: Runs a call flow on the event loop, and returns its result: the ``arun`` of a hook.
RunCallFlow = Callable[[CallFlow[Any]], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class BatchUpdate:
    """The progress of a batch since the last update."""

    done: Sequence[Lookup]  # in the order of the list
    # All rows that were answered but wait for one before them, in no order; not those that failed or need no request.
    out_of_order: Sequence[Lookup]
    # What the next attempt has to know of 404s, as plain values; those that are not decided on are left out after a
    # permanent error, because the next attempt then has another connection.
    doubts: dict[str, Any]
    requests: int  # sent so far
    changed: bool  # whether anything but the number of requests has changed
    limited: bool = False  # whether the key was met at its limit so far
    trouble: str | None = None  # why the last request that failed did so; None once another has succeeded


def lookup_batch(
    client: Client,
    rows: Iterable[IsbnRow],
    run: RunCallFlow,
    *,
    options: BatchOptions,
    resume: ResumePoint | None = None,
    canary: str | None = None,
    in_thread: InThread = asyncio.to_thread,
    warn: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[BatchUpdate, None]:
    """
    Look up a list, and yield the updates; nothing is sent before the first is asked for.

    An error that every other book would meet is raised after everything that was found is handed out, and so is that of
    a list that cannot be read on. ``resume`` is closed at the end.
    """
    resume = resume or ResumePoint()
    address = hashlib.sha256(" ".join(client.base_urls).encode()).hexdigest()[:16]
    held = HeldNotFounds(Evidence(client.clock.monotonic, canary, resume.last_found), address=address)
    held.take_up(resume.doubts)
    if client.retry.max_attempts == 1:
        # A connection that tries each call once retries nothing later either.
        options, held.patience_seconds = replace(options, retry_after=()), 0.0
    stirred = asyncio.Event()
    scheduler = LookupScheduler(client, held, options, resume.seen, stirred.set, warn)
    return _BatchRunner(client, scheduler, held, iter(rows), run, in_thread, warn, stirred).updates(resume.seen)


@dataclass(slots=True)
class _BatchRunner:
    """Starts the jobs of one batch, and reads its list."""

    _client: Client
    _scheduler: LookupScheduler
    _held: HeldNotFounds
    # Read in a thread, because reading a file would block the event loop; never by two threads at once.
    _rows: Iterator[IsbnRow]
    _run: RunCallFlow
    _in_thread: InThread
    _warn: Callable[[str], None]
    _stirred: asyncio.Event
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: asyncio.Task[None] | None = None
    # Its requests, and reports of the limit.
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _error: Exception | None = None
    _last_answers_seconds: float = _LAST_ANSWERS_SECONDS
    _handed_out: float = 0.0
    _last_seen: tuple[object, ...] = ()

    async def updates(self, seen: SeenLookups) -> AsyncGenerator[BatchUpdate, None]:
        """Look up the list, and yield what is done as it is done."""
        self._handed_out, self._last_seen = self._client.clock.monotonic(), (0, self._held.doubts())
        working = asyncio.create_task(self._go())
        with closing(seen):
            try:
                is_last = False
                while not is_last:
                    await _wait_for(self._news, _UPDATE_EVERY_SECONDS)
                    self._news.clear()
                    is_last = working.done()
                    if update := self._update(is_last=is_last):
                        yield update
                await working
                if self._error:
                    raise self._error
            finally:
                under_way = [task for task in (working, self._reading, *self._tasks) if task]
                for task in under_way:
                    task.cancel()
                await asyncio.gather(*under_way, return_exceptions=True)

    async def _go(self) -> None:
        try:
            self._start()
            while not self._scheduler.is_stopped and (self._tasks or not self._scheduler.is_over):
                wake = self._scheduler.wakes_at() - self._client.clock.monotonic()
                await _wait_for(self._stirred, max(wake, _SHORTEST_SLEEP_SECONDS))
                self._stirred.clear()
                self._start()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._last_answers_seconds)
                self._scheduler.settle()
        finally:
            self._news.set()

    def _start(self) -> None:
        if self._held.wrong:
            self._give_up(self._held.wrong)
        if not self._reading and self._scheduler.room:
            self._reading = asyncio.create_task(self._read(self._scheduler.room))
            self._reading.add_done_callback(self._ended)
        while job := self._scheduler.next_job():
            self._spawn(self._perform(job))
        if error := self._held.take_news():
            self._spawn(self._run(self._client.report_limit(error)))
        self._news.set()

    async def _read(self, limit: int) -> None:
        try:
            rows: list[IsbnRow] = await self._in_thread(lambda: list(islice(self._rows, limit)))
            for start in range(0, len(rows), SLICE):
                self._scheduler.add(rows[start : start + SLICE])
                self._news.set()
                await asyncio.sleep(0)
            self._scheduler.has_ended = len(rows) < limit
        except Exception as error:  # noqa: BLE001 whatever the list's own iterator raises
            # What was read before is still asked for.
            self._error = self._error or error
            self._scheduler.has_ended = True

    async def _perform(self, job: CallFlow[None]) -> None:
        try:
            await self._run(job)
            self._news.set()
        except MediaOpsError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if not self._scheduler.is_stopped:
            # An error about the key is worth more than one of the list, which comes again.
            self._error = error
            self._scheduler.is_stopped = True
            if not self._scheduler.has_answered:
                self._last_answers_seconds = 0.0
            self._stirred.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task is self._reading:
            self._reading = None
        self._stirred.set()
        if not task.cancelled() and (error := task.exception()):
            # A fault of this program, or of the machine.
            self._error = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._scheduler.is_stopped = True
            self._last_answers_seconds = 0.0

    def _update(self, *, is_last: bool) -> BatchUpdate | None:
        done = self._scheduler.hand_out()
        if (error := self._scheduler.failure_too_many) and not self._scheduler.is_stopped:
            self._warn("More rows have failed than max_failures allows: the list ends with the error of the last one.")
            self._give_up(error)
        if done:
            # There is room for more rows.
            self._stirred.set()
        # Somebody will correct the connection: what came over this one says nothing about the books of that one.
        doubts = self._held.doubts()
        if isinstance(self._error, PermanentError):
            doubts["undecided"] = {}
        now, seen = self._client.clock.monotonic(), (self._scheduler.done, doubts)
        waiting = self._scheduler.out_of_order()
        changed = seen != self._last_seen
        pause = 0.0 if done or is_last or (changed and len(waiting) <= _FEW) else _UPDATE_EVERY_SECONDS
        if now - self._handed_out < pause or (is_last and not changed):
            return None
        self._handed_out, self._last_seen = now, seen
        limited = self._held.evidence.limit_seen > -inf
        return BatchUpdate(done, waiting, doubts, self._held.sent, changed, limited, self._scheduler.trouble)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set. If nobody sets it in time, this does."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set) if seconds < inf else None
    try:
        await event.wait()
    finally:
        if timer:
            timer.cancel()
