"""Look up a list of ISBNs on an event loop: as many requests at a time as the rate and the service's delay call for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.requests import BatchRequests
from airflow_provider_mediaops.books.batch.scheduler import LookupScheduler
from airflow_provider_mediaops.books.batch.seen import ResumePoint
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.exceptions import MediaOpsError, PermanentError
from airflow_provider_mediaops.http.exchange import CallFlow

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.options import BatchOptions
    from airflow_provider_mediaops.books.batch.requests import Job, JobResult
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.batch.seen import SeenLookups
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.runner import InThread

# The number of rows or books that are taken in before the event loop runs other tasks; each may need a look into a
# file.
_SLICE = 50
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
    limited: int = 0  # how often the key was met at its limit so far
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
    held = HeldNotFounds(Evidence(canary, resume.last_found), address=address)
    held.take_up(resume.doubts)
    if client.retry.max_attempts == 1:
        # A connection that tries each call once retries nothing later either.
        options, held.patience_seconds = replace(options, retry_after=()), 0.0
    scheduler = LookupScheduler(held, options, resume.seen, lambda: client.clock.now().isoformat(timespec="seconds"))
    # A book that got no answer waits for as long, too.
    requests = BatchRequests(client, max(client.retry.max_wait, *options.retry_after, 0.0))
    runner = _BatchRunner(scheduler, held, requests, iter(rows), run, in_thread, warn, client.clock.monotonic)
    return runner.updates(resume.seen)


@dataclass(slots=True)
class _BatchRunner:
    """Starts the jobs of one batch, and takes their results in."""

    _scheduler: LookupScheduler
    _held: HeldNotFounds
    _requests: BatchRequests
    # Read in a thread, because reading a file would block the event loop; never by two threads at once.
    _rows: Iterator[IsbnRow]
    _run: RunCallFlow
    _in_thread: InThread
    _warn: Callable[[str], None]
    _clock: Callable[[], float]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: bool = False
    _error: Exception | None = None
    _time_limit: asyncio.TimerHandle | None = None
    _handed_out: float = 0.0
    _last_seen: tuple[object, ...] = ()
    _limited: int = 0

    async def updates(self, seen: SeenLookups) -> AsyncGenerator[BatchUpdate, None]:
        """Look up the list, and yield what is done as it is done."""
        self._handed_out, self._last_seen = self._clock(), self._signs_of_progress(self._held.doubts())
        working = asyncio.create_task(self._go())
        with closing(seen):
            try:
                while not working.done():
                    await _wait_for(self._news, _UPDATE_EVERY_SECONDS)
                    self._news.clear()
                    if update := self._update(last=False):
                        yield update
                if update := self._update(last=True):
                    yield update
                await working
                if self._error:
                    raise self._error
            finally:
                if self._time_limit:
                    self._time_limit.cancel()
                await _cancelled([working, *self._tasks])

    async def _go(self) -> None:
        try:
            self._start()
            while not self._scheduler.is_over:
                await self._until_something_stirs()
                self._start()
        finally:
            self._news.set()

    def _start(self) -> None:
        now = self._clock()
        if self._held.wrong:
            self._give_up(self._held.wrong)
        if not self._reading and self._scheduler.room:
            self._reading = True
            self._spawn(self._read(self._scheduler.room))
        while job := self._scheduler.next_job(now):
            self._spawn(self._ask(job))
        if error := self._held.take_news():
            self._limited += 1
            self._spawn(self._run(self._requests.client.report_limit(error)))
        self._news.set()

    async def _until_something_stirs(self) -> None:
        wake = self._scheduler.wakes_at()
        limit = None if wake is None else max(wake - self._clock(), _SHORTEST_SLEEP_SECONDS)
        await _wait_for(self._stirred, limit)
        self._stirred.clear()

    async def _read(self, limit: int) -> None:
        try:
            rows: list[IsbnRow] = await self._in_thread(lambda: list(islice(self._rows, limit)))
            for start in range(0, len(rows), _SLICE):
                self._scheduler.add(rows[start : start + _SLICE], self._clock())
                self._news.set()
                await asyncio.sleep(0)
            if len(rows) < limit:
                self._scheduler.end()
        except Exception as error:  # noqa: BLE001 whatever the list's own iterator raises
            # What was read before is still asked for.
            self._error = self._error or error
            self._scheduler.end()
        finally:
            self._reading = False

    async def _ask(self, job: Job) -> None:
        def sent(books: int) -> int:
            self._stirred.set()
            return self._scheduler.sent(job, books)

        try:
            result = await self._run(self._requests.perform(job, sent))
            await self._take_in(result)
        except MediaOpsError as error:
            self._scheduler.abandoned(job)
            self._give_up(error)
        except BaseException:
            self._scheduler.abandoned(job)
            raise
        else:
            if result.no_bulk:
                self._warn(
                    "The book database has no bulk requests (POST /books) for this key: books are asked for one by one."
                )
            self._limited += result.limited
            self._scheduler.ended(job, result, self._clock())
            self._news.set()

    async def _take_in(self, result: JobResult) -> None:
        books = iter(result.found.items())
        # The last of them are left to the job's end.
        for _ in range(_SLICE, len(result.found), _SLICE):
            self._scheduler.found(dict(islice(books, _SLICE)), result.number, self._clock())
            await asyncio.sleep(0)

    def _give_up(self, error: MediaOpsError) -> None:
        if not self._scheduler.is_stopped:
            # An error about the key is worth more than one of the list, which comes again.
            self._error = error
            self._scheduler.stop()
            patience = _LAST_ANSWERS_SECONDS if self._requests.contact.answered else 0.0
            self._time_limit = asyncio.get_running_loop().call_later(patience, self._cancel_all)
            self._stirred.set()

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._stirred.set()
        if not task.cancelled() and (error := task.exception()):
            # A fault of this program, or of the machine.
            self._error = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._scheduler.stop()
            self._cancel_all()

    def _update(self, *, last: bool) -> BatchUpdate | None:
        done = self._scheduler.rows.hand_out()
        error = self._scheduler.rows.error
        if error and not self._scheduler.is_stopped:
            self._warn("More rows have failed than max_failures allows: the list ends with the error of the last one.")
            self._give_up(error)
        if done:
            # There is room for more rows.
            self._stirred.set()
        # Somebody will correct the connection: what came over this one says nothing about the books of that one.
        doubts = self._held.doubts()
        if isinstance(self._error, PermanentError):
            doubts["undecided"] = {}
        now, seen = self._clock(), self._signs_of_progress(doubts)
        waiting = self._scheduler.rows.out_of_order()
        changed = seen != self._last_seen
        pause = 0.0 if done or last or (changed and len(waiting) <= _FEW) else _UPDATE_EVERY_SECONDS
        if now - self._handed_out < pause or (last and not changed):
            return None
        self._handed_out, self._last_seen = now, seen
        trouble = self._requests.contact.trouble
        return BatchUpdate(done, waiting, doubts, self._held.sent, changed, self._limited, trouble)

    def _signs_of_progress(self, doubts: dict[str, Any]) -> tuple[object, ...]:
        return self._scheduler.rows.done, set(doubts["undecided"]), doubts["disproved"], doubts["speaks_clearly"]


async def _wait_for(event: asyncio.Event, seconds: float | None) -> None:
    """Wait until an event is set. If nobody sets it in time, this does."""
    timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        if timer:
            timer.cancel()


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
