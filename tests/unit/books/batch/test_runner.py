"""A list that is looked up: its rate, its order, how far it is read ahead, and its ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import pytest

from airflow_provider_mediaops.books.batch.options import ResumePoint, SeenLookups
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.exceptions import QuotaExceededError, ServiceUnavailableError
from tests.unit.book_database import found, replied
from tests.unit.books.batch.service import (
    DAILY,
    ISBNS,
    Service,
    batch_of,
    books,
    follow,
    inputs_of,
    lookups_of,
    seconds,
    statuses,
)
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.virtual_time import VirtualTimeLoop


class CountingLookups(SeenLookups):
    """Counts the look-ups that are done."""

    count = 0

    def put(self, lookup: Lookup) -> None:
        self.count += 1
        super().put(lookup)


class TestPace:
    @pytest.mark.parametrize(("rate", "latency"), [(5.0, 5.0), (5.0, 0.05), (50.0, 0.5), (1.0, 3.0)])
    def test_the_rate_is_reached_whatever_a_reply_takes(self, rate: float, latency: float) -> None:
        service = Service(latency=latency)

        rows = statuses(service, ISBNS[:100], rate=rate)

        assert rows == [(isbn, "found") for isbn in ISBNS[:100]]
        assert (len(service.times) - 1) / (service.times[-1] - service.times[0]) >= 0.97 * rate
        assert service.most <= rate * latency + 2

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

    def test_a_reader_that_takes_its_time_stops_it_at_its_window(self) -> None:
        service = Service()

        async def slowly() -> None:
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS), window=20)) as updates:
                async for update in updates:
                    if update.done:
                        await asyncio.sleep(1000)
                        break

        in_virtual_time(slowly())
        assert len(service.asked) <= 21


class TestRows:
    def test_rows_that_are_done_ahead_are_handed_out_as_such(self) -> None:
        async def seen() -> list[tuple[int, int, bool]]:
            service = Service(latency={ISBNS[0]: 10.0})
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS[:4]))) as updates:
                return [(len(s.done), len(s.out_of_order), s.changed) async for s in updates if s.changed]

        assert in_virtual_time(seen()) == [(0, 1, True), (0, 2, True), (0, 3, True), (4, 0, True)]

    @pytest.mark.long
    def test_many_of_them_are_told_of_now_and_then_only(self) -> None:
        async def seen() -> list[int]:
            service = Service(latency={ISBNS[0]: 20.0})
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS[:900]), rate=45.0)) as updates:
                return [len(update.out_of_order) async for update in updates if update.changed]

        told = in_virtual_time(seen())
        assert max(told) > 800
        assert len([ahead for ahead in told if ahead > 64]) < 25

    def test_while_nothing_is_done_there_is_a_beat(self) -> None:
        async def seen() -> list[tuple[int, bool]]:
            batch = batch_of(Service(latency=5.5), map(IsbnRow.of, ISBNS[:1]))
            async with aclosing(batch) as updates:
                return [(len(update.done), update.changed) async for update in updates]

        *beats, last = in_virtual_time(seen())
        assert beats == [(0, False)] * 5
        assert last == (1, True)


class TestEnds:
    def test_a_spent_quota_ends_the_list_with_all_that_was_found(self) -> None:
        service = Service(lambda isbn: DAILY if isbn == ISBNS[7] else found(isbn), latency={ISBNS[7]: 1.0})
        seen: list[BatchUpdate] = []

        with pytest.raises(QuotaExceededError):
            in_virtual_time(follow(batch_of(service, map(IsbnRow.of, ISBNS)), seen))

        assert inputs_of(seen) == ISBNS[:7]
        ahead = [done.input for done in seen[-1].out_of_order]
        # What was under way at that moment is kept, and nothing was asked after it.
        assert ahead == ISBNS[8 : len(service.asked)]
        assert len(service.asked) <= 14

    def test_requests_that_are_under_way_then_have_a_few_seconds(self) -> None:
        async def lasted() -> float:
            with pytest.raises(QuotaExceededError):
                await lookups_of(batch_of(service, map(IsbnRow.of, ISBNS)))
            return seconds()

        service = Service(lambda isbn: DAILY if isbn == ISBNS[1] else found(isbn), latency={ISBNS[0]: 500.0})

        assert 10.0 <= in_virtual_time(lasted()) < 12.0
        assert service.under_way == 0

    def test_a_list_that_cannot_be_read_on_ends_it_after_the_rows_before(self) -> None:
        def rows() -> Iterable[IsbnRow]:
            yield from map(IsbnRow.of, ISBNS[:3])
            raise OSError("the source is gone")

        seen: list[BatchUpdate] = []
        with pytest.raises(OSError, match="the source is gone"):
            in_virtual_time(follow(batch_of(Service(), rows(), ahead=1), seen))

        assert inputs_of(seen) == ISBNS[:3]

    def test_a_list_that_is_given_up_leaves_nothing_behind(self) -> None:
        async def some() -> None:
            async with aclosing(batch_of(service, map(IsbnRow.of, ISBNS))) as updates:
                async for _ in updates:
                    break

        service = Service(latency=100.0)
        in_virtual_time(some())

        assert service.under_way == 0

    @pytest.mark.parametrize("isbns", [ISBNS[:1], ISBNS[:3]])
    def test_list_that_is_cancelled_in_any_turn_of_the_event_loop_ends_as_cancelled(self, isbns: list[str]) -> None:
        async def cancelled_in(turn: int) -> bool:
            turns, loop = itertools.count(), cast("VirtualTimeLoop", asyncio.get_running_loop())
            batch = asyncio.create_task(lookups_of(batch_of(Service(), map(IsbnRow.of, isbns))))
            was_told: list[bool] = []
            loop.on_turn = lambda: was_told.append(batch.cancel()) if next(turns) == turn else None
            await asyncio.wait([batch], timeout=3600)
            assert batch.done(), f"it hangs if it is cancelled in turn {turn}"
            assert batch.cancelled() == any(was_told), f"it goes on if it is cancelled in turn {turn}"
            return batch.cancelled()

        before_the_end = itertools.takewhile(lambda turn: in_virtual_time(cancelled_in(turn)), range(1000))
        assert 10 < len(list(before_the_end)) < 1000


class TestTheEventLoop:
    def test_the_event_loop_breathes_while_many_books_are_taken_in(self) -> None:
        breaths = [0]

        async def breathing() -> None:
            while breaths[-1] < 1_000:
                breaths.append(seen.count)
                await asyncio.sleep(0)

        def many(isbns: list[str]) -> Response:
            tasks.append(asyncio.create_task(breathing()))
            return books(isbns)

        tasks: list[asyncio.Task[None]] = []
        seen = CountingLookups()
        rows = map(IsbnRow.of, ISBNS[:1_000])
        batch = batch_of(Service(many=many), rows, bulk_size=1_000, window=1_000, resume=ResumePoint(seen))

        assert len(in_virtual_time(lookups_of(batch))) == 1_000
        assert max(after - before for before, after in itertools.pairwise(breaths)) == 50


class TestFailures:
    def test_a_failure_too_many_ends_the_list_as_what_it_is(self) -> None:
        service = Service(lambda isbn: replied(b"", 503) if isbn in ISBNS[1:3] else found(isbn))
        seen: list[BatchUpdate] = []
        told: list[str] = []
        batch = batch_of(service, map(IsbnRow.of, ISBNS), retry_after=(), max_failures=1, warn=told.append)

        with pytest.raises(ServiceUnavailableError):
            in_virtual_time(follow(batch, seen))

        assert told == ["More rows have failed than max_failures allows: the list ends with the error of the last one."]
        assert inputs_of(seen) == ISBNS[:2]
        # What was under way at that moment is kept; the book that has failed is asked for again.
        assert [done.input for done in seen[-1].out_of_order] == service.asked[3:]
