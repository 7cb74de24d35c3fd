"""The book database's plans, calls and errors, as values."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidReplyError,
    NotFoundError,
    PermanentError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
)
from airflow_provider_mediaops.http.errors import ErrorClass, ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request, Response, escape_segment
from airflow_provider_mediaops.http.reply import ErrorDetails, looks_like_html, read_json


class Plan(NamedTuple):
    """What a key of a plan may ask for."""

    requests_per_second: float
    bulk_size: int  # ISBNs that one bulk request may hold; the specification does not say it


PLANS = {"default": Plan(1.0, 10), "premium": Plan(3.0, 100), "pro": Plan(5.0, 1_000)}

#: The path of a book's record, before its ISBN.
BOOK_PATH = "/book/"


class DoubtfulNotFoundError(PermanentError):
    """A 404 with the documented body for the limit, which some services also send for a missing book."""


class ForeignNotFoundError(PermanentError):
    """A 404 that is none of the book database's: perhaps that of a gateway, or of another service."""


class WebPageNotFoundError(InvalidReplyError):
    """A 404 with a web page, which is not the book database's."""


def get_book(isbn13: str) -> Call[Book]:
    """
    Return the call for a book's record, by its thirteen digits.

    The record of another book is an :class:`InvalidReplyError`. For a 404 the call raises an error by its words
    (:data:`~.not_found.NOT_FOUND_ERRORS`). No such error alone says that there is no such book:
    :class:`~airflow_provider_mediaops.books.lookup.Finder` finds that out.
    """
    return Call(Request("GET", f"{BOOK_PATH}{escape_segment(isbn13)}", kind="book"), partial(_read_book, isbn13))


def _read_book(isbn13: str, response: Response) -> Book:
    record = read_json(response).get("book")
    if not isinstance(record, Mapping) or not record:
        raise InvalidReplyError("The reply holds no book.")
    book = Book(record)
    # A record may lack its own ISBN.
    if isbn13 not in book.own_isbns() and (other := next(book.own_isbns(), None)):
        raise InvalidReplyError(f"The reply holds the record of another book, {other}.")
    return book


@dataclass(frozen=True, slots=True)
class BulkReply:
    """Records of several books."""

    books: Mapping[str, Book] = field(repr=False)  # by the ISBN that was asked for
    odd: bool = False  # whether it also holds something else, which may be about any of the other books
    taken: int | None = None  # how many ISBNs it says it looked for; None if it does not say


def get_books(isbns: Sequence[str]) -> Call[BulkReply]:
    """
    Return the call for the records of many books; not in the specification, but the public service answers it.

    Each ISBN has thirteen digits; how many there may be depends on the plan. Those that the service does not know are
    silently left out of the result.
    """
    body = json.dumps({"isbns": list(isbns)}).encode()
    # It changes nothing at the service, so it may be sent twice.
    headers = {"Content-Type": "application/json"}
    request = Request("POST", "/books", headers=headers, body=body, idempotent=True, kind="bulk")
    return Call(request, partial(_read_books, frozenset(isbns)))


def _read_books(isbns: Container[str], response: Response) -> BulkReply:
    reply = read_json(response)
    records = reply.get("data", reply.get("books"))
    if not isinstance(records, list):
        raise InvalidReplyError("The reply holds no list of books.")
    total, taken = reply.get("total"), reply.get("requested")
    if isinstance(total, int) and total > len(records):
        raise InvalidReplyError(f"The reply holds {len(records)} books where it says {total}.")
    books: dict[str, Book] = {}
    for book in (Book(record) for record in records if isinstance(record, Mapping)):
        if isbn13 := next((isbn13 for isbn13 in book.own_isbns() if isbn13 in isbns), None):
            books.setdefault(isbn13, book)
    return BulkReply(books, len(books) < len(records), taken if isinstance(taken, int) else None)


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """
    The daily quota of a key.

    :param total: the requests of a day.
    :param left: those that are left today.
    """

    total: int
    left: int


def get_key_usage() -> Call[KeyUsage]:
    """Return the call for the key's daily quota; not in the specification, but the public service answers it."""
    return Call(Request("GET", "/key", kind="key"), _read_key_usage)


def _read_key_usage(response: Response) -> KeyUsage:
    reply = read_json(response)
    try:
        return KeyUsage(total=int(reply["plan_limit"]["total"]), left=int(reply["plan_limit"]["left"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidReplyError("The reply has no quota.") from None


def _refine(response: Response, _details: ErrorDetails, found: ErrorClass) -> ErrorClass:
    if issubclass(found, (PermissionDeniedError, RateLimitedError)) and b"daily" in response.body.lower():
        return QuotaExceededError
    return _class_of_404(response) if response.status == HTTPStatus.NOT_FOUND else found


def _class_of_404(response: Response) -> ErrorClass:
    if looks_like_html(response):
        return WebPageNotFoundError
    try:
        body = read_json(response)
    except InvalidReplyError:
        return ForeignNotFoundError
    # The specification has the first field for the limit. The public service has the other one for a missing book.
    if "errorMessage" in body:
        return DoubtfulNotFoundError
    return NotFoundError if isinstance(body.get("error_message"), str) else ForeignNotFoundError


def _next_reset(now: datetime) -> datetime:
    # Daily quotas come back at midnight UTC.
    return (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


_WRONG_ADDRESS = "A book database answers otherwise: check the connection's base address, with its whole path."

#: How the book database refuses: as it is documented, and as the public service is known to.
BOOK_RULES = ErrorRules(
    service="book database",
    advice_by_class={
        AuthenticationError: (
            "The key is missing, wrong or not active, or the base address is that of another plan than the key's: "
            "check the connection's password, host and plan."
        ),
        PermissionDeniedError: (
            "Either the base address is that of another plan than the key's, or the key is wrong, or its daily quota "
            "is used up: check the connection's host, plan and password."
        ),
        NotFoundError: "There is no record of this book.",
        DoubtfulNotFoundError: "That may say that the key's limit is reached, or that there is no such book.",
        ForeignNotFoundError: _WRONG_ADDRESS,
        WebPageNotFoundError: _WRONG_ADDRESS,
        RateLimitedError: (
            "The key's limit is reached; it is tried again after a pause. Check that the connection's plan is the "
            "key's, and that nothing else uses the key, if this goes on."
        ),
        QuotaExceededError: "The key's daily quota is used up: nothing succeeds until 00:00 UTC.",
    },
    refine=_refine,
    quota_reset=_next_reset,
)
