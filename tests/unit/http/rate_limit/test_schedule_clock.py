"""A clock that is set and a schedule that is damaged: the same in memory, in SQLite and in Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_mediaops.http.rate_limit.memory_store import MemoryStore
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, RestoreQuota, SlowDown
from airflow_provider_mediaops.http.rate_limit.schedule import (
    FURTHEST_SECONDS,
    LEAST_FACTOR,
    MOST_SENT,
    Granted,
    Overbooked,
    QuotaExhausted,
    Slot,
)
from tests.unit.http.rate_limit.rate_stores import Key, damage, waits


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

    def test_nothing_is_given_during_a_pause(self, key: Key) -> None:
        key.go()
        waiting = key.slot()
        key.pause(5.0)
        key.pause(4.0)
        assert key.slot().wait == pytest.approx(7.0)
        key.wait(1.0)
        assert key.ask(waiting).wait == pytest.approx(5.0)

    def test_slots_that_had_passed_are_confirmed_after_it_one_by_one(self, key: Key) -> None:
        key.go()
        missed = [key.slot(), key.slot()]
        key.wait(2.4)
        key.pause(5.0)
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
        key.do(RestoreQuota())
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
