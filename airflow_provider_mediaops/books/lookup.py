"""Looking up one book, and the rule about 404; lists are looked up by ``books/batch``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, KeyUsage, get_book, get_key_usage
from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    MediaOpsError,
    NotFoundError,
    PermanentError,
    RateLimitedError,
)
from airflow_provider_mediaops.http.exchange import Request, Wait, observed

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Ask, Conversation, Step

E = TypeVar("E", bound=MediaOpsError)


@dataclass(slots=True)
class Finder:
    """
    Finds books, and does not believe a 404 until it is known to be about the book.

    The service says 404 of a book that it does not have, and of a key that has reached its limit. The witness is an
    ISBN known to have a record: the last one found, else the canary. Where the witness is found and the book, asked
    once more, is not, the book is not there; otherwise the limit is waited out.

    :param client: makes conversations of calls.
    :param canary: an ISBN-13 known to have a record, if any is.
    """

    client: Client
    canary: str | None = None
    _last_found: str | None = field(default=None, init=False)

    def find(self, isbn13: str) -> Conversation[Book]:
        """
        Find a book.

        :param isbn13: thirteen digits.
        :returns: a conversation whose result is its record.
        :raises NotFoundError: where the service has no record of it.
        :raises RateLimitedError: where it cannot be told whether there is no record or the limit is reached.
        :raises MediaOpsError: what else the service refuses.
        """
        attempts = self.client.retry.start(self.client.clock)
        key_works = False
        while True:
            try:
                book = yield from self.client.ask(get_book(isbn13))
            except DoubtfulNotFoundError as doubt:
                if key_works:
                    raise _as(NotFoundError, doubt, "Another book is found, so it is this one that is not.") from None
                witness = self._witness(isbn13)
                # The limit may have passed before the witness was asked, so the book is asked once more after it.
                key_works = witness is not None and (yield from self._is_found(witness))
                if key_works:
                    continue
                error = _limited(doubt, witness)
                yield from self.client.limited(error)
                pause = attempts.pause_after(error)
                if pause is None:
                    raise error from None
                yield Wait(pause, error.message)
            else:
                self._last_found = isbn13
                return book

    def look_up(self, text: str) -> Conversation[Lookup]:
        """
        Look up one ISBN.

        :param text: the ISBN in any usual writing.
        :returns: a conversation whose result says what became of it.
        :raises MediaOpsError: where the service does not tell.
        """
        try:
            isbn13 = normalise(text)
        except InvalidIsbnError as error:
            return Lookup(text, None, "invalid", error=str(error))
        tally = _Tally()
        try:
            book = yield from observed(self.find(isbn13), tally.count)
        except NotFoundError:
            return Lookup(text, isbn13, "not_found", requests=tally.requests)
        return Lookup(text, isbn13, "found", book=book, requests=tally.requests)

    def _witness(self, isbn13: str) -> str | None:
        return next((isbn for isbn in (self._last_found, self.canary) if isbn and isbn != isbn13), None)

    def _is_found(self, witness: str) -> Conversation[bool]:
        try:
            yield from self.client.ask(get_book(witness))
        except (DoubtfulNotFoundError, NotFoundError):
            return False
        return True


def read_key_usage(ask: Ask) -> Conversation[KeyUsage | None]:
    """
    Ask for the key's daily quota.

    :param ask: makes a conversation of a call.
    :returns: a conversation; its result is None if the service has no such call, which is not in its specification.
    :raises MediaOpsError: if the key is not accepted, or the service fails.
    """
    try:
        return (yield from ask(get_key_usage()))
    except (AuthenticationError, InvalidConnectionError):
        raise
    except PermanentError:
        # A gateway may refuse in any way what it does not know.
        return None


def _limited(doubt: DoubtfulNotFoundError, witness: str | None) -> RateLimitedError:
    if witness is None:
        return _as(RateLimitedError, doubt, "To learn which, set canary_isbn in the connection to a book that exists.")
    return _as(RateLimitedError, doubt, f"It is the limit if {witness} exists, for that is not found either.")


def _as(cls: type[E], doubt: DoubtfulNotFoundError, what: str) -> E:
    return cls(f"{doubt.message} {what}", **doubt.context())


class _Tally:
    """Counts the requests of a conversation, those that got no reply included."""

    def __init__(self) -> None:
        self.requests = 0

    def count(self, step: Step) -> None:
        self.requests += isinstance(step, Request)
