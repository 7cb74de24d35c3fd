"""What is asked of the service for a list, as call flows: for one book, for many books at once, for a probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Literal, TypeVar

from airflow_provider_mediaops.books.api import get_book, get_books
from airflow_provider_mediaops.books.batch.options import RequestsSpentError
from airflow_provider_mediaops.books.lookup import Contact, RequestCount, send_probe
from airflow_provider_mediaops.books.not_found import MISSING, undecided_error
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    ConnectionFailedError,
    InvalidConnectionError,
    MediaOpsError,
    PermissionDeniedError,
    QuotaExceededError,
    RateStoreError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.exchange import Failure, Response, TransportError

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.api import BulkReply
    from airflow_provider_mediaops.books.models import Book
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Call, CallFlow

T = TypeVar("T")

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
_NO_ROUTE = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.GONE,
    HTTPStatus.NOT_IMPLEMENTED,
)
_TOO_SLOW = (Failure.TIMEOUT, Failure.TOO_LARGE)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One thing to ask the service for: one book, many in one request, or a probe."""

    kind: Literal["one", "many", "probe"]
    isbns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job's request has brought; each book of the job is in one of the fields, unless all were too much."""

    number: int = 0  # of the request that was answered, as the scheduler has counted it
    found: Mapping[str, Book] = field(default_factory=dict)
    missing: Mapping[str, MediaOpsError] = field(default_factory=dict)  # with the 404
    failed: Mapping[str, MediaOpsError] = field(default_factory=dict)
    left_out: Sequence[str] = ()  # books that a bulk reply does not name
    alone: Sequence[str] = ()  # the same where the reply also holds what may be about them: each is asked for
    unasked: Sequence[str] = ()  # books that were not asked for after all
    is_too_much: bool = False  # whether the service could not give so many: each half is asked for
    takes: int | None = None  # how many books the service takes at once, if it takes fewer
    no_bulk: bool = False  # whether the service has no bulk requests
    limited: bool = False  # whether the reply to any of its requests was that the key is at its limit


@dataclass(slots=True)
class BatchRequests:
    """Makes the call flows of the jobs of one batch. A reply that asks for a longer pause than the longest ends it."""

    client: Client
    longest_pause_seconds: float = inf
    contact: Contact = field(default_factory=Contact, init=False)
    _bulk_works: bool = field(default=False, init=False)

    def perform(self, job: Job, sent: Callable[[int], int]) -> CallFlow[JobResult]:
        """Ask for the books of a job; an error that every other book would meet is raised."""
        count = RequestCount(lambda: sent(len(job.isbns)), self.contact)
        try:
            if job.kind == "many":
                result = yield from self._many(job.isbns, count)
            elif job.kind == "probe":
                result = yield from self._probe(job.isbns[0], count)
            else:
                result = yield from self._one(job.isbns[0], count)
        except RequestsSpentError as spent:
            return JobResult(failed={job.isbns[0]: spent}) if job.kind == "probe" else JobResult(unasked=job.isbns)
        except MediaOpsError as error:
            if self._is_met_by_all(error):
                raise
            result = JobResult(failed=dict.fromkeys(job.isbns, error))
        if result.found:
            self.contact.trouble = None
        for failure in result.failed.values():
            self.contact.trouble = failure.message
        return replace(result, number=count.number, limited=count.limited)

    def _is_met_by_all(self, error: MediaOpsError) -> bool:
        if isinstance(error, _NO_ANSWER) and not self.contact.answered:
            return True
        # Without a status it is not a reply: this package itself names the time at which there is room for a request.
        asks_for_pause = error.temporary and error.status is not None
        too_long = asks_for_pause and (error.retry_after or 0.0) > self.longest_pause_seconds
        return too_long or isinstance(error, _ABOUT_THE_KEY)

    def _ask(self, call: Call[T]) -> CallFlow[T]:
        client = self.client
        if not self.contact.answered:
            # A wrong port is told soon.
            max_wait = min(client.retry.max_wait, _FIRST_CONTACT_SECONDS)
            client = replace(client, retry=replace(client.retry, max_wait=max_wait))
        return client.ask(call)

    def _one(self, isbn13: str, count: RequestCount) -> CallFlow[JobResult]:
        try:
            book = yield from count.observe(self._ask(get_book(isbn13)))
        except MISSING as error:
            return JobResult(missing={isbn13: error})
        return JobResult(found={isbn13: book})

    def _probe(self, probe: str, count: RequestCount) -> CallFlow[JobResult]:
        error = yield from count.observe(send_probe(self._ask, probe))
        return JobResult(missing={probe: error} if error else {})

    def _many(self, isbns: Sequence[str], count: RequestCount) -> CallFlow[JobResult]:
        try:
            call = self._ask(get_books(isbns))
            reply = yield from count.observe(call, _refuse_too_much if len(isbns) > 1 else None)
        except _TooMuchError:
            return JobResult(is_too_much=True)
        except QuotaExceededError:
            raise
        except MediaOpsError as error:
            if not self._bulk_works and error.status in _NO_ROUTE:
                return JobResult(unasked=isbns, takes=1, no_bulk=True)
            if isinstance(error, BadRequestError) and len(isbns) > 1:
                return JobResult(is_too_much=True, takes=len(isbns) // 2)
            if not isinstance(error, MISSING):
                raise
            # What has worked is there, so that this is the service's word for the limit.
            undecided = undecided_error(error, "It is not known whether that is about bulk requests.")
            return JobResult(failed=dict.fromkeys(isbns, undecided))
        self._bulk_works = True
        return _result_of(reply, isbns)


def _result_of(reply: BulkReply, isbns: Sequence[str]) -> JobResult:
    found = _by_isbn(reply.books, isbns)
    rest = [isbn for isbn in isbns if isbn not in found]
    if reply.odd or len(found) < len(reply.books):
        # What else it holds may be about any of them.
        return JobResult(found=found, alone=rest)
    if rest and reply.taken and reply.taken < len(isbns):
        # The service has looked for the first of them only, so that the rest is not known to be missing.
        return JobResult(found=found, unasked=rest, takes=reply.taken)
    return JobResult(found=found, left_out=rest)


class _TooMuchError(Exception):
    """The service could not give so many records at once."""


def _refuse_too_much(reply: object) -> None:
    if isinstance(reply, Response):
        # The service also answers 500 if its reply would be too large.
        too_much = reply.status == HTTPStatus.INTERNAL_SERVER_ERROR
    else:
        too_much = isinstance(reply, TransportError) and reply.failure in _TOO_SLOW
    if too_much:
        raise _TooMuchError


def _by_isbn(books: Iterable[Book], isbns: Iterable[str]) -> dict[str, Book]:
    wanted = set(isbns)
    found: dict[str, Book] = {}
    for book in books:
        isbn13 = next((isbn for isbn in book.own_isbns() if isbn in wanted), None)
        if isbn13:
            found.setdefault(isbn13, book)
    return found
