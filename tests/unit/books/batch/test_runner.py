"""A walk on an event loop whose time jumps, against a service that takes its time."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.api import BOOK_RULES
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.runner import lookup_batch
from airflow_provider_mediaops.books.batch.scheduler import IN_FLIGHT, BatchOptions
from airflow_provider_mediaops.books.batch.seen import ResumePoint, SeenLookups
from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError, ServiceUnavailableError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Wait, arun
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.rate_limit.stores import MemoryStore
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from tests.unit.book_database import found, limit_404, no_such_book, replied
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable

    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.http.exchange import Conversation, Request, Response

ISBNS = sample_isbns(2_000)
CANARY = "9780131103627"
DAILY = replied({"message": "Daily quota exceeded"}, 403)


def clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Service:
    """
    A book database.

    :param answer: what it says of a book, or of a list of them.
    :param latency: seconds until it does; by book, or for all.
    """

    answer: Callable[[str], Response] = found
    latency: dict[str, float] | float = 0.1
    asked: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    under_way: int = 0
    most: int = 0

    async def send(self, request: Request) -> Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.times.append(clock())
        isbn = request.path.rpartition("/")[2] if request.body is None else json.loads(request.body)["isbns"][0]
        self.asked.append(isbn)
        try:
            await asyncio.sleep(self.latency if isinstance(self.latency, float) else self.latency.get(isbn, 0.1))
        finally:
            self.under_way -= 1
        return self.answer(isbn)


class CountingLookups(SeenLookups):
    """Counts the look-ups that are done."""

    count = 0

    def put(self, lookup: Lookup) -> None:
        self.count += 1
        super().put(lookup)


def batch_of(
    service: Service, rows: Iterable[IsbnRow], *, rate: float = 5.0, tries: int = 1, **how: Any
) -> AsyncGenerator[BatchUpdate, None]:
    times = Clock(monotonic=clock)
    limiter = replace(limiter_for("books", "key", rate, MemoryStore(times)), clock=times)
    # Tries that are not the client's own are those of the batch.
    policy = RetryPolicy(max_attempts=max(tries, 2), max_wait=120.0 if tries > 1 else 0.0)
    client = Client(("https://books.example",), BOOK_RULES, retry=policy, limiter=limiter, clock=times)
    more = {name: how.pop(name) for name in ("warn", "resume") if name in how}
    options = BatchOptions(**{"max_failures": 99, **how})

    async def sleep(wait: Wait) -> None:
        await asyncio.sleep(wait.seconds)

    def run(conversation: Conversation[Any]) -> Coroutine[Any, Any, Any]:
        return arun(conversation, service.send, sleep, in_thread=asyncio.to_thread)

    return lookup_batch(client, rows, run, options=options, canary=CANARY, clock=clock, **more)


async def rows_of(batch: AsyncGenerator[BatchUpdate, None]) -> list[tuple[str, str]]:
    async with aclosing(batch) as updates:
        return [(done.input, done.status) async for update in updates for done in update.done]


def walked(service: Service, texts: Iterable[str], **how: Any) -> list[tuple[str, str]]:
    return in_virtual_time(rows_of(batch_of(service, map(IsbnRow.of, texts), **how)))


async def follow(batch: AsyncGenerator[BatchUpdate, None], seen: list[BatchUpdate]) -> None:
    async for update in batch:
        seen.append(update)  # noqa: PERF401 also those before an error


def inputs_of(updates: Iterable[BatchUpdate]) -> list[str]:
    return [done.input for update in updates for done in update.done]


class TestPace:
    @pytest.mark.parametrize(("rate", "latency"), [(5.0, 5.0), (5.0, 0.05), (50.0, 0.5), (1.0, 3.0)])
    def test_the_rate_is_reached_whatever_a_reply_takes(self, rate: float, latency: float) -> None:
        service = Service(latency=latency)

        rows = walked(service, ISBNS[:100], rate=rate)

        assert rows == [(isbn, "found") for isbn in ISBNS[:100]]
        assert (len(service.times) - 1) / (service.times[-1] - service.times[0]) >= 0.97 * rate
        assert service.most <= rate * latency + 2

    def test_there_is_a_bound_to_what_is_under_way(self) -> None:
        service = Service(latency=30.0)
        walked(service, ISBNS[:200], rate=100.0)

        assert service.most == IN_FLIGHT

    def test_no_more_rows_are_read_than_are_wanted(self) -> None:
        read: list[str] = []

        def rows() -> Iterable[IsbnRow]:
            for isbn in ISBNS:
                read.append(isbn)
                yield IsbnRow.of(isbn)

        async def two() -> None:
            async with aclosing(batch_of(service, rows(), window=50, ahead=1)) as updates:
                async for update in updates:
                    if update.done:
                        break

        service = Service()
        in_virtual_time(two())
        assert len(read) <= len(service.asked) + 1 <= 4

    def test_a_reader_that_takes_its_time_stops_the_walk_at_its_window(self) -> None:
        service = Service()

        async def slowly() -> None:
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS), window=20)) as updates:
                async for update in updates:
                    if update.done:
                        await asyncio.sleep(1000)
                        break

        in_virtual_time(slowly())
        assert len(service.asked) <= 21

    def test_nothing_is_sent_before_the_first_is_wanted(self) -> None:
        service = Service()
        batch_of(service, map(IsbnRow.of, ISBNS))

        assert service.asked == []


class TestRows:
    def test_rows_keep_their_order_however_long_each_takes(self) -> None:
        service = Service(latency={isbn: 3.0 - number / 10 for number, isbn in enumerate(ISBNS[:20])})

        assert [text for text, _ in walked(service, ISBNS[:20])] == ISBNS[:20]

    def test_rows_that_are_done_ahead_are_handed_out_as_such(self) -> None:
        async def seen() -> list[tuple[int, int, bool]]:
            service = Service(latency={ISBNS[0]: 10.0})
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS[:4]))) as updates:
                return [(len(s.done), len(s.out_of_order), s.changed) async for s in updates if s.changed]

        assert in_virtual_time(seen()) == [(0, 1, True), (0, 2, True), (0, 3, True), (4, 0, True)]

    def test_many_of_them_are_told_of_now_and_then_only(self) -> None:
        async def seen() -> list[int]:
            service = Service(latency={ISBNS[0]: 20.0})
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS[:900]), rate=45.0)) as updates:
                return [len(update.out_of_order) async for update in updates if update.changed]

        told = in_virtual_time(seen())
        assert max(told) > 800
        assert len([ahead for ahead in told if ahead > 64]) < 25

    def test_duplicates_and_texts_that_are_no_isbns_cost_nothing(self) -> None:
        service = Service()
        texts = ["x", ISBNS[0], ISBNS[0], "", f"ISBN {ISBNS[0]}", *["y"] * 3_000, *[ISBNS[0]] * 3_000]

        rows = walked(service, texts)

        assert [text for text, _ in rows] == texts
        assert service.asked == [ISBNS[0]]

    def test_an_empty_list_is_an_empty_walk(self) -> None:
        service = Service()

        assert walked(service, []) == []
        assert service.asked == []

    def test_while_nothing_is_done_there_is_a_beat(self) -> None:
        async def seen() -> list[tuple[int, bool]]:
            batch = batch_of(Service(latency=5.5), map(IsbnRow.of, ISBNS[:1]))
            async with aclosing(batch) as updates:
                return [(len(update.done), update.changed) async for update in updates]

        *beats, last = in_virtual_time(seen())
        assert beats == [(0, False)] * 5
        assert last == (1, True)

    def test_every_request_is_counted(self) -> None:
        async def last() -> BatchUpdate:
            batch = batch_of(Service(limit_404_first), map(IsbnRow.of, ISBNS[:2]))
            async with aclosing(batch) as updates:
                return [update async for update in updates][-1]

        seen: set[str] = set()

        def limit_404_first(isbn: str) -> Response:
            first = isbn == ISBNS[0] and isbn not in seen
            seen.add(isbn)
            return limit_404() if first else found(isbn)

        # The other book is the witness.
        assert in_virtual_time(last()).requests == 3


class TestTheRuleAbout404:
    def test_missing_books_are_believed_beside_books_that_are_found(self) -> None:
        missing = set(ISBNS[10:20])
        service = Service(lambda isbn: no_such_book() if isbn in missing else found(isbn))

        rows = walked(service, ISBNS[:40])

        assert rows == [(isbn, "not_found" if isbn in missing else "found") for isbn in ISBNS[:40]]
        assert len(service.asked) <= 41

    def test_a_burst_of_the_limit_loses_no_book(self) -> None:
        def answer(isbn: str) -> Response:
            return limit_404() if 3.0 <= clock() - 1000 <= 9.0 else found(isbn)

        service = Service(answer, latency=1.0)

        assert walked(service, ISBNS[:60], tries=5) == [(isbn, "found") for isbn in ISBNS[:60]]
        assert len(service.asked) < 90

    def test_a_limit_that_never_ends_makes_no_book_missing(self) -> None:
        service = Service(lambda _: limit_404())

        rows = walked(service, ISBNS[:30], retry_after=(10.0,))

        assert rows == [(isbn, "failed") for isbn in ISBNS[:30]]

    def test_the_shared_rate_is_told_of_a_limit_that_only_404s_have_shown(self) -> None:
        def answer(isbn: str) -> Response:
            return limit_404() if clock() - 1000 < 2.0 else found(isbn)

        service = Service(answer)
        walked(service, ISBNS[:20])

        # Not five a second, after that.
        times = [time for time in service.times if time > 1004.0]
        assert (len(times) - 1) / (times[-1] - times[0]) < 4.5


class TestEnds:
    def test_a_spent_quota_ends_the_walk_with_all_that_was_found(self) -> None:
        service = Service(lambda isbn: DAILY if isbn == ISBNS[7] else found(isbn), latency={ISBNS[7]: 1.0})
        seen: list[BatchUpdate] = []

        with pytest.raises(QuotaExceededError):
            in_virtual_time(follow(batch_of(service, map(IsbnRow.of, ISBNS)), seen))

        assert inputs_of(seen) == ISBNS[:7]
        ahead = [done.input for done in seen[-1].out_of_order]
        # What was under way at that moment is kept, and nothing was asked after it.
        assert ahead == ISBNS[8 : len(service.asked)]
        assert len(service.asked) <= 14

    def test_what_is_under_way_then_has_a_few_seconds(self) -> None:
        async def seconds() -> float:
            with pytest.raises(QuotaExceededError):
                await rows_of(batch_of(service, map(IsbnRow.of, ISBNS)))
            return clock() - 1000

        service = Service(lambda isbn: DAILY if isbn == ISBNS[1] else found(isbn), latency={ISBNS[0]: 500.0})

        assert 10.0 <= in_virtual_time(seconds()) < 12.0
        assert service.under_way == 0

    def test_a_list_that_cannot_be_read_on_ends_the_walk_after_the_rows_before(self) -> None:
        def rows() -> Iterable[IsbnRow]:
            yield from map(IsbnRow.of, ISBNS[:3])
            raise OSError("the source is gone")

        seen: list[BatchUpdate] = []
        with pytest.raises(OSError, match="the source is gone"):
            in_virtual_time(follow(batch_of(Service(), rows(), ahead=1), seen))

        assert inputs_of(seen) == ISBNS[:3]

    def test_a_walk_that_is_given_up_leaves_nothing_behind(self) -> None:
        async def some() -> None:
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS))) as updates:
                async for _ in updates:
                    break

        service = Service(latency=100.0)
        in_virtual_time(some())

        assert service.under_way == 0

    def test_a_fault_of_the_program_ends_it_too(self) -> None:
        def broken(_: str) -> Response:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            walked(Service(broken), ISBNS)


class TestBulk:
    def test_batches_are_asked_for_at_the_rate(self) -> None:
        def many(isbn: str) -> Response:
            start = ISBNS.index(isbn)
            return replied({"data": [{"isbn13": each} for each in ISBNS[start : start + 100]]})

        service = Service(many)

        assert walked(service, ISBNS[:250], bulk_size=100) == [(isbn, "found") for isbn in ISBNS[:250]]
        assert service.asked == [ISBNS[0], ISBNS[100], ISBNS[200]]

    def test_the_event_loop_breathes_while_many_books_are_taken_in(self) -> None:
        breaths = [0]

        async def breathing() -> None:
            while breaths[-1] < 1_000:
                breaths.append(seen.count)
                await asyncio.sleep(0)

        def many(_: str) -> Response:
            tasks.append(asyncio.create_task(breathing()))
            return replied({"data": [{"isbn13": isbn} for isbn in ISBNS[:1_000]]})

        tasks: list[asyncio.Task[None]] = []
        seen = CountingLookups()
        rows = map(IsbnRow.of, ISBNS[:1_000])
        batch = batch_of(Service(many), rows, bulk_size=1_000, window=1_000, resume=ResumePoint(seen))

        assert in_virtual_time(rows_of(batch)) == [(isbn, "found") for isbn in ISBNS[:1_000]]
        assert max(after - before for before, after in itertools.pairwise(breaths)) == 50

    def test_a_service_without_it_is_told_of_and_asked_one_by_one(self) -> None:
        async def seen() -> list[tuple[str, str]]:
            return await rows_of(batch_of(service, map(IsbnRow.of, ISBNS[:3]), bulk_size=100, warn=told.append))

        told: list[str] = []
        answers = iter([replied({}, 405)])
        service = Service(lambda isbn: next(answers, None) or found(isbn))

        assert in_virtual_time(seen()) == [(isbn, "found") for isbn in ISBNS[:3]]
        [line] = told
        assert line.endswith("no bulk requests (POST /books) for this key: books are asked for one by one.")


class TestFailures:
    def test_a_failure_too_many_ends_the_walk_as_what_it_is(self) -> None:
        service = Service(lambda isbn: replied(b"", 503) if isbn in ISBNS[1:3] else found(isbn))
        seen: list[BatchUpdate] = []
        told: list[str] = []
        batch = batch_of(service, map(IsbnRow.of, ISBNS), retry_after=(), max_failures=1, warn=told.append)

        with pytest.raises(ServiceUnavailableError):
            in_virtual_time(follow(batch, seen))

        assert told == ["More rows have failed than max_failures allows: the list ends with the error of the last one."]
        assert inputs_of(seen) == ISBNS[:2]
        # What was under way at that moment is kept.
        ahead = {done.input: done.status for done in seen[-1].out_of_order}
        assert ahead.pop(ISBNS[2]) == "failed"
        assert list(ahead) == service.asked[3:]

    def test_the_last_row_can_be_one_too_many(self) -> None:
        service = Service(lambda isbn: replied(b"", 503) if isbn == ISBNS[1] else found(isbn))

        with pytest.raises(ServiceUnavailableError):
            walked(service, ISBNS[:2], retry_after=(), max_failures=0)

    def test_what_could_not_be_told_apart_is_a_failure(self) -> None:
        with pytest.raises(RateLimitedError, match="set canary_isbn"):
            walked(Service(lambda _: limit_404()), ISBNS[:1], max_failures=0)
