"""
The scheduler of a list of ISBNs: which request is next, what becomes of each row, and the order of the rows.

It sends nothing: a request is a call flow, which tells the scheduler what came of it.

Rows come in, jobs go out, rows go out in the order in which they came. A book that many rows name is asked for once. If
the service fails or is rate-limited, the book is retried later in the run, up to a bound. Rows behind it are done
meanwhile, and wait for their turn.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.books.api import get_book, get_books
from airflow_provider_mediaops.books.batch.options import RequestsSpentError
from airflow_provider_mediaops.books.lookup import send_probe
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.books.not_found import NOT_FOUND_ERRORS, undecided
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    ConnectionFailedError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    PermissionDeniedError,
    QuotaExceededError,
    RateStoreError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError, Wait, observed

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.api import BulkReply
    from airflow_provider_mediaops.books.batch.options import BatchOptions, EarlierLookup, SeenLookups
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.held_not_found import HeldNotFounds
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Call, CallFlow, Step

T = TypeVar("T")

#: The maximum number of requests under way at a time.
IN_FLIGHT = 64
_BATCHES_IN_FLIGHT = 2
# So many failures in a row are the service's, not the books'.
_TROUBLE = 3
_NOT_ASKED = "max_requests was reached before there was an answer for it."
_LEFT_OUT = "A bulk reply left it out, with another book that is missing; it was not asked for by itself."
_NO_BULK = "The book database has no bulk requests (POST /books) for this key: books are asked for one by one."
#: The number of rows or books that are taken in before the event loop runs other tasks; each may need a look into a
#: file.
SLICE = 50

# These are about the key or the list, not about one book: every other ISBN would meet them too.
_ABOUT_THE_KEY = (
    AuthenticationError,
    PermissionDeniedError,
    QuotaExceededError,
    InvalidConnectionError,
    RateStoreError,
)
# If the first request gets no answer for so long, the list ends.
_NO_ANSWER = (ConnectionFailedError, ReplyTimeoutError)
_FIRST_CONTACT_SECONDS = 20.0
# The statuses by which a service says that it has no bulk requests.
_NO_BULK_STATUSES = (403, 404, 405, 410, 501)


@dataclass(slots=True, eq=False)
class _Row:
    """A row of the list that was taken in and is not handed out."""

    text: str
    lookup: Lookup | None = None
    is_saved: bool = False  # whether the next attempt would have to ask for it again


@dataclass(slots=True, eq=False)
class _Job:
    """One thing to ask the service for: one book, many in one request, or a probe."""

    isbns: tuple[str, ...]
    is_probe: bool = False
    number: int = 0  # of its last request; 0 until it is sent

    @property
    def is_bulk(self) -> bool:
        """Whether it is a bulk request."""
        return len(self.isbns) > 1


@dataclass(slots=True)
class _Pending:
    """A book that is looked up."""

    rows: list[_Row]  # that wait for it
    earlier: Lookup | None = None  # what an earlier dataset holds, if that is too old
    requests: int = 0
    put_off: int = 0  # how often
    like_it: Sequence[str] = ()  # books that a bulk reply has left out with it, if it is asked for as their sample


class _TooMuchError(Exception):
    """The service could not give so many records at once."""


@dataclass(slots=True)
class LookupScheduler:
    """The scheduler of one batch."""

    _client: Client
    _held: HeldNotFounds
    _options: BatchOptions
    _seen: SeenLookups
    _on_sent: Callable[[], None]  # called when there may be another job
    _warn: Callable[[str], None]  # for the log
    # Whether there are no more rows; whether nothing more is asked for, although there may be rows to be done.
    has_ended: bool = False
    is_stopped: bool = False
    has_answered: bool = False  # whether there was any reply
    trouble: str | None = None  # why the last request that failed did so; None once another has succeeded
    failure_too_many: MediaOpsError | None = None  # the error of the row that failed and was one too many
    done: int = 0  # rows that are done, handed out or not
    # In the order of the list.
    _rows: deque[_Row] = field(default_factory=deque)
    _failures_left: int = field(init=False)
    _bulk_size: int = field(init=False)
    _most_at_once: int = 1  # the most books that were in one request that worked
    _bulk_works: bool = False
    _names_fewer: bool = False  # whether the service has books that its bulk replies leave out
    _pending: dict[str, _Pending] = field(default_factory=dict)
    # What to ask for: books that nobody has asked for, what is asked for once more now, and what is later.
    _fresh: deque[str] = field(default_factory=deque)
    _again: deque[_Job] = field(default_factory=deque)
    _later: list[tuple[float, _Job]] = field(default_factory=list)
    _in_flight: set[_Job] = field(default_factory=set)
    _troubles: int = 0

    def __post_init__(self) -> None:
        self._failures_left = self._options.max_failures
        self._bulk_size = self._options.bulk_size

    @property
    def room(self) -> int:
        """How many more rows are wanted now."""
        if self.has_ended or self.is_stopped:
            return 0
        ahead = max(self._options.ahead, 2 * self._bulk_size if self._bulk_size > 1 else 0)
        return max(0, min(self._options.window - len(self._rows), ahead - len(self._fresh)))

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to ask for: all rows are done, or the batch was stopped."""
        return self.is_stopped or (self.has_ended and not self._pending)

    def add(self, rows: Sequence[IsbnRow]) -> None:
        """Take rows in."""
        isbns = [row.isbn13 for row in rows if row.isbn13]
        earlier = self._options.earlier(isbns) if self._options.earlier else {}
        for each in rows:
            row = _Row(each.text)
            self._rows.append(row)
            if each.isbn13 is None:
                self._end_row(row, Lookup(each.text, None, each.status, error=each.error))
            elif pending := self._pending.get(each.isbn13):
                pending.rows.append(row)
            else:
                self._look_up(row, each.isbn13, earlier.get(each.isbn13))

    def _look_up(self, row: _Row, isbn13: str, earlier: EarlierLookup | None) -> None:
        lookup = self._seen.get(isbn13) or (earlier.lookup if earlier and earlier.stays else None)
        if lookup:
            self._end_row(row, lookup)
            return
        self._pending[isbn13] = _Pending([row], earlier.lookup if earlier else None)
        if not self._held.resume(isbn13):
            self._fresh.append(isbn13)

    def _end_row(self, row: _Row, lookup: Lookup, requests: int = 0) -> None:
        row.lookup = replace(lookup, input=row.text, requests=requests)
        self.done += 1

    def hand_out(self) -> list[Lookup]:
        """Return the rows that are done and whose turn it is, up to the first failure that is one too many."""
        turn: list[Lookup] = []
        while self._rows and (lookup := self._rows[0].lookup) and not self.failure_too_many:
            if lookup.cause and self._failures_left <= 0:
                self.failure_too_many = lookup.cause
                break
            self._failures_left -= lookup.cause is not None
            turn.append(lookup)
            self._rows.popleft()
        return turn

    def out_of_order(self) -> list[Lookup]:
        """Return the rows to be saved that are done and wait for one before them."""
        return [row.lookup for row in self._rows if row.lookup and row.is_saved]

    def next_job(self) -> CallFlow[None] | None:
        """
        Return the call flow of the next job; there is another when the request of this one is sent.

        It asks for books, and takes in what comes; an error that every other book would meet is raised.

        So a process holds one reserved slot of the key's rate at a time, and as many requests are under way as the
        rate and the service's delay call for.
        """
        self.settle()
        is_one_unsent = any(not job.number for job in self._in_flight)
        if self.is_stopped or is_one_unsent or len(self._in_flight) >= (1 if self._is_careful else IN_FLIGHT):
            return None
        if not self._options.budget.left:
            if not self._in_flight:
                self._end_unasked()
            return None
        job = self._choose()
        if not job:
            return None
        self._in_flight.add(job)
        return self._perform(job)

    def wakes_at(self) -> float:
        """Return the time at which there may be a job although nothing has come in; infinity if there is none."""
        return min(self._held.wakes_at(), self._later[0][0] if self._later else inf)

    @property
    def _is_careful(self) -> bool:
        return self._held.doubts_key or self._troubles >= _TROUBLE

    @property
    def _is_idle(self) -> bool:
        waiting = self._again or (self._fresh and not self._is_careful)
        return not (self._in_flight or waiting or self.room)

    def _choose(self) -> _Job | None:
        if probe := self._held.check(idle=self._is_idle):
            return _Job((probe,), is_probe=True)
        if self._held.doubts_key:
            return None
        if self._again:
            return self._again.popleft()
        if self._later and self._later[0][0] <= self._held.evidence.now():
            return self._later.pop(0)[1]
        # While the service fails, the books that are put off find out whether it still does.
        return None if self._later and self._is_careful else self._choose_fresh()

    def _choose_fresh(self) -> _Job | None:
        size = int(min(self._bulk_size, len(self._fresh), self._options.budget.left))
        has_to_wait = self._bulk_size > 1 and (
            sum(job.is_bulk for job in self._in_flight) >= _BATCHES_IN_FLIGHT
            or (len(self._fresh) < self._bulk_size and self.room)
        )
        if has_to_wait or not size:
            return None
        return _Job(tuple(self._fresh.popleft() for _ in range(size)))

    def _perform(self, job: _Job) -> CallFlow[None]:
        try:
            if job.is_probe:
                yield from self._ask_for_probe(job)
            elif job.is_bulk:
                yield from self._ask_for_many(job)
            else:
                yield from self._ask_for_one(job)
        except RequestsSpentError as spent:
            # The service has no trouble.
            if job.is_probe:
                self._held.checked(spent, job.number)
            else:
                self._fresh.extendleft(reversed(job.isbns))
        except MediaOpsError as error:
            if self._is_met_by_all(error):
                raise
            self.trouble = error.message
            self._troubles += 1
            if job.is_probe:
                self._held.checked(error, job.number)
            else:
                self._put_off(job, error)
        finally:
            self._in_flight.discard(job)

    def _is_met_by_all(self, error: MediaOpsError) -> bool:
        if isinstance(error, _NO_ANSWER) and not self.has_answered:
            return True
        # Without a status it is not a reply: this package itself names the time at which there is room for a request.
        asks_for_pause = error.temporary and error.status is not None
        # A book that got no answer waits for no longer.
        longest = max(self._client.retry.max_wait, *self._options.retry_after, 0.0)
        too_long = asks_for_pause and (error.retry_after or 0.0) > longest
        return too_long or isinstance(error, _ABOUT_THE_KEY)

    def _ask_for_one(self, job: _Job) -> CallFlow[None]:
        [isbn13] = job.isbns
        try:
            book = yield from self._ask(job, get_book(isbn13))
        except NOT_FOUND_ERRORS as error:
            self._held.hold(isbn13, error)
        else:
            yield from self._found({isbn13: book}, job)

    def _ask_for_probe(self, job: _Job) -> CallFlow[None]:
        error = yield from send_probe(partial(self._ask, job), job.isbns[0])
        if error is None:
            self._troubles, self.trouble = 0, None
        self._held.checked(error, job.number)

    def _ask_for_many(self, job: _Job) -> CallFlow[None]:
        try:
            reply = yield from self._ask(job, get_books(job.isbns))
        except _TooMuchError:
            self._halve(job)
        except QuotaExceededError:
            raise
        except MediaOpsError as error:
            if not self._bulk_works and error.status in _NO_BULK_STATUSES:
                self._warn(_NO_BULK)
                self._ask_for_fewer(job.isbns, 1)
            elif isinstance(error, BadRequestError):
                half = len(job.isbns) // 2
                if half >= self._most_at_once:
                    self._bulk_size = min(self._bulk_size, half)
                self._halve(job)
            elif isinstance(error, NOT_FOUND_ERRORS):
                # What has worked is there, so that this is the service's word for the limit.
                why = "It is not known whether that is about bulk requests."
                raise undecided(error, why, self._held.evidence.canary) from None
            else:
                raise
        else:
            self._bulk_works = True
            yield from self._take_in(reply, job)

    def _take_in(self, reply: BulkReply, job: _Job) -> CallFlow[None]:
        rest = [isbn13 for isbn13 in job.isbns if isbn13 not in reply.books]
        yield from self._found(reply.books, job)
        if reply.odd:
            # What else it holds may be about any of them.
            self._ask_again(rest)
        elif rest and reply.taken and reply.taken < len(job.isbns):
            # The service has looked for the first of them only, so that the rest is not known to be missing.
            self._ask_for_fewer(rest, reply.taken)
        else:
            self._most_at_once = max(self._most_at_once, len(job.isbns))
            # If a larger request was refused for one of its books, the half without that book works.
            self._bulk_size = max(self._bulk_size, self._most_at_once)
            self._left_out(rest)

    def _ask(self, job: _Job, call: Call[T]) -> CallFlow[T]:
        client = self._client
        if not self.has_answered:
            # A wrong port is told soon.
            max_wait = min(client.retry.max_wait, _FIRST_CONTACT_SECONDS)
            client = replace(client, retry=replace(client.retry, max_wait=max_wait))
        return observed(client.ask(call), partial(self._on_step, job), partial(self._on_reply, job))

    def _on_step(self, job: _Job, step: Step) -> CallFlow[Step]:
        yield from ()
        if isinstance(step, Request):
            self._options.budget.spend(len(job.isbns))
            job.number = self._held.send()
            if not (job.is_probe or job.is_bulk):
                self._pending[job.isbns[0]].requests += 1
            self._on_sent()
        elif isinstance(step, Wait) and step.is_retry:
            self.trouble = step.reason
        return step

    def _on_reply(self, job: _Job, reply: object) -> None:
        is_too_much = isinstance(reply, TransportError) and reply.failure in (Failure.TIMEOUT, Failure.TOO_LARGE)
        if isinstance(reply, Response):
            self.has_answered = True
            if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
                self._held.evidence.see_limit()
            # The service also answers 500 if its reply would be too large.
            is_too_much = reply.status == HTTPStatus.INTERNAL_SERVER_ERROR
        if is_too_much and job.is_bulk:
            raise _TooMuchError

    def _found(self, books: Mapping[str, Book], job: _Job) -> CallFlow[None]:
        if books:
            self._troubles, self.trouble = 0, None
        for number, (isbn13, book) in enumerate(books.items(), 1):
            self._held.found(isbn13, job.number)
            self._finish(Lookup(isbn13, isbn13, "found", book=book, fetched_at=self._date()))
            if number % SLICE == 0:
                # The event loop runs other tasks.
                yield Wait(0.0)

    def _halve(self, job: _Job) -> None:
        half = len(job.isbns) // 2
        self._again.extend((_Job(job.isbns[:half]), _Job(job.isbns[half:])))

    def _ask_for_fewer(self, isbns: Sequence[str], at_once: int) -> None:
        """Ask for books anew, with so many in a request."""
        self._bulk_size = min(self._bulk_size, at_once)
        self._most_at_once = min(self._most_at_once, at_once)
        self._fresh.extendleft(reversed(isbns))

    def _left_out(self, isbns: Sequence[str]) -> None:
        """
        Ask for one of the books that a bulk reply leaves out by itself, or for each.

        One is their sample: it shows whether the service has none of them, or only names fewer.
        """
        if isbns and not self._names_fewer:
            sample, *others = isbns
            self._pending[sample].like_it = others
            isbns = [sample]
        self._ask_again(isbns)

    def _ask_again(self, isbns: Iterable[str]) -> None:
        self._again.extend(_Job((isbn13,)) for isbn13 in isbns)

    def _put_off(self, job: _Job, error: MediaOpsError) -> None:
        """Ask for the books of a job later, unless that is of no use: then they have failed."""
        # A captive portal never answers rightly. So such a reply is retried only once a book was found.
        elsewhere = isinstance(error, InvalidReplyError) and self._held.evidence.found_at == -inf
        # What nothing confirms stays so unless another book is found.
        alone = isinstance(error, InvalidConnectionError) and not (self._fresh or self.room or self._in_flight)
        # The books of one request have nearly always failed together before.
        put_off = max(self._pending[isbn13].put_off for isbn13 in job.isbns)
        if not (elsewhere or alone or isinstance(error, BadRequestError)) and put_off < len(self._options.retry_after):
            for isbn13 in job.isbns:
                self._pending[isbn13].put_off = put_off + 1
            due = self._held.evidence.now() + self._options.retry_after[put_off]
            insort(self._later, (due, _Job(job.isbns)), key=itemgetter(0))
            return
        for isbn13 in job.isbns:
            # A record of some months ago is worth more than none.
            earlier = self._pending[isbn13].earlier
            without = Lookup(isbn13, isbn13, "failed", error=error.message)
            self._finish(replace(earlier or without, cause=error))

    def settle(self) -> None:
        """Follow the decisions on the 404s that are held."""
        for decision in self._held.decisions(idle=self._is_idle):
            if decision.action == "again":
                self._ask_again([decision.isbn13])
            elif decision.action == "later":
                # That nothing confirms a 404 is no trouble of the service: the next book may be found.
                self._troubles += not isinstance(decision.error, InvalidConnectionError)
                self._put_off(_Job((decision.isbn13,)), decision.error)
            else:
                self._troubles = 0
                self._not_found(decision.isbn13, None)

    def _not_found(self, isbn13: str, error: str | None) -> None:
        self._finish(Lookup(isbn13, isbn13, "not_found", error=error, fetched_at=self._date()))

    def _end_unasked(self) -> None:
        """End the rows of all books for which no request is left."""
        for decision in self._held.decisions(idle=True):
            if decision.action == "not_found":
                self._not_found(decision.isbn13, None)
        for waiting in (self._fresh, self._again, self._later):
            waiting.clear()
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
        for row in pending.rows:
            row.is_saved = not lookup.cause
            self._end_row(row, lookup, pending.requests if row is pending.rows[0] else 0)
        if not pending.like_it:
            return
        if lookup.status == "not_found" and not lookup.cause:
            for other in pending.like_it:
                self._not_found(other, _LEFT_OUT)
        else:
            self._names_fewer = self._names_fewer or lookup.status == "found"
            self._ask_again(pending.like_it)

    def _date(self) -> str:
        return self._client.clock.now().isoformat(timespec="seconds")
