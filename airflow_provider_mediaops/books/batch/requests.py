"""The requests of a batch, as call flows: for one book, for many books at once, for a probe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, get_book, get_books
from airflow_provider_mediaops.books.batch.jobs import JobResult
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
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_mediaops.books.batch.jobs import Job
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
    RequestsSpentError,
)
#: If the first request gets no answer for so long, the list ends.
NO_ANSWER = (ConnectionFailedError, ReplyTimeoutError)
_FIRST_CONTACT_SECONDS = 20.0
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE, HTTPStatus.NOT_IMPLEMENTED)
_TOO_SLOW = (Failure.TIMEOUT, Failure.TOO_LARGE)


@dataclass(slots=True)
class BatchRequests:
    """Makes the call flows of the jobs of one batch; bulk requests become smaller once the service has said so."""

    client: Client
    bulk_size: int = 1
    contact: Contact = field(default_factory=Contact, init=False)
    _bulk_works: bool = field(default=False, init=False)

    def perform(self, job: Job, sent: Callable[[int], int]) -> CallFlow[JobResult]:
        """Ask for the books of a job."""
        count = RequestCount(lambda: sent(count.books), self.contact)
        if job.kind == "many":
            result = yield from self._many(job.isbns, count)
        elif job.kind == "probe":
            result = yield from self._probe(job.isbns[0], count)
        else:
            result = yield from self._one(job.isbns[0], count)
        error = next(iter(result.failed.values()), None)
        if isinstance(error, NO_ANSWER) and not self.contact.answered:
            raise error
        if error or result.found:
            self.contact.trouble = error.message if error else None
        return replace(result, limited=count.limited)

    def _ask(self, call: Call[T]) -> CallFlow[T]:
        client = self.client
        if not self.contact.answered:
            # A wrong port is told soon.
            max_wait = min(client.retry.max_wait, _FIRST_CONTACT_SECONDS)
            client = replace(client, retry=replace(client.retry, max_wait=max_wait))
        return client.ask(call)

    def _one(self, isbn13: str, count: RequestCount) -> CallFlow[JobResult]:
        count.books = 1
        try:
            book = yield from count.observe(self._ask(get_book(isbn13)))
        except ABOUT_THE_KEY:
            raise
        except MISSING as error:
            return JobResult(count.number, missing={isbn13: error})
        except MediaOpsError as error:
            return JobResult(count.number, failed={isbn13: error})
        return JobResult(count.number, found={isbn13: book})

    def _probe(self, probe: str, count: RequestCount) -> CallFlow[JobResult]:
        try:
            error = yield from count.observe(send_probe(self._ask, probe))
        except ABOUT_THE_KEY:
            raise
        except MediaOpsError as error:
            return JobResult(count.number, failed={probe: error})
        return JobResult(count.number, missing={probe: error} if error else {})

    def _many(self, isbns: Sequence[str], count: RequestCount) -> CallFlow[JobResult]:
        count.books = len(isbns)
        try:
            call = self._ask(get_books(isbns))
            reply = yield from count.observe(call, _refuse_too_much if len(isbns) > 1 else None)
        except ABOUT_THE_KEY as error:
            if self._bulk_works or not isinstance(error, PermissionDeniedError):
                raise
            return (yield from self._without_bulk(isbns, error, count))
        except MediaOpsError as error:
            if error.status in _NO_ROUTE:
                return (yield from self._without_bulk(isbns, error, count))
            if isinstance(error, BadRequestError) and len(isbns) > 1:
                return (yield from self._in_parts(isbns, len(isbns) // 2, count, learn=True))
            return JobResult(count.number, failed=dict.fromkeys(isbns, error))
        except _TooMuchError:
            return (yield from self._in_parts(isbns, len(isbns) // 2, count))
        self._bulk_works = True
        found = _by_isbn(reply.books, isbns)
        rest = [isbn for isbn in isbns if isbn not in found]
        odd = reply.odd or len(found) < len(reply.books)
        result = JobResult(count.number, found=found, left_out=() if odd else rest, alone=rest if odd else ())
        if rest and not odd and reply.taken is not None and 0 < reply.taken < len(isbns):
            # It has looked for the first of them only, so that the rest is not known to be missing.
            self.bulk_size = min(self.bulk_size, reply.taken)
            result = _joined(
                [JobResult(count.number, found=found), (yield from self._in_parts(rest, self.bulk_size, count))]
            )
        return result

    def _in_parts(
        self, isbns: Sequence[str], size: int, count: RequestCount, *, learn: bool = False
    ) -> CallFlow[JobResult]:
        results: list[JobResult] = []
        for start in range(0, len(isbns), size):
            try:
                results.append((yield from self._many(isbns[start : start + size], count)))
            except ABOUT_THE_KEY:
                if not results:
                    raise
                # What was found is kept; the next request meets the error again.
                results.append(JobResult(count.number, unasked=isbns[start:]))
                break
        if learn and not any(result.failed for result in results):
            # Nothing was wrong with any of the books, so it was their number.
            self.bulk_size = min(self.bulk_size, size)
        return _joined(results)

    def _without_bulk(self, isbns: Sequence[str], error: MediaOpsError, count: RequestCount) -> CallFlow[JobResult]:
        # A 404 is the service's word for a limit, too; and what has worked is there.
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return JobResult(count.number, unasked=isbns, no_bulk=True)
        if not self._bulk_works:
            # A key that is refused altogether is so here.
            first = yield from self._one(isbns[0], count)
            only_bulk = isinstance(error, PermissionDeniedError)
            # Neither 404 is in the words of the limit, so the first book's is decided on like any other.
            other_words = first.missing and not any(
                isinstance(each, DoubtfulNotFoundError) for each in (error, *first.missing.values())
            )
            if first.found or only_bulk or other_words:
                missing = first.missing if other_words else {}
                rest = [isbn for isbn in isbns if isbn not in first.found and isbn not in missing]
                return JobResult(count.number, found=first.found, missing=missing, unasked=rest, no_bulk=True)
        undecided = undecided_error(error, "It is not known whether that is about bulk requests.")
        yield from self.client.report_limit(undecided)
        return JobResult(count.number, failed=dict.fromkeys(isbns, undecided))


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


def _joined(results: Sequence[JobResult]) -> JobResult:
    return JobResult(
        # Of the earliest request: what came in between is not vouched for by it.
        min(result.number for result in results),
        {isbn: book for result in results for isbn, book in result.found.items()},
        {isbn: error for result in results for isbn, error in result.missing.items()},
        [isbn for result in results for isbn in result.left_out],
        [isbn for result in results for isbn in result.alone],
        {isbn: error for result in results for isbn, error in result.failed.items()},
        [isbn for result in results for isbn in result.unasked],
        no_bulk=any(result.no_bulk for result in results),
    )
