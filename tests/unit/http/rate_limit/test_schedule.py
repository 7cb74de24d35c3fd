"""The operations on the schedule of a key: the same in memory, in SQLite and in Redis."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.rate_limit.operations import Cooldown, Delayed, ExhaustQuota, RestoreQuota, SlowDown
from airflow_provider_mediaops.http.rate_limit.schedule import (
    FURTHEST_SECONDS,
    LEAST_FACTOR,
    MOST_SENT,
    Granted,
    Overbooked,
    QuotaExhausted,
    Slot,
)
from airflow_provider_mediaops.http.rate_limit.stores import MemoryStore
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import ClockedRedisStore, Key, damage, memory_store, sqlite_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.stores import RateStore


@pytest.fixture(params=["memory", "sqlite", "redis"])
def key(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Key]:
    """Return an unused key at each of the stores."""
    # Times as they are today, because a store must not lose digits of them.
    fake = FakeClock(seconds=1_800_000_000.125)
    store: RateStore
    if request.param == "memory":
        store = memory_store(fake)
    elif request.param == "sqlite":
        store = sqlite_store(tmp_path / "rates.db", fake)
    else:
        store = ClockedRedisStore(request.getfixturevalue("redis_server"), fake)
    yield Key(store, fake)
    store.close()


def waits(key: Key, many: int) -> list[float]:
    """Return the waits of some slots that are reserved at once."""
    return [key.slot().wait for _ in range(many)]


class TestSlots:
    def test_they_come_in_order_and_evenly(self, key: Key) -> None:
        key.gap = 0.25
        key.go()
        assert waits(key, 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])

    def test_a_slot_is_confirmed_when_it_is_due(self, key: Key) -> None:
        key.go()
        for slot in (key.slot(), key.slot()):
            assert isinstance(key.come_back(slot), Granted)

    def test_an_unused_rate_is_not_saved_up(self, key: Key) -> None:
        key.go()
        key.wait(3_600)
        key.go()
        assert waits(key, 2) == pytest.approx([1.0, 2.0])

    def test_slots_that_have_just_passed_are_caught_up_with(self, key: Key) -> None:
        key.gap, key.limit, key.window = 0.1, 10, 1.0
        key.go()
        key.wait(0.35)
        # Three have passed.
        for _ in range(3):
            key.go()
        assert waits(key, 2) == pytest.approx([0.05, 0.15], abs=1e-6)
        key.wait(3_600)
        for _ in range(5):
            key.go()
        assert waits(key, 1) == pytest.approx([0.1], abs=1e-6)

    def test_but_not_after_a_pause(self, key: Key) -> None:
        key.gap, key.limit, key.window = 0.1, 10, 1.0
        key.wait(0.35)
        key.do(Cooldown(5.0))
        assert waits(key, 2) == pytest.approx([5.0, 5.1])

    def test_a_caller_that_dies_wastes_its_slot_only(self, key: Key) -> None:
        key.go()
        dead, alive = key.slot(), key.slot()
        key.wait(2.0)
        key.go(alive)
        assert alive.position - dead.position == pytest.approx(1.0)

    def test_each_caller_leaves_the_gap_of_its_own_rate(self, key: Key) -> None:
        key.go(gap=0.2)
        assert key.slot(gap=1.0).wait == pytest.approx(0.2)
        assert key.slot(gap=0.2).wait == pytest.approx(1.2)
        assert key.slot().wait == pytest.approx(1.4)

    def test_keys_are_independent(self, key: Key) -> None:
        other = replace(key, name=f"{key.name} another")
        key.go()
        other.go()
        assert waits(key, 1) == pytest.approx([1.0])

    def test_a_caller_that_comes_much_too_late_goes_to_the_end(self, key: Key) -> None:
        key.go()
        missed, others = key.slot(), [key.slot(), key.slot()]
        key.wait(2.0)
        key.go(others[0])
        again = key.ask(missed)
        assert isinstance(again, Slot)
        assert again.wait == pytest.approx(2.0)
        assert again.position > others[1].position

    def test_no_slot_is_reserved_beyond_the_horizon(self, key: Key) -> None:
        key.go()
        key.horizon = 3.0
        assert waits(key, 3) == pytest.approx([1.0, 2.0, 3.0])
        for _ in range(3):
            refused = key.ask()
            assert isinstance(refused, Overbooked)
            assert refused.seconds == pytest.approx(4.0)
        key.wait(1.0)
        assert waits(key, 1) == pytest.approx([3.0])


class TestReleasedSlots:
    def test_the_last_one_is_taken_back(self, key: Key) -> None:
        key.go()
        key.slot()
        key.release(key.slot())
        assert waits(key, 2) == pytest.approx([2.0, 3.0])

    def test_one_in_the_middle_goes_to_the_next_caller(self, key: Key) -> None:
        key.go()
        slots = [key.slot() for _ in range(4)]
        key.release(slots[2])
        key.release(slots[0])
        assert waits(key, 3) == pytest.approx([1.0, 3.0, 5.0])

    def test_one_that_has_passed_is_not_given_again(self, key: Key) -> None:
        key.go()
        first = key.slot()
        key.slot()
        key.release(first)
        key.wait(1.5)
        assert waits(key, 1) == pytest.approx([1.5])

    def test_one_that_was_put_off_by_the_log_leaves_it(self, key: Key) -> None:
        key.go()
        late, waiting = key.slot(), key.slot()
        key.wait(1.3)
        key.go(late)
        key.wait(0.7)
        put_off = key.ask(waiting)
        assert isinstance(put_off, Slot)
        key.release(put_off)
        key.wait(0.2)
        key.go()

    @pytest.mark.parametrize("order", ["first", "last", "mixed"])
    def test_all_of_many_are_given_back(self, key: Key, order: str) -> None:
        key.go()
        slots = [key.slot() for _ in range(60)]
        if order == "last":
            slots.reverse()
        elif order == "mixed":
            slots = [slots[(number * 7) % 60] for number in range(60)]
        for slot in slots:
            key.release(slot)
        assert waits(key, 3) == pytest.approx([1.0, 2.0, 3.0])

    def test_a_slot_is_given_back_once(self, key: Key) -> None:
        key.go()
        first = key.slot()
        key.slot()
        for _ in range(3):
            key.release(first)
        assert waits(key, 2) == pytest.approx([1.0, 3.0])

    def test_a_void_slot_gives_nothing_back(self, key: Key) -> None:
        epoch = key.go().epoch
        void = key.slot()
        key.do(SlowDown(1.0, epoch=epoch))
        assert waits(key, 1) == pytest.approx([1 / 0.7])
        key.release(void)
        assert waits(key, 1) == pytest.approx([2 / 0.7])


class TestTheLog:
    def test_a_late_caller_keeps_those_behind_at_a_distance(self, key: Key) -> None:
        key.go()
        late, next_one = key.slot(), key.slot()
        key.wait(1.3)
        key.go(late)
        key.wait(0.7)
        # Its slot is due, and the request before it was 0.7 s ago.
        put_off = key.ask(next_one)
        assert put_off.wait == pytest.approx(0.2)
        # It looks again after its sleep.
        assert isinstance(key.come_back(put_off), Granted)

    def test_a_caller_that_was_put_off_looks_again(self, key: Key) -> None:
        first = key.go()
        slot = key.slot()
        key.do(Delayed(first.at, 0.25))
        key.wait(1.0)
        put_off = key.ask(slot)
        assert put_off.wait == pytest.approx(0.15)
        # Meanwhile it turns out that the first was later still.
        key.do(Delayed(first.at + 0.25, 0.1))
        again = key.come_back(put_off)
        assert again.wait == pytest.approx(0.1)
        assert isinstance(key.come_back(again), Granted)

    def test_those_who_were_put_off_keep_their_order(self, key: Key) -> None:
        first = key.go()
        slots = [key.slot(), key.slot()]
        key.do(Delayed(first.at, 0.5))
        key.wait(1.0)
        ahead = key.ask(slots[0])
        key.wait(0.1)
        behind = key.ask(slots[1])
        assert ahead.due < behind.due
        assert isinstance(key.come_back(ahead), Granted)
        assert key.clock.seconds - first.at == pytest.approx(0.5 + 0.9)
        while isinstance(behind, Slot):
            behind = key.come_back(behind)
        assert key.clock.seconds - first.at >= 0.5 + 2 * 0.9

    def test_as_many_as_the_limit_are_counted(self, key: Key) -> None:
        key.gap, key.limit, key.window = 0.5, 2, 0.95
        key.go()
        slots = [key.slot() for _ in range(3)]
        key.wait(0.8)
        key.go(slots[0])
        key.wait(0.2)
        # The first of all is long ago.
        key.go(slots[1])
        key.wait(0.5)
        assert key.ask(slots[2]).wait == pytest.approx(0.8 + 0.95 - 1.5)

    def test_a_request_that_was_late_keeps_those_behind_at_a_distance(self, key: Key) -> None:
        first = key.go()
        slot = key.slot()
        key.do(Delayed(first.at, 0.25))
        key.do(Delayed(first.at + 77.0, 0.25))
        key.wait(1.0)
        assert key.ask(slot).wait == pytest.approx(0.15)

    def test_a_delay_is_bounded(self, key: Key) -> None:
        first = key.go()
        slot = key.slot()
        key.do(Delayed(first.at, 3_600.0))
        key.wait(1.0)
        assert key.ask(slot).wait == pytest.approx(0.4)

    def test_all_slots_are_put_off_before_requests_fall_far_behind_them(self, key: Key) -> None:
        key.window = key.gap
        key.go()
        waiting = [key.slot() for _ in range(9)]
        start, behind = waiting[0].due - 1.0, []
        for number, slot in enumerate(waiting):
            answer: Slot | Granted = slot
            while isinstance(answer, Slot):
                answer = key.come_back(answer)
            behind.append(key.clock.seconds - start - number - 1.0)
            # Each is a little late.
            key.do(Delayed(answer.at, 0.06))
        assert behind == pytest.approx([0.06 * number for number in range(9)])
        # New callers are told so at once.
        assert key.slot().due - start == pytest.approx(10.0 + 0.28)

    def test_a_caller_with_a_slower_rate_leaves_the_log_to_those_with_a_faster_one(self, key: Key) -> None:
        for _ in range(4):
            key.go(gap=0.0, limit=4)
        assert key.ask(gap=0.0, limit=1).wait == pytest.approx(0.9)
        # Nor are their slots put off; but four have been sent just now.
        assert key.ask(gap=0.0, limit=4).wait == pytest.approx(0.9)


class TestLimits:
    def test_a_pause_holds_for_those_who_wait_too_and_keeps_their_order(self, key: Key) -> None:
        key.go()
        first, second = key.slot(), key.slot()
        key.do(SlowDown(1.0, 30.0, epoch=0.0))
        assert key.slot().wait == pytest.approx(33.0)
        key.wait(1.0)
        again = key.ask(first)
        assert isinstance(again, Slot)
        assert again.wait == pytest.approx(30.0)
        key.wait(1.0)
        assert key.slot().wait == pytest.approx(32.0)
        key.wait(29.0)
        key.go(again)
        assert key.ask(second).wait == pytest.approx(1.0)

    def test_a_shorter_pause_does_not_undo_or_lengthen_a_longer_one(self, key: Key) -> None:
        key.do(SlowDown(1.0, 30.0, epoch=0.0))
        for _ in range(5):
            key.do(SlowDown(1.0, 5.0, epoch=0.0))
        assert key.slot().wait == pytest.approx(30.0)

    def test_a_burst_of_refusals_slows_down_once(self, key: Key) -> None:
        sent = [key.go()]
        for _ in range(2):
            slot = key.slot()
            key.wait(1.0)
            sent.append(key.go(slot))
        for go in sent:
            key.do(SlowDown(1.0, epoch=go.epoch))
        assert waits(key, 3) == pytest.approx([1 / 0.7, 2 / 0.7, 3 / 0.7])

    def test_what_is_refused_after_that_slows_down_again_down_to_the_least(self, key: Key) -> None:
        epoch, gaps = key.go().epoch, []
        for _ in range(10):
            key.do(SlowDown(1.0, epoch=epoch))
            slot = key.slot()
            epoch = slot.epoch
            gaps.append(slot.wait)
        # In the end it is as slow as it gets, and those who wait are left their slots.
        assert gaps == pytest.approx([*(1 / 0.7**times for times in range(1, 8)), 16.0, 32.0, 48.0])

    def test_those_who_wait_are_slowed_down_as_well(self, key: Key) -> None:
        go = key.go()
        waiting = [key.slot() for _ in range(3)]
        key.do(SlowDown(1.0, epoch=go.epoch))
        new = []
        for slot in waiting:
            key.wait(1.0)
            new.append(key.clock.seconds + key.ask(slot).wait)
        assert all(later - earlier > 1.2 for earlier, later in pairwise(new))

    def test_a_limit_of_no_request_counts_once_in_a_second(self, key: Key) -> None:
        key.go()
        key.do(SlowDown(1.0))
        assert waits(key, 1) == pytest.approx([1.0])
        key.wait(10.0)
        for _ in range(3):
            key.do(SlowDown(1.0))
        assert waits(key, 2) == pytest.approx([1 / 0.7, 2 / 0.7])

    def test_the_pace_recovers_step_by_step_as_requests_are_made(self, key: Key) -> None:
        key.do(SlowDown(1.0, epoch=key.go().epoch))
        gaps = []
        for _ in range(8):
            # Nothing is gained by an idle hour but one step.
            key.wait(3_600)
            key.go()
            gaps.append(key.slot().wait)
            key.do(Cooldown(0.0))
        assert gaps == pytest.approx([1 / pace for pace in (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.0, 1.0)])

    def test_it_does_not_recover_at_once_or_in_a_pause(self, key: Key) -> None:
        key.do(SlowDown(1.0, 60.0, epoch=key.go().epoch))
        key.wait(59.0)
        assert waits(key, 2) == pytest.approx([1.0 + 1 / 0.7, 1.0 + 2 / 0.7])


class TestQuotas:
    def test_a_spent_quota_stops_everyone_also_those_who_wait(self, key: Key) -> None:
        key.go()
        slot = key.slot()
        key.do(ExhaustQuota(3_600.0))
        key.wait(1.0)
        for held in (slot, None):
            answer = key.ask(held)
            assert isinstance(answer, QuotaExhausted)
            # And a little more, for clocks that do not quite agree.
            assert answer.seconds == pytest.approx(3_601.0)

    def test_after_the_reset_slots_are_given_again(self, key: Key) -> None:
        key.go()
        key.do(ExhaustQuota(3_600.0))
        key.wait(3_602.5)
        key.go()
        assert waits(key, 1) == pytest.approx([1.0])

    def test_of_several_resets_the_last_counts(self, key: Key) -> None:
        key.do(ExhaustQuota(3_600.0))
        key.do(ExhaustQuota(60.0))
        assert key.ask().seconds == pytest.approx(3_602.0)

    def test_it_is_opened_again_where_the_service_answers(self, key: Key) -> None:
        key.do(ExhaustQuota(3_600.0))
        key.do(RestoreQuota())
        key.go()
        key.do(RestoreQuota())
        assert waits(key, 1) == pytest.approx([1.0])


class TestTheStoresClock:
    def test_one_that_is_set_back_stops_nobody(self, key: Key) -> None:
        key.go()
        waiting, behind = key.slot(), key.slot()
        key.do(ExhaustQuota(10.0))
        key.wait(-7_200.0)
        assert key.ask().seconds == pytest.approx(12.0)
        key.do(RestoreQuota())
        # The schedule begins anew, and slots of the former one are void.
        assert isinstance(key.ask(waiting), Granted)
        assert key.ask(behind).wait == pytest.approx(1.0)

    def test_one_that_goes_back_a_little_stands_still(self, key: Key) -> None:
        key.go()
        key.wait(-0.5)
        assert waits(key, 2) == pytest.approx([1.0, 2.0])

    def test_one_that_is_set_ahead_makes_no_burst(self, key: Key) -> None:
        key.go()
        waiting = [key.slot() for _ in range(4)]
        key.wait(7_200.0)
        answers = [key.ask(slot) for slot in waiting]
        assert isinstance(answers[0], Granted)
        assert [answer.wait for answer in answers[1:]] == pytest.approx([1.0, 2.0, 3.0])

    def test_a_slot_that_the_store_has_forgotten_is_not_used(self, key: Key) -> None:
        key.go()
        known = key.slot()
        forgotten = replace(known, position=known.position + 5.0, due=known.due + 5.0)
        key.wait(6.0)
        key.go(forgotten)
        # It has taken the next free slot.
        assert waits(key, 1) == pytest.approx([1.0])

    def test_nothing_is_given_during_a_cooldown(self, key: Key) -> None:
        key.go()
        waiting = key.slot()
        key.do(Cooldown(5.0))
        key.do(Cooldown(4.0))
        assert key.slot().wait == pytest.approx(7.0)
        key.wait(1.0)
        assert key.ask(waiting).wait == pytest.approx(5.0)

    def test_slots_that_had_passed_are_confirmed_after_it_one_by_one(self, key: Key) -> None:
        key.go()
        missed = [key.slot(), key.slot()]
        key.wait(2.4)
        key.do(Cooldown(5.0))
        key.wait(0.1)
        again = [key.ask(slot) for slot in missed]
        assert [slot.wait for slot in again] == pytest.approx([4.9, 4.9])
        key.wait(4.9)
        key.go(again[0])
        assert key.ask(again[1]).wait == pytest.approx(0.9)


NOW = 1_800_000_000.0
DAYS_AHEAD = NOW + FURTHEST_SECONDS + 60.0


class TestDamagedSchedules:
    @pytest.mark.parametrize(
        ("column", "value"),
        [
            *(("rate_factor", value) for value in (0.0, -1.0, 1e-320, 1.001, 1e308)),
            *(("shift", value) for value in (-1.0, 1e308, -1e308, 2e9)),
            *(
                (column, value)
                for column in ("epoch", "paused_until", "next_free", "recovered_at", "blocked_until")
                for value in (DAYS_AHEAD, 9e15, 1e308)
            ),
            *(("seen", value) for value in (9e15, 1e308)),
            *((column, (1.0, value)) for column in ("sent", "vacant") for value in (DAYS_AHEAD, 1e300)),
            *((column, tuple(range(100_000))) for column in ("sent", "vacant")),
        ],
        ids=lambda value: f"{len(value)} numbers" if isinstance(value, tuple) else None,
    )
    def test_one_that_cannot_be_ours_begins_anew(self, key: Key, column: str, value: float | tuple[float, ...]) -> None:
        key.go()
        key.wait(50.0)
        key.cooldown = 30.0
        damage(key, **{column: value})
        if isinstance(key.store, MemoryStore):
            # Nothing of it can have been lost, so it has no cooldown.
            key.go()
        else:
            assert key.slot().wait == pytest.approx(30.0)
        # The key has healed.
        key.wait(60.0)
        key.go()
        assert waits(key, 2) == pytest.approx([1.0, 2.0])

    def test_a_quota_that_is_damaged_with_the_clock_ends(self, key: Key) -> None:
        key.go()
        damage(key, seen=9e15, blocked_until=9e15 + 60.0)
        assert key.ask().seconds == pytest.approx(60.0, abs=2.0)

    def test_the_longest_pause_the_slowest_rate_and_the_oldest_schedule_are_ours(self, key: Key) -> None:
        key.gap, key.window, key.horizon = 1_014.0, 1_011.0, 10_140.0
        key.cooldown = 1e6
        key.do(Cooldown(0.0))
        key.wait(1e6)
        for _ in range(12):
            key.do(SlowDown(key.gap, 86_400.0))
            key.wait(1.0)
        slots = [key.ask() for _ in range(12)]
        assert isinstance(slots[-1], Overbooked)
        assert slots[-1].seconds < 86_400.0 + key.horizon + key.gap / LEAST_FACTOR
        key.do(ExhaustQuota(86_400.0))
        assert isinstance(key.ask(), QuotaExhausted)
        # It was not used for a year.
        key.wait(365 * 86_400.0)
        key.go()

    def test_the_log_does_not_grow_beyond_what_is_taken_for_ours(self, key: Key) -> None:
        key.gap, key.window = 0.001, 5_000.0
        key.limit = MOST_SENT
        key.go()
        entries = tuple(key.clock.seconds - 10.0 + number / 1_000 for number in range(MOST_SENT))
        damage(key, sent=entries)
        key.cooldown = 1e6
        for _ in range(3):
            key.wait(10.0)
            key.go(limit=MOST_SENT, window=0.5)
            assert isinstance(key.ask(limit=1), Slot)


@given(
    rate=st.sampled_from([1, 3, 5, 50]),
    arrivals=st.lists(st.tuples(st.floats(0, 0.7), st.floats(0, 0.45)), min_size=2, max_size=60),
)
def test_no_second_holds_more_requests_than_the_rate(rate: int, arrivals: list[tuple[float, float]]) -> None:
    """However late callers wake up: each comes back for its slot when it is due, and a part of a second more."""
    fake = FakeClock()
    key = Key(memory_store(fake), fake, 1.014 / rate, rate, 1.011)
    coming: list[tuple[float, int, float, Slot | None]] = []
    start = 0.0
    for number, (pause, late) in enumerate(arrivals):
        start += pause / rate
        coming.append((start, number, late / rate, None))
    sent: list[float] = []
    while coming:
        coming.sort(key=lambda each: each[:2])
        fake.seconds, number, late, held = coming.pop(0)
        answer = key.ask(held)
        if isinstance(answer, Granted):
            sent.append(fake.seconds)
        else:
            coming.append((fake.seconds + answer.wait + late, number, 0.0, answer))
    sent.sort()
    assert len(sent) == len(arrivals)
    assert all(later - earlier > 1.0 for earlier, later in zip(sent, sent[rate:], strict=False))
