"""One real server for the three services: it answers well, but for the fault of the cell that asks."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.faults import canaries
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, PROGRAMMING, book
from tests.unit.loopback import Loopback, http_reply
from tests.unit.search_cluster import report, stats
from tests.unit.video_platform import page

if TYPE_CHECKING:
    from tests.unit.loopback import Peer

#: The ISBNs that are looked up; the database has them all.
ISBNS = (CRIME, CALENDAR, PROGRAMMING)
_PAGES = {"": page(1, 2, next_token="T2"), "T2": page(3, 4, next_token="T3"), "T3": page(5)}
_ACTIVITY = {"kind": "svc#activity", "id": "activity-1", "snippet": {"type": "bulletin", "description": "New"}}
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Asked:
    """
    A request as it arrived.

    :param headers: the headers, by name in lower case.
    """

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]

    @property
    def is_write(self) -> bool:
        """Whether it would change something at the service."""
        return self.method == "POST" and self.path.endswith("/v3/activities")

    @property
    def sent(self) -> tuple[str, ...]:
        """The credentials that a careless service repeats: as they were sent, and as it knows them."""
        held = [self.headers.get("authorization", ""), self.params.get("key", ""), canaries.PASSWORD, canaries.HEADER]
        if self.path == "/token":
            held.append(canaries.REFRESH_TOKEN)
        return tuple(filter(None, held))


@dataclass(frozen=True)
class Answer:
    """A good reply."""

    body: bytes
    content_type: str = "application/json"

    @property
    def is_json(self) -> bool:
        """Whether it is JSON."""
        return self.content_type == "application/json"


@dataclass
class Exchange:
    """One request and what becomes of it."""

    peer: Peer
    cell: Cell
    asked: Asked
    answer: Answer

    def reply(self, status: int = 200, body: bytes | None = None, **headers: str) -> bool:
        """Send a whole reply; without a body, the good one. Return True: the connection stays open."""
        kind = {"content_type": self.answer.content_type, **headers}
        self.peer.send(http_reply(status, self.answer.body if body is None else body, **kind))
        return True


@dataclass
class Cell:
    """
    One cell of the matrix at the server.

    :param befall: answers in the place of the service; returns whether the connection stays open.
    :param times: how many requests it befalls.
    :param after: how many it lets pass first.
    :param acts: whether the service has carried out a request that it befalls.
    :param exceed_limits: has the time limits of exchanges pass, as soon as all have sent their requests; returns
        whether they have.
    """

    befall: Callable[[Exchange], bool] | None = None
    times: int = 1_000_000
    after: int = 0
    acts: bool = False
    on_request: Callable[[], None] = lambda: None
    exceed_limits: Callable[[], bool] = lambda: False
    asked: list[Asked] = field(default_factory=list)
    #: How many writes the service has carried out.
    written: int = 0
    #: The most bytes that it could send of one body.
    most_sent: int = 0
    #: How many tokens it has issued.
    tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, asked: Asked) -> bool:
        """Count a request; return whether the fault befalls it."""
        self.on_request()
        with self._lock:
            number = len(self.asked)
            self.asked.append(asked)
            is_hit = self.befall is not None and self.after <= number < self.after + self.times
            if asked.is_write:
                self.written += self.acts if is_hit else 1
            return is_hit


class Services:
    """The three services, and the cells that ask them."""

    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}

    def add(self, cell: Cell) -> str:
        """Return the path of the base address of a cell."""
        name = f"cell-{next(_NUMBERS)}"
        self._cells[name] = cell
        return f"/{name}"

    def serve(self, peer: Peer) -> None:
        """Answer request after request of one connection."""
        while request := peer.request():
            name, asked = _read(request)
            cell = self._cells[name]
            exchange = Exchange(peer, cell, asked, _answer(asked, cell))
            stays = cell.befall(exchange) if cell.take(asked) and cell.befall else exchange.reply()
            if not stays:
                return


def _read(request: bytes) -> tuple[str, Asked]:
    head = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    parts = urlsplit(target)
    _, name, *rest = parts.path.split("/")
    headers = {field.lower(): value for field, _, value in (line.partition(": ") for line in head[1:])}
    params = {key: values[0] for key, values in parse_qs(parts.query).items()}
    return name, Asked(method, "/" + "/".join(rest), params, headers)


def _answer(asked: Asked, cell: Cell) -> Answer:
    if asked.path.endswith("/hot_threads"):
        return Answer(report("node-1").encode(), "text/plain; charset=UTF-8")
    return Answer(json.dumps(_json_of(asked, cell)).encode())


def _json_of(asked: Asked, cell: Cell) -> dict[str, Any]:
    if asked.is_write:
        return _ACTIVITY
    if asked.path == "/token":
        cell.tokens += 1
        return {"access_token": f"{canaries.ACCESS_TOKEN}{cell.tokens}", "expires_in": 3600, "token_type": "Bearer"}
    if asked.path == "/v3/subscriptions":
        return _PAGES.get(asked.params.get("pageToken", ""), page())
    if asked.path.startswith("/_tasks"):
        return {"nodes": {"node-1": {"name": "node-1", "tasks": {}}}}
    return stats({"node-1": 97.0}) if asked.path.startswith("/_nodes") else _of_books(asked.path)


def _of_books(path: str) -> dict[str, Any]:
    if path == "/key":
        return {"plan_limit": {"total": 5000, "left": 4000}}
    if path == "/books":
        return {"data": [book(isbn)["book"] for isbn in ISBNS], "requested": len(ISBNS), "total": len(ISBNS)}
    isbn = path.rpartition("/")[2]
    return book(isbn) if isbn in ISBNS else NO_SUCH_BOOK


def running(services: Services, certificate: Path | None = None) -> Loopback:
    """Return the server of these services, not yet started."""
    return Loopback(services.serve, certificate)
