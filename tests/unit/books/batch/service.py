"""A list that is looked up on an event loop whose time jumps, at a service that takes its time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.api import BOOK_RULES
from airflow_provider_mediaops.books.batch.options import BatchOptions
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.runner import lookup_batch
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Clock
from airflow_provider_mediaops.http.rate_limit.backends import MemoryBackend
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.runner import arun
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.unit.book_database import found, replied
from tests.unit.books.held import CANARY
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.http.exchange import CallFlow, Request, Response, Wait

ISBNS = sample_isbns(2_000)
A, B, C, D = ISBNS[:4]
DAILY = replied({"message": "Daily quota exceeded"}, 403)
DOWN = replied(b"", 503)


def clock() -> float:
    return asyncio.get_running_loop().time()


def seconds() -> float:
    """Give the seconds since the beginning."""
    return clock() - START


def books(isbns: Iterable[str]) -> Response:
    """Give the reply to a bulk request."""
    return replied({"data": [{"isbn13": isbn} for isbn in isbns]})


@dataclass
class Service:
    """
    A book database.

    :param latency: the seconds until it comes; by book, or for all.
    """

    answer: Callable[[str], Response] = found
    latency: dict[str, float] | float = 0.1
    many: Callable[[list[str]], Response] = books
    asked: list[str] = field(default_factory=list)
    batches: list[list[str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    under_way: int = 0
    most: int = 0

    async def send(self, request: Request) -> Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.times.append(clock())
        sent_at = clock()
        isbn, isbns = request.path.rpartition("/")[2], []
        if request.body is None:
            self.asked.append(isbn)
        else:
            isbns = json.loads(request.body)["isbns"]
            self.batches.append(isbns)
        try:
            await asyncio.sleep(self.latency if isinstance(self.latency, float) else self.latency.get(isbn, 0.1))
        finally:
            self.under_way -= 1
        return replace(self.many(isbns) if isbns else self.answer(isbn), sent_at=sent_at)

    def seconds_of(self, isbn: str) -> list[int]:
        """Give when a book was asked for, where each request is for one book."""
        return [round(time - START) for time, asked in zip(self.times, self.asked, strict=True) if asked == isbn]


def batch_of(
    service: Service, rows: Iterable[IsbnRow], *, rate: float = 5.0, tries: int = 1, **how: Any
) -> AsyncGenerator[BatchUpdate, None]:
    times = Clock(monotonic=clock)
    limiter = replace(limiter_for("books", "key", rate, MemoryBackend(clock)), clock=times)
    # With one try, the client makes no others, but the batch does.
    policy = RetryPolicy(max_attempts=max(tries, 2), max_wait=120.0 if tries > 1 else 0.0)
    client = Client(("https://books.example",), BOOK_RULES, retry=policy, limiter=limiter, clock=times)
    more = {name: how.pop(name) for name in ("warn", "resume", "canary") if name in how}
    options = BatchOptions(**{"max_failures": 99, **how})

    async def sleep(wait: Wait) -> None:
        await asyncio.sleep(wait.seconds)

    def run(flow: CallFlow[Any]) -> Coroutine[Any, Any, Any]:
        return arun(flow, service.send, sleep, in_thread=asyncio.to_thread)

    return lookup_batch(client, rows, run, options=options, **{"canary": CANARY, **more})


async def lookups_of(batch: AsyncGenerator[BatchUpdate, None]) -> list[Lookup]:
    async with aclosing(batch) as updates:
        return [lookup async for update in updates for lookup in update.done]


def looked_up(service: Service, texts: Iterable[str], **how: Any) -> list[Lookup]:
    return in_virtual_time(lookups_of(batch_of(service, map(IsbnRow.of, texts), **how)))


def statuses(service: Service, texts: Iterable[str], **how: Any) -> list[tuple[str, str]]:
    """Give the text and the status of each row."""
    return [(lookup.input, lookup.status) for lookup in looked_up(service, texts, **how)]


async def follow(batch: AsyncGenerator[BatchUpdate, None], seen: list[BatchUpdate]) -> None:
    """Keep all updates, also those before an error."""
    async for update in batch:
        seen.append(update)  # noqa: PERF401 an error would lose those of a comprehension


def inputs_of(updates: Iterable[BatchUpdate]) -> list[str]:
    return [lookup.input for update in updates for lookup in update.done]
