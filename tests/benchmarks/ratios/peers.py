"""What one would write without this provider: the peers of the short benchmarks."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import httpx

#: The requests for books that are under way together.
AT_A_TIME = 10
_LINE = re.compile(r"\s*([\d.]+)% \[?.*\]?.*usage by thread '(.*)'|\s*(\d+)/(\d+) snapshots|\s*(\S.*)")


def match_lines(text: str) -> None:
    """Match a pattern against each line of a report of hot threads, and keep what it finds."""
    kept = [found.groups() for line in text.splitlines() if (found := _LINE.match(line))]
    if not kept:
        raise RuntimeError("The pattern matches no line.")


def look_up(base: str, isbns: Sequence[str], file: Path) -> None:
    """Look up books with httpx on an event loop, several at a time, and write a line for each."""
    import httpx

    room = asyncio.Semaphore(AT_A_TIME)
    headers = {"Authorization": "key-of-the-benchmark"}

    async def look_up_one(client: httpx.AsyncClient, isbn: str) -> str:
        async with room:
            reply = await client.get(f"{base}/book/{isbn}")
        return json.dumps({"isbn": isbn, "status": reply.status_code, "book": reply.json().get("book")})

    async def look_up_all() -> list[str]:
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            return await asyncio.gather(*(look_up_one(client, isbn) for isbn in isbns))

    file.write_text("".join(f"{line}\n" for line in asyncio.run(look_up_all())), encoding="utf-8")


class PlainLimiter:
    """
    Keeps the times of the latest requests of a key in a SQLite file, as JSON.

    :param limit: how many requests are admitted in a second.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        self._database = sqlite3.connect(path, isolation_level=None)
        # As ours: to wait for the disk takes as much of the processor as the disk's driver likes.
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute("CREATE TABLE requests (name TEXT PRIMARY KEY, times TEXT)")

    def reserve(self, name: str) -> float:
        """Return the time of the next request, in a transaction that excludes other processes."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                now = time.time()
                row = self._database.execute("SELECT times FROM requests WHERE name = ?", (name,)).fetchone()
                times = json.loads(row[0]) if row else []
                due: float = max(now, times[-self._limit] + 1.0) if len(times) >= self._limit else now
                times = json.dumps([*times, due][-self._limit :])
                self._database.execute("INSERT OR REPLACE INTO requests VALUES (?, ?)", (name, times))
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
            return due

    def close(self) -> None:
        """Close the file."""
        self._database.close()
