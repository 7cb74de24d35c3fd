"""Walking through a list of ISBNs on an event loop: as many requests at a time as the service's delay calls for."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_provider_mediaops.exceptions import MediaOpsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from airflow_provider_mediaops.books.batch.requests import Asking
    from airflow_provider_mediaops.books.batch.rows import InputReader
    from airflow_provider_mediaops.books.batch.scheduler import Answer, Course, DoneRow, Job
    from airflow_provider_mediaops.books.not_found import Judge
    from airflow_provider_mediaops.http.exchange import Conversation

T = TypeVar("T")

# How many rows or books are taken in between two breaths of the event loop; each may need a look into a file.
_SLICE = 50
# A stretch is handed out this often even where nothing was done, so that its receiver can tell of it.
_BEAT = 1.0
# No shorter sleep where the time to do something has come but something else is in its way.
_SHORTEST = 0.1
# After an error that ends the walk, requests that are under way have so many seconds to be answered.
_LAST_ANSWERS = 10.0
# Rows that wait for one before them are handed out at once, unless they are many.
_FEW = 64


class CarryOut(Protocol):
    """What carries out conversations on the event loop: a hook's ``arun``."""

    def __call__(self, conversation: Conversation[T], /) -> Coroutine[Any, Any, T]:
        """Carry out a conversation."""
        ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    What a walk has come to since the last stretch.

    :param done: the rows that are done, in the order of the list.
    :param ahead: all rows that are done and wait for one before them, in no order.
    :param undecided: the books whose 404 is not decided on, as plain values.
    :param requests: how many requests were sent so far.
    :param changed: whether anything but the requests is other than it was.
    """

    done: Sequence[DoneRow]
    ahead: Sequence[DoneRow]
    undecided: dict[str, dict[str, Any]]
    requests: int
    changed: bool


class BookWalk:
    """
    One walk through a list.

    :param reader: reads the list.
    :param course: decides what to ask for.
    :param judge: the course's judge.
    :param asking: makes the conversations.
    :param carry_out: carries them out.
    :param warn: takes a sentence for people.
    :param clock: seconds that never run backwards.
    """

    def __init__(
        self,
        reader: InputReader,
        course: Course,
        judge: Judge,
        asking: Asking,
        carry_out: CarryOut,
        *,
        warn: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._course = course
        self._judge = judge
        self._asking = asking
        self._carry_out = carry_out
        self._warn = warn
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self._news = asyncio.Event()
        self._reading = False
        self._error: Exception | None = None
        self._time_limit: asyncio.TimerHandle | None = None
        self._handed_out = 0.0
        self._seen: tuple[int, set[str]] = (0, set())

    async def stretches(self) -> AsyncGenerator[Stretch, None]:
        """
        Walk, and hand out what is done as it is done.

        :returns: the stretches; the walk goes on while one is worked on. Nothing is sent before the first is asked for.
        :raises MediaOpsError: where the key is refused or its quota used up, or one row too many has failed; after all
            that was found is handed out.
        :raises OSError: where the list cannot be read on; after all rows before are handed out.
        """
        self._handed_out = self._clock()
        walking = asyncio.create_task(self._go())
        try:
            while not walking.done():
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _BEAT)
                self._news.clear()
                if stretch := self._stretch(last=False):
                    yield stretch
            if stretch := self._stretch(last=True):
                yield stretch
            await walking
            if self._error:
                raise self._error
        finally:
            if self._time_limit:
                self._time_limit.cancel()
            await _cancelled([walking, *self._tasks])

    async def _go(self) -> None:
        try:
            self._start()
            while not self._course.is_over:
                await self._until_something_stirs()
                self._start()
        finally:
            self._news.set()

    def _start(self) -> None:
        now = self._clock()
        if not self._reading and self._course.room:
            self._reading = True
            self._spawn(self._read(self._course.room))
        while job := self._course.next_job(now):
            self._spawn(self._ask(job))
        if error := self._judge.take_news():
            self._spawn(self._carry_out(self._asking.client.report_limit(error)))
        self._news.set()

    async def _until_something_stirs(self) -> None:
        wake = self._course.wakes_at()
        limit = None if wake is None else max(wake - self._clock(), _SHORTEST)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), limit)
        self._stirred.clear()

    async def _read(self, most: int) -> None:
        try:
            inputs = await self._reader.read(most)
            for start in range(0, len(inputs), _SLICE):
                self._course.add(inputs[start : start + _SLICE], self._clock())
                self._news.set()
                await asyncio.sleep(0)
            if len(inputs) < most:
                self._course.end()
        except Exception as error:  # noqa: BLE001 whatever the list's own iterator raises
            # What was read before is still asked for.
            self._error = self._error or error
            self._course.end()
        finally:
            self._reading = False

    async def _ask(self, job: Job) -> None:
        def sent() -> int:
            self._stirred.set()
            return self._course.sent(job)

        try:
            answer = await self._carry_out(self._asking.answer(job, sent))
            await self._take_in(answer)
        except MediaOpsError as error:
            self._course.abandoned(job)
            self._give_up(error)
        except BaseException:
            self._course.abandoned(job)
            raise
        else:
            if answer.no_bulk:
                self._warn(
                    "The book database has no bulk requests (POST /books) for this key: books are asked for one by one."
                )
            self._course.resize(self._asking.batch)
            self._course.ended(job, answer, self._clock())
            self._news.set()

    async def _take_in(self, answer: Answer) -> None:
        books = iter(answer.found.items())
        # The last of them are left to the job's end.
        for _ in range(_SLICE, len(answer.found), _SLICE):
            self._course.found(dict(islice(books, _SLICE)), answer.number, self._clock())
            await asyncio.sleep(0)

    def _give_up(self, error: MediaOpsError) -> None:
        if not self._course.is_stopped:
            # An error about the key is worth more than one of the list, which comes again.
            self._error = error
            self._course.stop()
            self._time_limit = asyncio.get_running_loop().call_later(_LAST_ANSWERS, self._cancel_all)
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
            self._course.stop()
            self._cancel_all()

    def _stretch(self, *, last: bool) -> Stretch | None:
        done = self._course.take()
        if self._course.error and not self._course.is_stopped:
            self._warn("More rows have failed than max_failures allows: the walk ends with the error of the last one.")
            self._give_up(self._course.error)
        if done:
            # There is room for more rows.
            self._stirred.set()
        undecided = self._judge.undecided()
        now, seen = self._clock(), (self._course.rows_done, set(undecided))
        ahead = self._course.ahead()
        changed = seen != self._seen
        pause = 0.0 if done or last or (changed and len(ahead) <= _FEW) else _BEAT
        if now - self._handed_out < pause or (last and not changed):
            return None
        self._handed_out, self._seen = now, seen
        return Stretch(done, ahead, undecided, self._judge.sent, changed=changed)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
