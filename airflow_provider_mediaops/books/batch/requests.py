"""The conversations of a walk through a list: one book, many books in one request, a witness."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, get_book, get_books
from airflow_provider_mediaops.books.batch.scheduler import Answer
from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    RateStoreError,
)
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError, observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from airflow_provider_mediaops.books.batch.scheduler import Job
    from airflow_provider_mediaops.books.models import Book
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Conversation, Step

T = TypeVar("T")

#: These are about the key, not about one book: every other ISBN would meet them too.
ABOUT_THE_KEY = (
    AuthenticationError,
    PermissionDeniedError,
    QuotaExceededError,
    InvalidConnectionError,
    RateStoreError,
)
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_TOO_SLOW = (Failure.TIMEOUT, Failure.TOO_LARGE)


@dataclass(slots=True)
class Asking:
    """
    Makes the conversations of the jobs of one walk.

    :param client: makes conversations of calls.
    :param batch: how many books one bulk request may ask for; less, once the service has said so.
    """

    client: Client
    batch: int = 1
    _bulk_works: bool = field(default=False, init=False)

    def answer(self, job: Job, sent: Callable[[], int]) -> Conversation[Answer]:
        """
        Ask for what a job is about.

        :param job: the job.
        :param sent: takes note of each request that is sent, and gives its number.
        :returns: a conversation whose result is what came of it.
        :raises MediaOpsError: where the key itself is refused, or its quota is used up.
        """
        tally = _Tally(sent)
        asking = self._many(job.isbns, tally) if job.kind == "many" else self._one(job.isbns[0], tally)
        answer = yield from asking
        return replace(answer, limited=tally.limited)

    def _one(self, isbn13: str, tally: _Tally) -> Conversation[Answer]:
        try:
            book = yield from _tallied(self.client.ask(get_book(isbn13)), tally)
        except ABOUT_THE_KEY:
            raise
        except (NotFoundError, DoubtfulNotFoundError) as error:
            return Answer(tally.number, missing={isbn13: error})
        except MediaOpsError as error:
            return Answer(tally.number, failed={isbn13: error})
        return Answer(tally.number, found={isbn13: book})

    def _many(self, isbns: Sequence[str], tally: _Tally) -> Conversation[Answer]:
        try:
            reply = yield from _tallied(self.client.ask(get_books(isbns)), tally, give_up=len(isbns) > 1)
        except ABOUT_THE_KEY as error:
            if self._bulk_works or not isinstance(error, PermissionDeniedError):
                raise
            return (yield from self._without_bulk(isbns, error, tally))
        except MediaOpsError as error:
            if error.status in _NO_ROUTE:
                return (yield from self._without_bulk(isbns, error, tally))
            if isinstance(error, BadRequestError) and len(isbns) > 1:
                return (yield from self._in_parts(isbns, len(isbns) // 2, tally, learn=True))
            return Answer(tally.number, failed=dict.fromkeys(isbns, error))
        except _TooMuchError:
            return (yield from self._in_parts(isbns, len(isbns) // 2, tally))
        self._bulk_works = True
        found = _by_isbn(reply.books, isbns)
        rest = [isbn for isbn in isbns if isbn not in found]
        answer = Answer(tally.number, found=found, left_out=rest)
        if rest and reply.taken is not None and 0 < reply.taken < len(isbns):
            # It has looked for the first of them only, so that the rest is not known to be missing.
            self.batch = min(self.batch, reply.taken)
            answer = _joined([Answer(tally.number, found=found), (yield from self._in_parts(rest, self.batch, tally))])
        return answer

    def _in_parts(self, isbns: Sequence[str], size: int, tally: _Tally, *, learn: bool = False) -> Conversation[Answer]:
        answers: list[Answer] = []
        for start in range(0, len(isbns), size):
            try:
                answers.append((yield from self._many(isbns[start : start + size], tally)))
            except ABOUT_THE_KEY:
                if not answers:
                    raise
                # What was found is kept; the next request meets the error again.
                answers.append(Answer(tally.number, unasked=isbns[start:]))
                break
        if learn and not any(answer.failed for answer in answers):
            # Nothing was wrong with any of the books, so it was their number.
            self.batch = min(self.batch, size)
        return _joined(answers)

    def _without_bulk(self, isbns: Sequence[str], error: MediaOpsError, tally: _Tally) -> Conversation[Answer]:
        # A 404 is the service's word for a limit, too; and what has worked is there.
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return Answer(tally.number, unasked=isbns, no_bulk=True)
        if not self._bulk_works:
            # A key that is refused altogether is so here.
            first = yield from self._one(isbns[0], tally)
            only_bulk = isinstance(error, PermissionDeniedError)
            clear = isinstance(first.missing.get(isbns[0]), NotFoundError)
            if first.found or only_bulk or (clear and isinstance(error, (NotFoundError, InvalidReplyError))):
                rest = [isbn for isbn in isbns if isbn not in first.found]
                return Answer(tally.number, found=first.found, unasked=rest, no_bulk=True)
        limit = RateLimitedError(f"{error.message} That may say that the key's limit is reached.", **error.context())
        yield from self.client.report_limit(limit)
        return Answer(tally.number, failed=dict.fromkeys(isbns, limit))


class _TooMuchError(Exception):
    """The service could not give so many records at once."""


@dataclass(slots=True)
class _Tally:
    """Counts the requests of a conversation, those that got no reply included."""

    sent: Callable[[], int]
    #: The number of the last one.
    number: int = 0
    #: Whether the limit was the reply to any of them.
    limited: bool = False


def _tallied(conversation: Conversation[T], tally: _Tally, *, give_up: bool = False) -> Conversation[T]:
    def count(step: Step) -> None:
        if isinstance(step, Request):
            tally.number = tally.sent()

    def inspect(outcome: object) -> None:
        if isinstance(outcome, Response):
            tally.limited = tally.limited or outcome.status == HTTPStatus.TOO_MANY_REQUESTS
            # The service also answers 500 if the reply would be too large.
            too_much = outcome.status == HTTPStatus.INTERNAL_SERVER_ERROR
        else:
            too_much = isinstance(outcome, TransportError) and outcome.failure in _TOO_SLOW
        if give_up and too_much:
            raise _TooMuchError

    return (yield from observed(conversation, count, inspect))


def _by_isbn(books: Iterable[Book], isbns: Iterable[str]) -> dict[str, Book]:
    wanted = set(isbns)
    found: dict[str, Book] = {}
    for book in books:
        isbn13 = next((isbn for isbn in _isbns_of(book) if isbn in wanted), None)
        if isbn13:
            found.setdefault(isbn13, book)
    return found


def _isbns_of(book: Book) -> Iterator[str]:
    """Give a record's own ISBNs; records have them in one or the other of these fields, in either form."""
    for name in ("isbn13", "isbn", "isbn10"):
        value = book.record.get(name)
        if isinstance(value, (str, int)):
            # Nearly always what was asked for: that of a thousand records would take long to normalise.
            yield str(value)
            with suppress(InvalidIsbnError):
                yield normalise(value)


def _joined(answers: Sequence[Answer]) -> Answer:
    return Answer(
        # Of the earliest request: what came in between is not vouched for by it.
        min(answer.number for answer in answers),
        {isbn: book for answer in answers for isbn, book in answer.found.items()},
        {isbn: error for answer in answers for isbn, error in answer.missing.items()},
        [isbn for answer in answers for isbn in answer.left_out],
        {isbn: error for answer in answers for isbn, error in answer.failed.items()},
        [isbn for answer in answers for isbn in answer.unasked],
        no_bulk=any(answer.no_bulk for answer in answers),
    )
