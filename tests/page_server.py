"""
A video platform of its own process that answers from ready-made pages, so that it is the client that is measured.

Each page holds 50 subscriptions; the page token is the page's number. Requests are remembered by their page.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

A_PAGE = 50
_SECONDS = 600
_DIGITS = 8


@dataclass(frozen=True)
class Pages:
    """
    A server that runs.

    :param base: its address.
    :param control: the way to its process.
    """

    base: str
    control: Connection

    def requests(self) -> list[int]:
        """Give the number of the page of each request so far, in the order in which they came."""
        self.control.send("requests")
        seen: list[int] = self.control.recv()
        return seen

    def forget(self) -> None:
        """Forget them."""
        self.control.send("forget")
        self.control.recv()


@contextmanager
def page_server(pages: int, delay: float = 0.0) -> Iterator[Pages]:
    """
    Serve a listing.

    :param pages: how many pages it has.
    :param delay: seconds from a request to its reply.
    :returns: a context manager that gives the server.
    """
    # A process of its own from the start: a fork would keep what this one has open.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(pages, delay, theirs), daemon=True)
    process.start()
    try:
        yield Pages(f"http://127.0.0.1:{ours.recv()}", ours)
    finally:
        process.kill()
        process.join()


def record(number: str) -> dict[str, Any]:
    """
    Give a subscription with the fields and the size of the public service's.

    :param number: digits that tell it from the others.
    """
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
        self.seen: list[int] = []

    def reply(self, page: int) -> bytes:
        numbers = [b"%08d" % (page * A_PAGE + place) for place in range(A_PAGE) for _ in range(self._a_record)]
        parts = [part for pair in zip(self._template, numbers, strict=False) for part in pair]
        following = b'"nextPageToken":"%d",' % (page + 1) if page + 1 < self._pages else b""
        body = b"".join(
            [b'{"kind":"svc#subscriptionListResponse",', following, b'"items":', *parts, self._template[-1], b"}"]
        )
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: %d\r\n\r\n"
        return head % len(body) + body

    def answer(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            while head := _head(connection):
                target = head.split(b" ", 2)[1].decode()
                token = target.partition("pageToken=")[2].partition("&")[0]
                page = int(token or "0")
                self.seen.append(page)
                due = time.monotonic() + self._delay
                reply = self.reply(page)
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


def _serve(pages: int, delay: float, control: Connection) -> None:
    server = _Server(pages, delay)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        control.send(listener.getsockname()[1])
        threading.Thread(target=_accept, args=(listener, server), daemon=True).start()
        # It ends with the process that started it, or after a time that no use of it takes.
        while control.poll(_SECONDS):
            try:
                order = control.recv()
            except EOFError:
                return
            if order == "forget":
                server.seen.clear()
            control.send(list(server.seen))


def _accept(listener: socket.socket, server: _Server) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=server.answer, args=(connection,), daemon=True).start()
