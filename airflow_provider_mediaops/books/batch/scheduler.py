"""
The course of a walk through a list: what to ask for next, what each row comes to, and in which order. No I/O.

Rows come in, jobs go out, answers come in, rows go out in the order in which they came. A book that many rows name is
asked for once. What the service did not tell is asked for again later in the run, up to a bound; rows behind it are
done meanwhile, and wait for their turn.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.books.batch.seen import Known, Outcome
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.books.not_found import restored
from airflow_provider_mediaops.exceptions import BadRequestError, MediaOpsError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_mediaops.books.batch.rows import Input
    from airflow_provider_mediaops.books.not_found import Judge, Ruling

#: Seconds after which a book that the service did not tell of is asked for again, each time.
AGAIN_AFTER = (10.0, 40.0, 120.0)
#: How many requests may be under way at a time.
IN_FLIGHT = 64
_BATCHES_IN_FLIGHT = 2
# So many failures in a row are the service's, not the books'.
_TROUBLE = 3
_LEFT_OUT = "The reply to a bulk request left it out; it was not asked for by itself (bulk_verify=True does that)."


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """
    Something to ask the service.

    :param kind: ``one`` book, ``many`` in one request, or a ``witness``.
    :param isbns: the books.
    """

    kind: Literal["one", "many", "witness"]
    isbns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What came of a job.

    :param number: that of the request which was answered, as :meth:`Course.sent` gave it.
    :param found: the records.
    :param missing: the books that got a 404, with the error of it.
    :param left_out: the books of which the reply to a bulk request says nothing.
    :param failed: the books of which the service did not tell, with the reason.
    :param unasked: the books that were not asked for in the end, and are to be asked for next.
    :param no_bulk: whether the service turned out to know no bulk requests.
    :param limited: whether a request had to be repeated because the key was at its limit.
    """

    number: int = 0
    found: Mapping[str, Book] = field(default_factory=dict)
    missing: Mapping[str, MediaOpsError] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    failed: Mapping[str, MediaOpsError] = field(default_factory=dict)
    unasked: Sequence[str] = ()
    no_bulk: bool = False
    limited: bool = False


@dataclass(frozen=True, slots=True)
class DoneRow:
    """
    One row that is done.

    :param lookup: what it came to.
    :param cause: where it is ``failed``, the error.
    """

    lookup: Lookup
    cause: MediaOpsError | None = None


@dataclass(slots=True)
class _Quest:
    """A book that is looked for: the rows that wait for it, and how often it was put off."""

    rows: list[tuple[int, str]]
    requests: int = 0
    put_off: int = 0


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """
    How a walk asks.

    :param window: how many rows at most are read and not handed out.
    :param ahead: how many rows are read ahead of those that are asked for.
    :param batch: how many books one request may ask for; 1 for requests for one book each.
    :param verify: whether books that the reply to a bulk request leaves out are asked for by themselves.
    :param again_after: seconds after which a book that the service did not tell of is asked for again, each time.
    :param max_failures: how many rows may be ``failed``; the next one ends the walk.
    """

    window: int = 1_000
    ahead: int = 100
    batch: int = 1
    verify: bool = False
    again_after: Sequence[float] = AGAIN_AFTER
    max_failures: int = 0


class Course:
    """
    The course of one walk.

    :param judge: decides on 404s.
    :param known: what was looked up before.
    :param options: how to ask.
    :param undecided: the books whose 404 an earlier attempt held (:meth:`Judge.undecided`).
    """

    def __init__(
        self, judge: Judge, known: Known, options: WalkOptions, undecided: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        self._judge = judge
        self._known = known
        self._options = options
        self._batch = options.batch
        self._undecided = dict(restored(undecided or {}))
        self._read = self._given = 0
        self._ended = self._stopped = False
        self._quests: dict[str, _Quest] = {}
        self._fresh: deque[str] = deque()
        self._again: deque[str] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = count()
        self._in_flight: set[Job] = set()
        self._unsent: set[Job] = set()
        self._troubles = self._failures = 0
        #: The error of the row that failed and was one too many.
        self.error: MediaOpsError | None = None
        self._done: dict[int, DoneRow] = {}

    @property
    def room(self) -> int:
        """How many more rows are wanted now."""
        if self._ended or self._stopped:
            return 0
        ahead = max(self._options.ahead, 2 * self._batch if self._batch > 1 else 0)
        return max(0, min(self._options.window - (self._read - self._given), ahead - len(self._fresh)))

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to ask for: all rows are done, or the walk was stopped."""
        return not self._in_flight and (self._stopped or (self._ended and not self._quests))

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is asked for, although there may be rows that are not done."""
        return self._stopped

    @property
    def rows_done(self) -> int:
        """How many rows are done, handed out or not."""
        return self._given + len(self._done)

    def resize(self, batch: int) -> None:
        """
        Ask for fewer books a request from now on.

        :param batch: how many at most; it does not matter where one request is for one book.
        """
        self._batch = min(self._batch, batch)

    def add(self, inputs: Iterable[Input], now: float) -> None:
        """
        Take rows in.

        :param inputs: the next rows of the list.
        :param now: the time, in seconds that never run backwards.
        """
        for row in inputs:
            position, self._read = self._read, self._read + 1
            if row.isbn13 is None:
                self._done[position] = DoneRow(Lookup(row.text, None, "invalid", error=row.error))
            elif quest := self._quests.get(row.isbn13):
                quest.rows.append((position, row.text))
            elif outcome := self._known.get(row.isbn13):
                self._done[position] = _done(row.text, row.isbn13, outcome)
            else:
                self._quests[row.isbn13] = _Quest([(position, row.text)])
                if error := self._undecided.pop(row.isbn13, None):
                    self._judge.missing(row.isbn13, error, now)
                else:
                    self._fresh.append(row.isbn13)

    def end(self) -> None:
        """Say that there are no more rows."""
        self._ended = True

    def stop(self) -> None:
        """Ask for nothing more; what is under way may still be answered."""
        self._stopped = True

    def next_job(self, now: float) -> Job | None:
        """
        Say what to ask for now; the next job comes when this one's request is sent.

        So a process holds one reserved slot of the key's rate at a time, and as many requests are under way as the
        service's delay makes of the rate.

        :param now: the time.
        :returns: the job, or None.
        """
        if self._stopped or self._unsent or len(self._in_flight) >= (1 if self._is_careful else IN_FLIGHT):
            return None
        self._settle(now)
        job = self._choose(now)
        if job:
            self._in_flight.add(job)
            self._unsent.add(job)
        return job

    def sent(self, job: Job) -> int:
        """
        Take note of a request that is sent, and give its number.

        :param job: the job that it is for.
        """
        self._unsent.discard(job)
        if job.kind == "one" and (quest := self._quests.get(job.isbns[0])):
            quest.requests += 1
        return self._judge.send()

    def found(self, books: Mapping[str, Book], number: int, now: float) -> None:
        """
        Take in some of the books that a job has found, before its end.

        :param books: the records.
        :param number: that of the request that was answered.
        :param now: the time.
        """
        for isbn13, book in books.items():
            self._judge.found(isbn13, number, now)
            self._finish(isbn13, Outcome("found", book=book))

    def ended(self, job: Job, answer: Answer, now: float) -> None:
        """
        Take in what came of a job.

        :param job: the job.
        :param answer: what came of it; its books may have been taken in before.
        :param now: the time.
        """
        self._in_flight.discard(job)
        self._unsent.discard(job)
        self._troubles = self._troubles + bool(answer.failed) if not answer.found else 0
        if answer.limited:
            self._judge.see_limit(now)
        if job.kind == "witness":
            errors = (*answer.missing.values(), *answer.failed.values())
            self._judge.checked(next(iter(errors), None), answer.number, now)
        else:
            self._take_in(job, answer, now)
        self._settle(now)

    def abandoned(self, job: Job) -> None:
        """Take note of a job that ended without an answer."""
        self._in_flight.discard(job)
        self._unsent.discard(job)

    def wakes_at(self) -> float | None:
        """Give the time at which there may be something to ask for although nothing has come in."""
        times = (self._judge.wakes_at(), self._later[0][0] if self._later else None)
        return min((time for time in times if time is not None), default=None)

    def take(self) -> list[DoneRow]:
        """Hand out the rows that are done and whose turn it is, up to one that failed and is one too many."""
        taken = []
        while not self.error and (done := self._done.get(self._given)):
            if done.cause and self._failures >= self._options.max_failures:
                self.error = done.cause
                break
            self._failures += done.cause is not None
            taken.append(self._done.pop(self._given))
            self._given += 1
        return taken

    def ahead(self) -> list[DoneRow]:
        """Give the rows that are done and wait for one before them."""
        return list(self._done.values())

    @property
    def _is_careful(self) -> bool:
        return self._judge.doubts_key or self._troubles >= _TROUBLE

    @property
    def _is_idle(self) -> bool:
        waiting = self._again or (self._fresh and not self._is_careful)
        return not (self._in_flight or waiting or self.room)

    def _choose(self, now: float) -> Job | None:
        if witness := self._judge.check(now, idle=self._is_idle):
            return Job("witness", (witness,))
        if self._judge.doubts_key:
            return None
        if self._again:
            return Job("one", (self._again.popleft(),))
        if self._later and self._later[0][0] <= now:
            return heapq.heappop(self._later)[2]
        # While the service fails, the books that are put off find out whether it still does.
        return None if self._later and self._is_careful else self._choose_fresh()

    def _choose_fresh(self) -> Job | None:
        size = self._batch
        if not self._fresh:
            return None
        if size == 1:
            return Job("one", (self._fresh.popleft(),))
        many = sum(job.kind == "many" for job in self._in_flight)
        if many >= _BATCHES_IN_FLIGHT or (len(self._fresh) < size and self.room):
            return None
        return Job("many", tuple(self._fresh.popleft() for _ in range(min(size, len(self._fresh)))))

    def _settle(self, now: float) -> None:
        for ruling in self._judge.rulings(now, idle=self._is_idle):
            self._follow(ruling, now)

    def _follow(self, ruling: Ruling, now: float) -> None:
        if ruling.what == "again":
            self._again.append(ruling.isbn13)
        elif ruling.what == "later":
            self._troubles += 1
            self._put_off(Job("one", (ruling.isbn13,)), {ruling.isbn13: ruling.error}, now)
        else:
            self._troubles = 0
            left_out = ruling.error.message == _LEFT_OUT
            self._finish(ruling.isbn13, Outcome("not_found", _LEFT_OUT if left_out else None))

    def _take_in(self, job: Job, answer: Answer, now: float) -> None:
        rest = {isbn13: book for isbn13, book in answer.found.items() if isbn13 in self._quests}
        self.found(rest, answer.number, now)
        for isbn13, error in answer.missing.items():
            self._judge.missing(isbn13, error, now)
        if answer.no_bulk:
            self._batch = 1
        self._fresh.extendleft(reversed(answer.unasked))
        for isbn13 in answer.left_out:
            if self._options.verify:
                self._again.append(isbn13)
            elif answer.found:
                self._finish(isbn13, Outcome("not_found", _LEFT_OUT))
            else:
                # A reply without any book is no better than a run of 404s.
                self._judge.missing(isbn13, NotFoundError(_LEFT_OUT), now)
        self._put_off(job, answer.failed, now)

    def _put_off(self, job: Job, failed: Mapping[str, MediaOpsError], now: float) -> None:
        again: dict[float, list[str]] = {}
        for isbn13, error in failed.items():
            quest = self._quests[isbn13]
            if quest.put_off >= len(self._options.again_after) or isinstance(error, BadRequestError):
                self._finish(isbn13, Outcome("failed", error.message), error)
            else:
                again.setdefault(self._options.again_after[quest.put_off], []).append(isbn13)
                quest.put_off += 1
        for pause, isbns in again.items():
            heapq.heappush(self._later, (now + pause, next(self._numbers), Job(job.kind, tuple(isbns))))

    def _finish(self, isbn13: str, outcome: Outcome, cause: MediaOpsError | None = None) -> None:
        self._judge.forget(isbn13)
        quest = self._quests.pop(isbn13)
        if not cause:
            self._known.put(isbn13, outcome)
        requests = quest.requests
        for position, text in quest.rows:
            self._done[position] = _done(text, isbn13, outcome, requests, cause)
            requests = 0


def _done(text: str, isbn13: str, outcome: Outcome, requests: int = 0, cause: MediaOpsError | None = None) -> DoneRow:
    lookup = Lookup(text, isbn13, outcome.status, error=outcome.error, book=outcome.book, requests=requests)
    return DoneRow(lookup, cause)
