"""
The scheduler of a list of ISBNs: which request is next, the result of each row, and the order of the rows.

It sends nothing and reads no clock. Look-ups that are done may go to a temporary file
(:mod:`airflow_provider_mediaops.books.batch.seen`).

Rows come in, jobs go out, results come in, rows go out in the order in which they came. A book that many rows name is
asked for once. If the service fails or is rate-limited, the book is retried later in the run, up to a bound. Rows
behind it are done meanwhile, and wait for their turn.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.batch.jobs import Job, JobResult
from airflow_provider_mediaops.books.batch.seen import ResumePoint
from airflow_provider_mediaops.books.held_not_found import restored
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.held_not_found import Decision, HeldNotFounds

#: The pauses in seconds after which a book that got no answer is retried.
RETRY_AFTER_SECONDS = (10.0, 40.0, 120.0)
#: The maximum number of requests under way at a time.
IN_FLIGHT = 64
_BATCHES_IN_FLIGHT = 2
# So many failures in a row are the service's, not the books'.
_TROUBLE = 3
_LEFT_OUT = "The reply to a bulk request left it out; it was not asked for by itself (bulk_verify=True does that)."


@dataclass(slots=True)
class _Pending:
    """A book that is looked up: the rows that wait for it, its requests, and how often it was put off."""

    rows: list[tuple[int, str]]
    requests: int = 0
    put_off: int = 0


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """
    How a list is looked up.

    :param window: the maximum number of rows that are read and not handed out.
    :param ahead: the number of rows that are read ahead of the requests.
    :param bulk_size: the maximum number of books in one request; 1 for requests for one book each.
    :param bulk_verify: whether all books that the reply to a bulk request leaves out are asked for by themselves, not
        only one of them.
    :param retry_after: the pauses in seconds after which a book that got no answer is retried.
    :param max_failures: the number of rows that may be ``failed``; the next one ends the batch.
    """

    window: int = 1_000
    ahead: int = 100
    bulk_size: int = 1
    bulk_verify: bool = False
    retry_after: Sequence[float] = RETRY_AFTER_SECONDS
    max_failures: int = 0

    def with_bulk(self, size: int) -> BatchOptions:
        """
        Return the options for bulk requests.

        :param size: the maximum number of books in one request.
        """
        # Some of them wait in order for others, and some are read ahead.
        return replace(self, bulk_size=size, window=max(self.window, 3 * size))


class LookupScheduler:
    """
    The scheduler of one batch.

    :param held: decides on 404s.
    :param options: how the list is looked up.
    :param resume: the state that an earlier attempt has left.
    """

    def __init__(self, held: HeldNotFounds, options: BatchOptions, resume: ResumePoint | None = None) -> None:
        resume = resume or ResumePoint()
        self._held = held
        self._seen = resume.seen
        self._options = options
        self._bulk_size = options.bulk_size
        self._verify = options.bulk_verify
        # The other books that a reply has left out, by the one of them that is asked for by itself.
        self._samples: dict[str, list[str]] = {}
        self._undecided = dict(restored(resume.undecided))
        self._read = self._given = 0
        self._ended = self._stopped = False
        self._pending: dict[str, _Pending] = {}
        self._fresh: deque[str] = deque()
        self._again: deque[str] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = count()
        self._in_flight: set[Job] = set()
        self._unsent: set[Job] = set()
        self._troubles = self._failures = 0
        #: The error of the row that failed and was one too many.
        self.error: MediaOpsError | None = None
        self._done: dict[int, Lookup] = {}

    @property
    def room(self) -> int:
        """How many more rows are wanted now."""
        if self._ended or self._stopped:
            return 0
        ahead = max(self._options.ahead, 2 * self._bulk_size if self._bulk_size > 1 else 0)
        return max(0, min(self._options.window - (self._read - self._given), ahead - len(self._fresh)))

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to ask for: all rows are done, or the batch was stopped."""
        return not self._in_flight and (self._stopped or (self._ended and not self._pending))

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is asked for, although there may be rows that are not done."""
        return self._stopped

    @property
    def rows_done(self) -> int:
        """How many rows are done, handed out or not."""
        return self._given + len(self._done)

    def resize(self, bulk_size: int) -> None:
        """
        Ask for fewer books a request from now on.

        :param bulk_size: the maximum; it changes nothing if each request is for one book.
        """
        self._bulk_size = min(self._bulk_size, bulk_size)

    def add(self, rows: Iterable[IsbnRow], now: float) -> None:
        """
        Take rows in.

        :param rows: the next rows of the list.
        :param now: the time, in seconds that never run backwards.
        """
        for row in rows:
            position, self._read = self._read, self._read + 1
            if row.isbn13 is None:
                self._done[position] = Lookup(row.text, None, "invalid", error=row.error)
            elif pending := self._pending.get(row.isbn13):
                pending.rows.append((position, row.text))
            elif lookup := self._seen.get(row.isbn13, row.text):
                self._done[position] = lookup
            else:
                self._pending[row.isbn13] = _Pending([(position, row.text)])
                if error := self._undecided.pop(row.isbn13, None):
                    self._held.missing(row.isbn13, error, now)
                else:
                    self._fresh.append(row.isbn13)

    def end(self) -> None:
        """Take note that there are no more rows."""
        self._ended = True

    def stop(self) -> None:
        """Ask for nothing more; requests under way may still be answered."""
        self._stopped = True

    def next_job(self, now: float) -> Job | None:
        """
        Return the next job; there is another when the request of this one is sent.

        So a process holds one reserved slot of the key's rate at a time, and as many requests are under way as the
        rate and the service's delay call for.

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
        Count a request that is sent.

        :param job: the job that it is for.
        :returns: its number.
        """
        self._unsent.discard(job)
        if job.kind == "one" and (pending := self._pending.get(job.isbns[0])):
            pending.requests += 1
        return self._held.send()

    def found(self, books: Mapping[str, Book], number: int, now: float) -> None:
        """
        Take in some of the books that a job has found, before its end.

        :param books: the records.
        :param number: the number of the request that was answered.
        :param now: the time.
        """
        for isbn13, book in books.items():
            self._held.found(isbn13, number, now)
            self._finish(Lookup(isbn13, isbn13, "found", book=book))

    def ended(self, job: Job, result: JobResult, now: float) -> None:
        """
        Take in the result of a job.

        :param job: the job.
        :param result: its result; its books may have been taken in before.
        :param now: the time.
        """
        self._in_flight.discard(job)
        self._unsent.discard(job)
        works = result.found or (job.kind == "witness" and not (result.missing or result.failed))
        self._troubles = 0 if works else self._troubles + bool(result.failed)
        if result.limited:
            self._held.see_limit(now)
        if job.kind == "witness":
            errors = (*result.missing.values(), *result.failed.values())
            self._held.checked(job.isbns[0], next(iter(errors), None), result.number, now)
        else:
            self._take_in(job, result, now)
        self._settle(now)

    def abandoned(self, job: Job) -> None:
        """Take note of a job that ended without a result."""
        self._in_flight.discard(job)
        self._unsent.discard(job)

    def wakes_at(self) -> float | None:
        """Return the time at which there may be a job although nothing has come in; None if there is none."""
        times = (self._held.wakes_at(), self._later[0][0] if self._later else None)
        return min((time for time in times if time is not None), default=None)

    def take(self) -> list[Lookup]:
        """Return the rows that are done and whose turn it is, up to the first failure that is one too many."""
        taken = []
        while not self.error and (done := self._done.get(self._given)):
            if done.cause and self._failures >= self._options.max_failures:
                self.error = done.cause
                break
            self._failures += done.cause is not None
            taken.append(self._done.pop(self._given))
            self._given += 1
        return taken

    def out_of_order(self) -> list[Lookup]:
        """Return the rows that are done and wait for one before them."""
        return list(self._done.values())

    @property
    def _is_careful(self) -> bool:
        return self._held.doubts_key or self._troubles >= _TROUBLE

    @property
    def _is_idle(self) -> bool:
        waiting = self._again or (self._fresh and not self._is_careful)
        return not (self._in_flight or waiting or self.room)

    def _choose(self, now: float) -> Job | None:
        if witness := self._held.check(now, idle=self._is_idle):
            return Job("witness", (witness,))
        if self._held.doubts_key:
            return None
        if self._again:
            return Job("one", (self._again.popleft(),))
        if self._later and self._later[0][0] <= now:
            return heapq.heappop(self._later)[2]
        # While the service fails, the books that are put off find out whether it still does.
        return None if self._later and self._is_careful else self._choose_fresh()

    def _choose_fresh(self) -> Job | None:
        size = self._bulk_size
        if not self._fresh:
            return None
        if size == 1:
            return Job("one", (self._fresh.popleft(),))
        many = sum(job.kind == "many" for job in self._in_flight)
        if many >= _BATCHES_IN_FLIGHT or (len(self._fresh) < size and self.room):
            return None
        return Job("many", tuple(self._fresh.popleft() for _ in range(min(size, len(self._fresh)))))

    def _settle(self, now: float) -> None:
        for decision in self._held.decisions(now, idle=self._is_idle):
            self._follow(decision, now)

    def _follow(self, decision: Decision, now: float) -> None:
        if decision.action == "again":
            self._again.append(decision.isbn13)
        elif decision.action == "later":
            # That nothing vouches for a book is no trouble of the service: the next book may be found.
            self._troubles += not isinstance(decision.error, InvalidConnectionError)
            self._put_off(Job("one", (decision.isbn13,)), {decision.isbn13: decision.error}, now)
        else:
            self._troubles = 0
            self._missing(decision.isbn13, None)

    def _take_in(self, job: Job, result: JobResult, now: float) -> None:
        rest = {isbn13: book for isbn13, book in result.found.items() if isbn13 in self._pending}
        self.found(rest, result.number, now)
        for isbn13, error in result.missing.items():
            self._held.missing(isbn13, error, now)
        if result.no_bulk:
            self._bulk_size = 1
        self._fresh.extendleft(reversed(result.unasked))
        if self._verify:
            self._again.extend(result.left_out)
        elif result.left_out:
            # It is asked for by itself, to find out whether the service has none of these books or only names fewer.
            sample, *others = result.left_out
            self._samples[sample] = others
            self._again.append(sample)
        self._put_off(job, result.failed, now)

    def _put_off(self, job: Job, failed: Mapping[str, MediaOpsError], now: float) -> None:
        again: dict[float, list[str]] = {}
        for isbn13, error in failed.items():
            pending = self._pending[isbn13]
            # A captive portal never answers rightly. So such a reply is retried only once a book was found.
            elsewhere = isinstance(error, InvalidReplyError) and not self._held.evidence.found_now
            # What nothing vouches for stays so unless another book is found.
            alone = isinstance(error, InvalidConnectionError) and not (self._fresh or self.room or self._in_flight)
            hopeless = elsewhere or alone or isinstance(error, BadRequestError)
            if hopeless or pending.put_off >= len(self._options.retry_after):
                self._finish(Lookup(isbn13, isbn13, "failed", error=error.message, cause=error))
            else:
                again.setdefault(self._options.retry_after[pending.put_off], []).append(isbn13)
                pending.put_off += 1
        for pause, isbns in again.items():
            heapq.heappush(self._later, (now + pause, next(self._numbers), Job(job.kind, tuple(isbns))))

    def _missing(self, isbn13: str, error: str | None) -> None:
        self._finish(Lookup(isbn13, isbn13, "not_found", error=error))

    def _finish(self, lookup: Lookup) -> None:
        isbn13 = str(lookup.isbn13)
        self._held.forget(isbn13)
        if not lookup.cause:
            self._seen.put(lookup)
        pending = self._pending.pop(isbn13)
        requests = pending.requests
        for position, text in pending.rows:
            self._done[position] = replace(lookup, input=text, requests=requests)
            requests = 0
        is_sample, rest = isbn13 in self._samples, self._samples.pop(isbn13, [])
        if lookup.status == "not_found":
            for other in rest:
                self._missing(other, _LEFT_OUT)
        else:
            # A service that leaves out a book that it has says nothing of the others.
            self._verify = self._verify or (is_sample and lookup.status == "found")
            self._again.extend(rest)
