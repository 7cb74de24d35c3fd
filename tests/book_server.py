"""
A book database of its own process that answers from a ready-made record, so that it is the client that is measured.

Every ISBN that begins with 978 has a record; those that begin with 979 have none. What is asked is remembered.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.server_process import ServerProcess, running

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_MARK = "@" * 13
_NO_SUCH_BOOK = b'{"message": "Not Found", "error_message": "no book has this ISBN"}'
_LIMIT = b'{"errorMessage": "Not Found"}'


class BookServer(ServerProcess):
    """A book database that runs."""

    def seen(self) -> dict[str, Any]:
        """Give what happened: the books ``asked`` for, how many were ``refused``, the ``most`` at a time."""
        seen: dict[str, Any] = self.ask()
        return seen


def book_server(delay: float = 0.0, *, most_a_second: int | None = None) -> AbstractContextManager[BookServer]:
    """
    Serve records.

    :param delay: seconds before each reply.
    :param most_a_second: how many requests are admitted in any second; None for any number.
    """
    return running(BookServer, partial(_Server, delay, most_a_second))


def record(isbn13: str) -> dict[str, Any]:
    """Give a record with the fields and the size of the public service's."""
    return {
        "title": f"The Book {isbn13}: Überblick",
        "title_long": f"The Book {isbn13}: Überblick (Collected Works)",
        "isbn13": isbn13,
        "isbn": isbn13,
        "publisher": "Penguin Classics",
        "language": "en",
        "date_published": "2003-04-30T00:00:01Z",
        "edition": "Revised",
        "pages": 432,
        "dimensions": "Height: 7.8 Inches, Length: 5.1 Inches, Weight: 0.7 Pounds, Width: 0.9 Inches",
        "overview": f"What {isbn13} is about, in a text of usual length. " * 12,
        "image": f"https://images.example/covers/{isbn13}.jpg",
        "msrp": "14.00",
        "authors": ["Dostoyevsky, Fyodor", "McDuff, David"],
        "subjects": ["Fiction", "Crime", "Classics", "Literature"],
        "dewey_decimal": ["891.733"],
        "binding": "Paperback",
    }


class _Server:
    def __init__(self, delay: float, most_a_second: int | None) -> None:
        self._delay = delay
        self._most_a_second = most_a_second
        self._template = json.dumps(record(_MARK), ensure_ascii=False).encode().split(_MARK.encode())
        self._admitted: deque[float] = deque()
        self._under_way = 0
        self._seen: dict[str, Any] = {"asked": [], "requests": 0, "refused": 0, "most": 0, "times": []}

    def seen(self) -> dict[str, Any]:
        return self._seen

    def listen(self, tell: Callable[[int], None]) -> None:
        asyncio.run(self._listen(tell))

    async def _listen(self, tell: Callable[[int], None]) -> None:
        listener = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        tell(listener.sockets[0].getsockname()[1])
        await listener.serve_forever()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                length = next((int(line[16:]) for line in lines if line.startswith(b"content-length: ")), 0)
                body = await reader.readexactly(length)
                writer.write(await self._answer(head.split(b" ", 2)[1].decode(), body))
        writer.close()

    async def _answer(self, path: str, body: bytes) -> bytes:
        self._seen["requests"] += 1
        if not path.endswith("/key"):
            # The quota is asked for once, before the first book, and its reply is waited for.
            self._seen["times"].append(time.monotonic())
        self._under_way += 1
        self._seen["most"] = max(self._seen["most"], self._under_way)
        admitted = self._admit()
        if self._delay:
            await asyncio.sleep(self._delay)
        self._under_way -= 1
        if not admitted:
            return _reply(404, _LIMIT)
        if path.endswith("/books"):
            return self._many(json.loads(body)["isbns"])
        isbn13 = path.rpartition("/")[2]
        if isbn13 == "key":
            return _reply(404, _NO_SUCH_BOOK)
        self._seen["asked"].append(isbn13)
        if not isbn13.startswith("978"):
            return _reply(404, _NO_SUCH_BOOK)
        return _reply(200, b'{"book":%b}' % isbn13.encode().join(self._template))

    def _many(self, isbns: list[str]) -> bytes:
        self._seen["asked"] += isbns
        records = [isbn.encode().join(self._template) for isbn in isbns if isbn.startswith("978")]
        return _reply(200, b'{"total":%d,"requested":%d,"data":[%b]}' % (len(records), len(isbns), b",".join(records)))

    def _admit(self) -> bool:
        if self._most_a_second is None:
            return True
        now = time.monotonic()
        while self._admitted and self._admitted[0] <= now - 1.0:
            self._admitted.popleft()
        if len(self._admitted) >= self._most_a_second:
            self._seen["refused"] += 1
            return False
        self._admitted.append(now)
        return True


def _reply(status: int, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body
