"""The requests of a batch, as call flows: for one book, for many books at once, for a probe; and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, get_book, get_books
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_provider_mediaops.books.models import Book
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Call, CallFlow

T = TypeVar("T")

#: These are about the key or the list, not about one book: every other ISBN would meet them too.
ABOUT_THE_KEY = (
    AuthenticationError,
    PermissionDeniedError,
    QuotaExceededError,
    InvalidConnectionError,
    RateStoreError,
)
#: If the first request gets no answer for so long, the list ends.
NO_ANSWER = (ConnectionFailedError, ReplyTimeoutError)
_FIRST_CONTACT_SECONDS = 20.0
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE, HTTPStatus.NOT_IMPLEMENTED)
_TOO_SLOW = (Failure.TIMEOUT, Failure.TOO_LARGE)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One request to send: for one book, for many, or for a probe."""

    isbns: tuple[str, ...]
    is_probe: bool = False

    @property
    def is_bulk(self) -> bool:
        """Whether it asks for many books."""
        return len(self.isbns) > 1


@dataclass(frozen=True, slots=True)
class JobResult:
    """
    The result of a job.

    ``number`` is that of the request that was answered, as :meth:`LookupScheduler.sent` returned it. Books that a bulk
    reply does not name are ``left_out``; those in ``parts`` are to be asked for in these smaller jobs. Those in
    ``unasked`` were not asked for after all, and are next. ``limited`` says that a request was repeated because the key
    was at its limit.
    """

    number: int = 0
    found: Mapping[str, Book] = field(default_factory=dict)
    missing: Mapping[str, MediaOpsError] = field(default_factory=dict)
    failed: Mapping[str, MediaOpsError] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    parts: Sequence[Sequence[str]] = ()
    unasked: Sequence[str] = ()
    limited: bool = False


@dataclass(slots=True)
class BatchRequests:
    """
    Makes the call flows of the jobs of one batch.

    Bulk requests become smaller once the service has said so; a size of one means that it has none.
    """

    client: Client
    bulk_size: int = 1
    contact: Contact = field(default_factory=Contact, init=False)
    _bulk_works: bool = field(default=False, init=False)

    def perform(self, job: Job, sent: Callable[[int], int]) -> CallFlow[JobResult]:
        """Ask for the books of a job."""
        count = RequestCount(lambda: sent(count.books), self.contact)
        count.books = len(job.isbns)
        try:
            if job.is_bulk:
                result = yield from self._many(job.isbns, count)
            else:
                result = yield from self._one(job, count)
        except RequestsSpentError as error:
            result = JobResult(failed={job.isbns[0]: error}) if job.is_probe else JobResult(unasked=job.isbns)
        except ABOUT_THE_KEY:
            raise
        except MediaOpsError as error:
            if isinstance(error, NO_ANSWER) and not self.contact.answered:
                raise
            result = JobResult(count.number, failed=dict.fromkeys(job.isbns, error))
        if result.failed or result.found:
            self.contact.trouble = next((error.message for error in result.failed.values()), None)
        return replace(result, limited=count.limited)

    def _ask(self, call: Call[T]) -> CallFlow[T]:
        client = self.client
        if not self.contact.answered:
            # A wrong port is told soon.
            max_wait = min(client.retry.max_wait, _FIRST_CONTACT_SECONDS)
            client = replace(client, retry=replace(client.retry, max_wait=max_wait))
        return client.ask(call)

    def _one(self, job: Job, count: RequestCount) -> CallFlow[JobResult]:
        [isbn13] = job.isbns
        if job.is_probe:
            missing = yield from count.observe(send_probe(self._ask, isbn13))
            return JobResult(count.number, missing={isbn13: missing} if missing else {})
        try:
            book = yield from count.observe(self._ask(get_book(isbn13)))
        except MISSING as error:
            return JobResult(count.number, missing={isbn13: error})
        return JobResult(count.number, found={isbn13: book})

    def _many(self, isbns: Sequence[str], count: RequestCount) -> CallFlow[JobResult]:
        try:
            reply = yield from count.observe(self._ask(get_books(isbns)), _refuse_too_much)
        except _TooMuchError:
            return JobResult(count.number, parts=_halves(isbns))
        except MediaOpsError as error:
            if error.status in _NO_ROUTE or (isinstance(error, PermissionDeniedError) and not self._bulk_works):
                return (yield from self._without_bulk(isbns, error, count))
            if not isinstance(error, BadRequestError):
                raise
            if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                self.bulk_size = min(self.bulk_size, len(isbns) // 2)
            return JobResult(count.number, parts=_halves(isbns))
        self._bulk_works = True
        found = _by_isbn(reply.books, isbns)
        rest = [isbn for isbn in isbns if isbn not in found]
        if reply.odd or len(found) < len(reply.books):
            # What is odd may be about any of them.
            return JobResult(count.number, found, parts=[[isbn] for isbn in rest])
        if rest and reply.taken is not None and 0 < reply.taken < len(isbns):
            # It has looked for the first of them only, so that the rest is not known to be missing.
            self.bulk_size = min(self.bulk_size, reply.taken)
            return JobResult(count.number, found, unasked=rest)
        return JobResult(count.number, found, left_out=rest)

    def _without_bulk(self, isbns: Sequence[str], error: MediaOpsError, count: RequestCount) -> CallFlow[JobResult]:
        result = JobResult(count.number, unasked=isbns)
        if error.status == HTTPStatus.NOT_FOUND and (self._bulk_works or isinstance(error, DoubtfulNotFoundError)):
            # A 404 is the service's word for a limit, too: what has worked is there, and one book may be found.
            first = JobResult()
            if not self._bulk_works:
                count.books = 1
                first = yield from self._one(Job((isbns[0],)), count)
            if not first.found:
                undecided = undecided_error(error, "It is not known whether that is about bulk requests.")
                yield from self.client.report_limit(undecided)
                return JobResult(count.number, failed=dict.fromkeys(isbns, undecided))
            result = replace(first, unasked=isbns[1:])
        self.bulk_size = 1
        return result


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


def _halves(isbns: Sequence[str]) -> list[Sequence[str]]:
    middle = len(isbns) // 2
    return [isbns[:middle], isbns[middle:]]


def _by_isbn(books: Iterable[Book], isbns: Iterable[str]) -> dict[str, Book]:
    wanted = set(isbns)
    found: dict[str, Book] = {}
    for book in books:
        isbn13 = next((isbn for isbn in book.own_isbns() if isbn in wanted), None)
        if isbn13:
            found.setdefault(isbn13, book)
    return found
