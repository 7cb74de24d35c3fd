"""What one would write without this provider: the peers of the short benchmarks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
