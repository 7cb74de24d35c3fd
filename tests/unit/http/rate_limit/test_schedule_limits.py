"""Limit replies and exhausted quotas in the schedule of a key: the same in memory, in SQLite and in Redis."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, RestoreQuota, SlowDown
from airflow_provider_mediaops.http.rate_limit.schedule import (
    QuotaExhausted,
    Slot,
)
from tests.unit.http.rate_limit.rate_stores import Key, waits


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
