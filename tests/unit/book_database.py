"""What the book database says, in the shapes of its specification and of the public service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Response
from tests.unit.loopback import http_reply

if TYPE_CHECKING:
    import requests_mock

KEY = "key-of-the-tests"
CRIME = "9780140449136"
CALENDAR = "9780306406157"
PROGRAMMING = "9780131103627"
#: One of the two documented replies that mean the limit, and perhaps that there is no such book.
LIMIT_404 = {"errorMessage": "Not Found"}
LIMIT_429 = {"message": "Limit Exceeded"}
NO_SUCH_BOOK = {"message": "Not Found", "error_message": "no book has this ISBN"}


def book(isbn13: str, **fields: Any) -> dict[str, Any]:
    """Give the reply that holds a book's record."""
    return {"book": {"isbn13": isbn13, "title": f"The Book {isbn13}", **fields}}


def replied(body: Mapping[str, Any] | bytes, status: int = 200, **headers: str) -> Response:
    """Give a reply."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, data)


def found(isbn13: str) -> Response:
    """Give the reply for a book that is there."""
    return replied(book(isbn13))


def limit_404() -> Response:
    """Give the 404 that means the limit, or that there is no such book."""
    return replied(LIMIT_404, 404)


def no_such_book() -> Response:
    """Give the 404 that means that there is no such book."""
    return replied(NO_SUCH_BOOK, 404)


def asked(database: requests_mock.Mocker) -> list[str]:
    """Return the books that were asked for, in order, and the last parts of other addresses."""
    return [request.path.rpartition("/")[2] for request in database.request_history]


def http(reply: Response) -> bytes:
    """Give a reply as a server sends it."""
    return http_reply(reply.status, reply.body, **dict(reply.headers))


def connection(host: str, **fields: Any) -> str:
    """Give a connection as an environment variable holds it; what is given besides goes into extra."""
    own = {name: fields.pop(name) for name in ("password", "schema", "port") if name in fields}
    extra = {"max_attempts": 1, "requests_per_second": 10_000, "rate_limit_store": "memory://", **fields}
    return json.dumps({"conn_type": "mediaops_books", "host": host, "password": KEY, **own, "extra": extra})
