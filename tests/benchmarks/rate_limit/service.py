"""
The stand-in service: it admits so many requests of a key in any second, strictly, and keeps a log of all.

When a request came is the kernel's to say. On a busy machine this process gets to read it tens of milliseconds later,
and would refuse the punctual one after it: with its own clock, 6 of 12 cases at once met a refusal that was not the
limiter's.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from bisect import insort
from collections import defaultdict

# Linux's number of SO_TIMESTAMPNS, which Python does not name. Its value is two C longs: seconds and nanoseconds.
_TIMESTAMPS, _TIMESPEC = 35, struct.Struct("@ll")
_HEAD_ENDS = b"\r\n\r\n"


def rate_of(key: str) -> int:
    """Return the rate of a key, as in ``5-anything``."""
    return int(key.partition("-")[0])


class Service:
    """Admits so many requests of a key in any second; the key says how many."""

    def __init__(self) -> None:
        self._admitted: defaultdict[str, list[float]] = defaultdict(list)
        self._log: defaultdict[str, list[tuple[float, str, bool]]] = defaultdict(list)

    def answer(self, path: str, headers: dict[str, str], came_at: float) -> tuple[int, bytes]:
        """Answer a request that came at a time in seconds."""
        if path.startswith("/log/"):
            return 200, json.dumps(sorted(self._log[path.removeprefix("/log/")])).encode()
        key = headers["authorization"]
        admitted = self._admitted[key]
        # Not quite in order: of two that came while this process waited, either may be read first.
        good = sum(came_at - 1.0 < each for each in admitted) < rate_of(key)
        if good:
            insort(admitted, came_at)
            del admitted[: -2 * rate_of(key)]
        self._log[key].append((came_at, headers["x-process"], good))
        return (200, b"{}") if good else (429, b'{"message": "Limit Exceeded"}')

    async def serve(self, connection: socket.socket) -> None:
        """Answer the requests of a connection."""
        connection.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)
        with connection:
            while received := await _read_head(connection):
                head, came_at = received
                first, *lines = head.split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if line)
                status, body = self.answer(first.split()[1], headers, came_at)
                reply = b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
                await asyncio.get_running_loop().sock_sendall(connection, reply)


async def _read_head(connection: socket.socket) -> tuple[str, float] | None:
    """Return the head of the next request and when its end came; None if the client has closed the connection."""
    head, came_at = b"", 0.0
    while not head.endswith(_HEAD_ENDS):
        await _until_readable(connection)
        try:
            data, ancillary, *_ = connection.recvmsg(4096, socket.CMSG_SPACE(_TIMESPEC.size))
        except ConnectionError:
            return None
        if not data:
            return None
        seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2]) if ancillary else (time.time(), 0)
        head, came_at = head + data, seconds + nanoseconds / 1e9
    return head.decode(), came_at


async def _until_readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(connection, readable.set_result, None)
    try:
        await readable
    finally:
        loop.remove_reader(connection)


async def serve_for_ever() -> None:
    """Print the port that the service listens on, and serve."""
    service, connections = Service(), set()
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        server.settimeout(0.0)
        # From now on the kernel notes the times, also of what comes before a connection is accepted.
        server.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)
        print(server.getsockname()[1], flush=True)  # noqa: T201 for the process that started this one
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(server)
            connections.add(task := asyncio.create_task(service.serve(connection)))
            task.add_done_callback(connections.discard)


if __name__ == "__main__":
    asyncio.run(serve_for_ever())
