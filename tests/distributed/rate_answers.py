"""A way to the rate store's Redis that notes what the store answers."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis_server import RedisServer


@dataclass(frozen=True)
class Grant:
    """
    Permission to send a request.

    :param at: its time on the store's clock.
    :param passed: when it passed by here, on the same machine's clock.
    """

    at: float
    passed: float


@dataclass(frozen=True)
class Reservation:
    """
    A slot that was reserved.

    :param epoch: the epoch of the schedule.
    :param position: the slot's place in the schedule.
    :param due: its time on the store's clock.
    :param asked: when it was reserved, on the store's clock.
    :param put_off: whether the log of the latest requests put it off.
    """

    epoch: float
    position: float
    due: float
    asked: float
    put_off: bool


@dataclass
class RateAnswers:
    """
    Passes on what is said between rate limiters and their Redis, and keeps the answers.

    :param redis: the server; it may be restarted.
    """

    redis: RedisServer
    grants: list[Grant] = field(default_factory=list)
    slots: list[Reservation] = field(default_factory=list)
    port: int = 0

    def reservations(self) -> list[Reservation]:
        """Return the first answer about each slot, in the order in which the store gave them."""
        first: dict[tuple[float, float], Reservation] = {}
        for slot in sorted(self.slots, key=lambda slot: slot.asked):
            first.setdefault((slot.epoch, slot.position), slot)
        return list(first.values())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Listen on a free port."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            thread = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            thread.start()
            yield
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self.redis.port)) as server:
            threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
            with server.makefile("rb") as replies:
                while raw := self._next(replies):
                    client.sendall(raw)
            client.shutdown(socket.SHUT_RDWR)

    def _next(self, replies: IO[bytes]) -> bytes:
        raw, value = _read_reply(replies)
        if isinstance(value, list) and value[0] == b"granted":
            self.grants.append(Grant(float(value[2]), time.time()))
        elif isinstance(value, list) and value[0] == b"slot":
            epoch, position, due, wait = map(float, value[1:5])
            self.slots.append(Reservation(epoch, position, due, due - wait, put_off=value[5] != b""))
        return raw


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


def _read_reply(replies: IO[bytes]) -> tuple[bytes, Any]:
    """Read one reply of the Redis protocol; return its bytes and its value. At the end both are empty."""
    raw = replies.readline()
    kind, size = raw[:1], raw[1:].strip()
    if kind == b"$" and int(size) >= 0:
        data = replies.read(int(size) + 2)
        return raw + data, data[:-2]
    if kind != b"*":
        return raw, size
    values = []
    for _ in range(int(size)):
        part, value = _read_reply(replies)
        raw += part
        values.append(value)
    return raw, values
