"""
The scheduler of a list of ISBNs: which request is next, the result of each row, and the order of the rows.

It sends nothing. Look-ups that are done may go to a temporary file
(:mod:`airflow_provider_mediaops.books.batch.seen`).

Rows come in, jobs go out, results come in, rows go out in the order in which they came. A book that many rows name is
asked for once. If the service fails or is rate-limited, the book is retried later in the run, up to a bound. Rows
behind it are done meanwhile, and wait for their turn.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.batch.requests import Job, JobResult
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.options import BatchOptions, EarlierLookup
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.batch.seen import SeenLookups
    from airflow_provider_mediaops.books.held_not_found import Decision, HeldNotFounds

#: The maximum number of requests under way at a time.
IN_FLIGHT = 64
_BATCHES_IN_FLIGHT = 2
# So many failures in a row are the service's, not the books'.
_TROUBLE = 3
_NOT_ASKED = "max_requests was reached before there was an answer for it."
_LEFT_OUT = "A bulk reply left it out, with another book that is missing; it was not asked for by itself."


class OrderedRows:
    """
    The rows of a batch, which are done in any order and handed out in that of the list.

    The row that fails and is one too many is not handed out, nor any after it.
    """

    def __init__(self, max_failures: int) -> None:
        self._failures_left = max_failures
        self._taken_in = self._handed_out = 0
        self._done: dict[int, Lookup] = {}
        # Those of them that the next attempt would have to ask for again.
        self._saved: dict[int, Lookup] = {}
        #: The error of the row that failed and was one too many.
        self.error: MediaOpsError | None = None

    @property
    def held(self) -> int:
        """How many rows were taken in and are not handed out."""
        return self._taken_in - self._handed_out

    @property
    def done(self) -> int:
        """How many rows are done, handed out or not."""
        return self._handed_out + len(self._done)

    def take_in(self) -> int:
        """Take in the next row of the list, and return its position."""
        position, self._taken_in = self._taken_in, self._taken_in + 1
        return position

    def finish(self, position: int, lookup: Lookup, *, is_saved: bool = False) -> None:
        """Take note of a row that is done."""
        self._done[position] = lookup
        if is_saved:
            self._saved[position] = lookup

    def hand_out(self) -> list[Lookup]:
        """Return the rows that are done and whose turn it is, up to the first failure that is one too many."""
        turn: list[Lookup] = []
        while not self.error and (done := self._done.get(self._handed_out)):
            if done.cause and self._failures_left <= 0:
                self.error = done.cause
                break
            self._failures_left -= done.cause is not None
            turn.append(self._done.pop(self._handed_out))
            self._saved.pop(self._handed_out, None)
            self._handed_out += 1
        return turn

    def out_of_order(self) -> list[Lookup]:
        """Return the rows to be saved that are done and wait for one before them."""
        return list(self._saved.values())


@dataclass(slots=True)
class _Pending:
    """A book that is looked up."""

    rows: list[tuple[int, str]]  # that wait for it: the position and the text of each
    earlier: Lookup | None = None  # what an earlier dataset holds, if that is too old
    requests: int = 0
    put_off: int = 0  # how often
    like_it: Sequence[str] = ()  # books that a bulk reply has left out with it, if it is asked for as their sample


class LookupScheduler:
    """The scheduler of one batch; ``time_text`` returns the date and time, for the rows that are done."""

    def __init__(
        self,
        held: HeldNotFounds,
        options: BatchOptions,
        seen: SeenLookups,
        time_text: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._held = held
        self._options = options
        self._budget = options.budget
        self._seen = seen
        self._time_text = time_text
        self._bulk_size = options.bulk_size
        # The most books that were in one request that worked.
        self._most_at_once = 1
        # Whether the service has books that its bulk replies leave out.
        self._names_fewer = False
        #: The rows in their order.
        self.rows = OrderedRows(options.max_failures)
        self._ended = self._stopped = False
        self._pending: dict[str, _Pending] = {}
        # What to ask for: books that nobody has asked for, what is asked for once more now, and what is later.
        self._fresh: deque[str] = deque()
        self._again: deque[Job] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = count()
        self._in_flight: set[Job] = set()
        self._unsent: Job | None = None
        self._troubles = 0

    @property
    def room(self) -> int:
        """How many more rows are wanted now."""
        if self._ended or self._stopped:
            return 0
        ahead = max(self._options.ahead, 2 * self._bulk_size if self._bulk_size > 1 else 0)
        return max(0, min(self._options.window - self.rows.held, ahead - len(self._fresh)))

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to ask for: all rows are done, or the batch was stopped."""
        return not self._in_flight and (self._stopped or (self._ended and not self._pending))

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is asked for, although there may be rows that are not done."""
        return self._stopped

    def add(self, rows: Sequence[IsbnRow], now: float) -> None:
        """Take rows in."""
        isbns = [row.isbn13 for row in rows if row.isbn13]
        earlier = self._options.earlier.find(isbns) if self._options.earlier else {}
        for row in rows:
            position = self.rows.take_in()
            if row.isbn13 is None:
                self.rows.finish(position, Lookup(row.text, None, row.status, error=row.error))
            elif pending := self._pending.get(row.isbn13):
                pending.rows.append((position, row.text))
            else:
                self._look_up(position, row.text, row.isbn13, earlier.get(row.isbn13), now)

    def _look_up(self, position: int, text: str, isbn13: str, earlier: EarlierLookup | None, now: float) -> None:
        if earlier and earlier.is_fresh:
            self.rows.finish(position, earlier.lookup.as_row(text))
        elif lookup := self._seen.get(isbn13, text):
            self.rows.finish(position, lookup)
        elif earlier and not earlier.may_refresh:
            self.rows.finish(position, earlier.lookup.as_row(text))
        else:
            self._pending[isbn13] = _Pending([(position, text)], earlier.lookup if earlier else None)
            if not self._held.resume(isbn13, now):
                self._fresh.append(isbn13)

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
        """
        if self._stopped or self._unsent or len(self._in_flight) >= (1 if self._is_careful else IN_FLIGHT):
            return None
        self._settle(now)
        if not self._budget.left and not self._in_flight:
            self._end_unasked(now)
        job = self._choose(now) if self._budget.left else None
        if job:
            self._in_flight.add(job)
            self._unsent = job
        return job

    def sent(self, job: Job, books: int = 1) -> int:
        """Count a request that is about to be sent, and return its number."""
        self._budget.spend(books)
        self._unsent = None if self._unsent is job else self._unsent
        if job.kind == "one" and (pending := self._pending.get(job.isbns[0])):
            pending.requests += 1
        return self._held.send()

    def found(self, books: Mapping[str, Book], number: int, now: float) -> None:
        """Take in some of the books that a job has found, before its end."""
        for isbn13, book in books.items():
            self._held.found(isbn13, number, now)
            self._finish(Lookup(isbn13, isbn13, "found", book=book, fetched_at=self._time_text()))

    def ended(self, job: Job, result: JobResult, now: float) -> None:
        """Take in the result of a job."""
        self.abandoned(job)
        works = result.found or (job.kind == "probe" and not (result.missing or result.failed))
        self._troubles = 0 if works else self._troubles + bool(result.failed)
        if result.limited:
            self._held.see_limit(now)
        if job.kind == "probe":
            errors = (*result.missing.values(), *result.failed.values())
            self._held.checked(job.isbns[0], next(iter(errors), None), result.number, now)
        else:
            self._take_in(job, result, now)
        self._settle(now)

    def abandoned(self, job: Job) -> None:
        """Take note of a job that ended without a result."""
        self._in_flight.discard(job)
        self._unsent = None if self._unsent is job else self._unsent

    def wakes_at(self) -> float | None:
        """Return the time at which there may be a job although nothing has come in; None if there is none."""
        times = (self._held.wakes_at(), self._later[0][0] if self._later else None)
        return min((time for time in times if time is not None), default=None)

    @property
    def _is_careful(self) -> bool:
        return self._held.doubts_key or self._troubles >= _TROUBLE

    @property
    def _is_idle(self) -> bool:
        waiting = self._again or (self._fresh and not self._is_careful)
        return not (self._in_flight or waiting or self.room)

    def _choose(self, now: float) -> Job | None:
        if probe := self._held.check(now, idle=self._is_idle):
            return Job("probe", (probe,))
        if self._held.doubts_key:
            return None
        if self._again:
            return self._again.popleft()
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
        books = int(min(size, len(self._fresh), self._budget.left))
        return Job("many", tuple(self._fresh.popleft() for _ in range(books)))

    def _settle(self, now: float) -> None:
        for decision in self._held.decisions(now, idle=self._is_idle):
            self._follow(decision, now)

    def _follow(self, decision: Decision, now: float) -> None:
        if decision.action == "again":
            self._ask_again([decision.isbn13])
        elif decision.action == "later":
            # That nothing confirms a 404 is no trouble of the service: the next book may be found.
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
        if job.kind == "many":
            self._resize(len(job.isbns), result)
        if result.is_too_much:
            half = len(job.isbns) // 2
            self._again.extend((Job("many", job.isbns[:half]), Job("many", job.isbns[half:])))
        self._fresh.extendleft(reversed(result.unasked))
        self._ask_again([*self._to_ask(result.left_out), *result.alone])
        self._put_off(job, result.failed, now)

    def _resize(self, books: int, result: JobResult) -> None:
        """Learn from a bulk request for so many books how many the next ones may have."""
        if result.takes is None:
            if result.found or result.left_out:
                self._most_at_once = max(self._most_at_once, books)
            # If a larger request was refused for one of its books, the half without that book works.
            self._bulk_size = max(self._bulk_size, self._most_at_once)
        elif not result.is_too_much or result.takes >= self._most_at_once:
            self._bulk_size = min(self._bulk_size, result.takes)
            self._most_at_once = min(self._most_at_once, result.takes)

    def _ask_again(self, isbns: Iterable[str]) -> None:
        self._again.extend(Job("one", (isbn13,)) for isbn13 in isbns)

    def _put_off(self, job: Job, failed: Mapping[str, MediaOpsError], now: float) -> None:
        again: dict[float, list[str]] = {}
        for isbn13, error in failed.items():
            pending = self._pending[isbn13]
            # A captive portal never answers rightly. So such a reply is retried only once a book was found.
            elsewhere = isinstance(error, InvalidReplyError) and not self._held.evidence.found_now
            # What nothing confirms stays so unless another book is found.
            alone = isinstance(error, InvalidConnectionError) and not (self._fresh or self.room or self._in_flight)
            hopeless = elsewhere or alone or isinstance(error, BadRequestError)
            if hopeless or pending.put_off >= len(self._options.retry_after):
                without = Lookup(isbn13, isbn13, "failed", error=error.message, cause=error)
                # A record of some months ago is worth more than none.
                self._finish(replace(pending.earlier, cause=error) if pending.earlier else without)
            else:
                again.setdefault(self._options.retry_after[pending.put_off], []).append(isbn13)
                pending.put_off += 1
        for pause, isbns in again.items():
            heapq.heappush(self._later, (now + pause, next(self._numbers), Job(job.kind, tuple(isbns))))

    def _to_ask(self, left_out: Sequence[str]) -> Sequence[str]:
        """
        Return which of the books that a bulk reply leaves out are asked for by themselves.

        One is, their sample: it shows whether the service has none of them, or only names fewer.
        """
        if self._names_fewer or not left_out:
            return left_out
        sample, *others = left_out
        self._pending[sample].like_it = others
        return [sample]

    def _settle_like(self, sample: Lookup, others: Sequence[str]) -> None:
        """Finish the books whose sample is missing, or ask for each of them."""
        if sample.status == "not_found" and not sample.cause:
            for other in others:
                self._missing(other, _LEFT_OUT)
            return
        self._names_fewer = self._names_fewer or sample.status == "found"
        self._ask_again(others)

    def _missing(self, isbn13: str, error: str | None) -> None:
        self._finish(Lookup(isbn13, isbn13, "not_found", error=error, fetched_at=self._time_text()))

    def _end_unasked(self, now: float) -> None:
        """End the rows of all books for which no request is left."""
        for decision in self._held.decisions(now, idle=True):
            if decision.action == "not_found":
                self._missing(decision.isbn13, None)
        for waiting in (self._fresh, self._again, self._later):
            waiting.clear()
        self._held.forget_all()
        for isbn13, pending in list(self._pending.items()):
            pending.like_it = ()
            self._finish(pending.earlier or Lookup(isbn13, isbn13, "not_asked", error=_NOT_ASKED))

    def _finish(self, lookup: Lookup) -> None:
        isbn13 = str(lookup.isbn13)
        self._held.forget(isbn13)
        if lookup.status != "failed":
            # Other rows that name the book are the same. They count as no further failure.
            self._seen.put(replace(lookup, cause=None) if lookup.cause else lookup)
        pending = self._pending.pop(isbn13)
        requests = pending.requests
        for position, text in pending.rows:
            self.rows.finish(position, replace(lookup, input=text, requests=requests), is_saved=not lookup.cause)
            requests = 0
        if pending.like_it:
            self._settle_like(lookup, pending.like_it)
