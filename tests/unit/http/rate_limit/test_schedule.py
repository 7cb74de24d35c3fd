"""The operations on the schedule of a key: the same in memory, in SQLite and in Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.rate_limit.operations import Delayed, SlowDown
from airflow_provider_mediaops.http.rate_limit.schedule import (
    Granted,
    Overbooked,
    Slot,
)
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import Key, memory_store, waits


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
        key.pause(5.0)
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
