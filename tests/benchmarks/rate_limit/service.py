"""The stand-in service: it admits so many requests of a key in any second, strictly, and keeps a log of all."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict, deque

from tests.benchmarks.rate_limit.weather import Lateness, rate_of, reply_seconds, weather_of


class Service:
    """Admits so many requests of a key in any second; the key says how many."""

    def __init__(self) -> None:
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)
        self._log: defaultdict[str, list[tuple[float, str, bool]]] = defaultdict(list)
        self._late: defaultdict[str, Lateness] = defaultdict(Lateness)

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Answer a request."""
        if path.startswith("/log/"):
            return 200, json.dumps(self._log[path.removeprefix("/log/")]).encode()
        now, key = time.monotonic(), headers["authorization"]
        admitted = self._admitted[key]
        while admitted and admitted[0] <= now - 1.0:
            admitted.popleft()
        good = len(admitted) < rate_of(key)
        if good:
            admitted.append(now)
        self._log[key].append((now, headers["x-process"], good))
        return (200, b"{}") if good else (429, b'{"message": "Limit Exceeded"}')

    def reply_seconds(self, key: str) -> float:
        """Return how long a reply takes."""
        if weather_of(key) not in ("jitter", "late"):
            return 0.0
        late = self._late[key].seconds() if weather_of(key) == "late" else 0.0
        return reply_seconds() + late

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        while head := (await _read_head(reader)).decode():
            first, *lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            status, body = self.answer(first.split()[1], headers)
            await asyncio.sleep(self.reply_seconds(headers.get("authorization", "")))
            writer.write(b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def serve_for_ever() -> None:
    """Print the port that the service listens on, and serve."""
    server = await asyncio.start_server(Service().serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 for the process that started this one
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve_for_ever())
