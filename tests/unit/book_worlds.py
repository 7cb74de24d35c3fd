"""Wrong worlds: what a connection to the book database may meet in its place, and what is to come of it."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.not_found import UnvouchedNotFoundError
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    PermissionDeniedError,
    RateLimitedError,
    ServiceUnavailableError,
)
from tests.unit.book_database import LIMIT_429, found, http, limit_404, no_such_book, replied
from tests.unit.loopback import Loopback

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.loopback import Peer

#: Two books that exist, in a world that is right.
HAMLET, EMMA = "9780141396507", "9780141439587"


@dataclass(frozen=True)
class World:
    """
    Something that answers at the address of a connection.

    :param name: a few words; ``tests/unit/books/test_docs.py`` knows its row in ``docs/guides/not_found.md``.
    :param error: what a look-up of an existing book raises there, whichever way it is asked for.
    :param sensor: what the sensor raises; None if it waits.
    :param begins_with: the number of the first request that is answered so; those before find their book.
    :param retry_error: what a task's retry raises if it meets this world from its first request on; None if the same.
    """

    name: str
    answer: Callable[[str], Response]
    error: type[MediaOpsError]
    sensor: type[MediaOpsError] | None
    begins_with: int = 1
    retry_error: type[MediaOpsError] | None = None

    def __str__(self) -> str:
        return self.name


def at(reply: Response) -> Callable[[str], Response]:
    """Give one reply, whatever is asked for."""
    return lambda _: reply


def small(path: str) -> Response:
    """Answer as a service that has none of these books, and tells of the key's quota."""
    return replied({"plan_limit": {"total": 9, "left": 8}}) if path.endswith("/key") else no_such_book()


WRONG = InvalidConnectionError
PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
#: The canary or, where none is set, the well-known book is asked for, and these come to the same.
PROBED = (
    World("wrong path", at(replied({"message": "There is no endpoint GET /books/book."}, 404)), WRONG, WRONG),
    World("wrong host", at(replied({"error": {"code": 404, "message": "Not Found"}}, 404)), WRONG, WRONG),
    World("gateway", at(replied({"message": "no Route matched with those values"}, 404)), WRONG, WRONG),
    World("empty object", at(replied({}, 404)), WRONG, WRONG),
    World("empty body", at(replied(b"", 404)), WRONG, WRONG),
    World("text", at(replied(b"404 page not found", 404)), WRONG, WRONG),
    World("web page", at(replied(PAGE, 404)), WRONG, WRONG),
    World("gateway, in the middle", at(replied({}, 404)), ServiceUnavailableError, None, 2, WRONG),
    World("limit (404)", at(limit_404()), RateLimitedError, None),
    World("limit (404), in the middle", at(limit_404()), RateLimitedError, None, begins_with=2),
)
#: Here no probe is asked for.
UNPROBED = (
    World("captive portal", at(replied(PAGE)), InvalidReplyError, InvalidReplyError),
    World(
        "captive portal, redirecting",
        at(replied(b"", 302, Location="https://portal.example/login")),
        InvalidReplyError,
        InvalidReplyError,
    ),
    World("another plan's key (401)", at(replied({}, 401)), AuthenticationError, AuthenticationError),
    World("another plan's key (403)", at(replied({}, 403)), PermissionDeniedError, PermissionDeniedError),
    World("limit (429)", at(replied(LIMIT_429, 429)), RateLimitedError, None),
    World("limit (429), in the middle", at(replied(LIMIT_429, 429)), RateLimitedError, None, begins_with=2),
    World("service down", at(replied(b"", 503)), ServiceUnavailableError, None),
    World("service down, in the middle", at(replied(b"", 503)), ServiceUnavailableError, None, begins_with=2),
)
#: These depend on the canary.
WITHOUT_CANARY = (
    World("clear words for every book", at(no_such_book()), UnvouchedNotFoundError, None),
    World("clear words, and the key's quota", small, UnvouchedNotFoundError, None),
)
WITH_CANARY = (
    World("clear words for every book", at(no_such_book()), WRONG, WRONG),
    World("clear words, and the key's quota", small, WRONG, WRONG),
)


class WorldServer(Loopback):
    """A world that can be asked."""

    def __init__(self, world: World) -> None:
        super().__init__(self._talk)
        self._world = world
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        #: From this request on, every book is found again.
        self.mends_with: int | None = None
        self.asked: list[str] = []

    def _talk(self, peer: Peer) -> None:
        while request := peer.request():
            path = request.split()[1].decode()
            # The replies leave in the order in which they are numbered: a right one that comes after a wrong one is
            # another world.
            with self._lock:
                number = next(self._numbers)
                self.asked.append(path)
                right = number < self._world.begins_with or (self.mends_with is not None and number >= self.mends_with)
                peer.send(http(right_answer(path, request) if right else self._world.answer(path)))


def right_answer(path: str, request: bytes) -> Response:
    """Give the reply of a service that has every book."""
    if path.endswith("/key"):
        return replied({"plan_limit": {"total": 9, "left": 8}})
    if path.endswith("/books"):
        isbns = json.loads(request.partition(b"\r\n\r\n")[2])["isbns"]
        return replied({"data": [{"isbn13": isbn13} for isbn13 in isbns]})
    return found(path.rpartition("/")[2])
