"""
A video platform of its own process that answers from ready-made pages, so that it is the client that is measured.

Each page holds 50 subscriptions; the page token is the page's number. Requests are remembered by their page.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.server_process import ServerProcess, running

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

A_PAGE = 50
_DIGITS = 8


class Pages(ServerProcess):
    """A video platform that runs."""

    def requests(self) -> list[int]:
        """Give the number of the page of each request so far, in the order in which they came."""
        seen: list[int] = self.ask()
        return seen


def page_server(pages: int, delay: float = 0.0) -> AbstractContextManager[Pages]:
    """
    Serve a listing.

    :param pages: how many pages it has.
    :param delay: seconds from a request to its reply.
    """
    return running(Pages, partial(_Server, pages, delay))


def record(number: str) -> dict[str, Any]:
    """Give a subscription with the fields and the size of the public service's."""
    channel = f"UC{number}abcdefghijklmn"
    image = f"https://images.example/{number}abcdefghijklmnopqrstuvwxyz0123456789="
    return {
        "kind": "svc#subscription",
        "etag": f"{number}-abcdefghijklmnopqr",
        "id": f"{number}-abcdefghijklmnopqrstuvwxyzABCDEFGH",
        "snippet": {
            "publishedAt": "2024-03-14T20:00:00.123456Z",
            "title": f"Channel {number} ✓ Überblick",
            "description": f"What {number} shows every week, in a text of usual length. " * 2,
            "resourceId": {"kind": "svc#channel", "channelId": channel},
            "channelId": "UCmeabcdefghijklmnopqrst",
            "thumbnails": {name: {"url": f"{image}{name}"} for name in ("default", "medium", "high")},
        },
        "contentDetails": {"totalItemCount": 512, "newItemCount": 0, "activityType": "all"},
    }


class _Server:
    def __init__(self, pages: int, delay: float) -> None:
        self._pages = pages
        self._delay = delay
        items = json.dumps([record("@" * _DIGITS)] * A_PAGE, ensure_ascii=False).encode()
        self._template = items.split(b"@" * _DIGITS)
        self._a_record = (len(self._template) - 1) // A_PAGE
        self._seen: list[int] = []

    def seen(self) -> list[int]:
        return list(self._seen)

    def listen(self, tell: Callable[[int], None]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            tell(listener.getsockname()[1])
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _reply(self, page: int) -> bytes:
        numbers = [b"%08d" % (page * A_PAGE + place) for place in range(A_PAGE) for _ in range(self._a_record)]
        parts = [part for pair in zip(self._template, numbers, strict=False) for part in pair]
        following = b'"nextPageToken":"%d",' % (page + 1) if page + 1 < self._pages else b""
        body = b"".join(
            [b'{"kind":"svc#subscriptionListResponse",', following, b'"items":', *parts, self._template[-1], b"}"]
        )
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: %d\r\n\r\n"
        return head % len(body) + body

    def _answer(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            while head := _head(connection):
                target = head.split(b" ", 2)[1].decode()
                token = target.partition("pageToken=")[2].partition("&")[0]
                page = int(token or "0")
                self._seen.append(page)
                due = time.monotonic() + self._delay
                reply = self._reply(page)
                if (left := due - time.monotonic()) > 0:
                    time.sleep(left)
                connection.sendall(reply)


def _head(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        part = connection.recv(65536)
        if not part:
            return b""
        received += part
    return received
