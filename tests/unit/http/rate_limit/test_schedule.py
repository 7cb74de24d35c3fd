"""The schedule of a key: slots, the log of sends, refusals, quotas, clocks that are set, and damaged states."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.schedule import (
    BEHIND_SECONDS,
    CATCH_UP_SECONDS,
    GUARD,
    LEAST_SPEED,
    LONGEST_PAUSE_SECONDS,
    WINDOW_GUARD,
    BookedOut,
    Granted,
    Later,
    QuotaExhausted,
)
from tests.unit.http.rate_limit.keys import GAP, WINDOW, Key


def until_granted(key: Key, slot: float) -> Granted:
    """Come back for a slot until it may be used."""
    answer = key.ask(slot)
    while isinstance(answer, Later):
        key.wait(answer.seconds)
        answer = key.ask(answer.slot)
    assert isinstance(answer, Granted)
    return answer


class TestSlots:
    @pytest.mark.parametrize("rate", [0.001, 0.5, 1.0, 2.5, 3.0, 50.0, 200.0])
    def test_slots_come_in_order_and_evenly_a_little_below_the_rate(self, rate: float) -> None:
        key = Key(rate)
        key.go()
        assert key.waits(4) == pytest.approx([GUARD / rate * number for number in range(1, 5)], rel=1e-3)

    def test_a_slot_is_granted_when_it_is_due(self) -> None:
        key = Key()
        key.go()
        first, second = key.later(), key.later()
        key.wait(first.seconds)
        assert key.later(second.slot).seconds == pytest.approx(GAP)
        key.go(first.slot)

    def test_an_unused_rate_is_not_saved_up(self) -> None:
        key = Key()
        key.go()
        key.wait(3_600)
        key.go()
        assert key.waits(2) == pytest.approx([GAP, 2 * GAP])

    def test_slots_that_have_just_passed_are_caught_up_with(self) -> None:
        key = Key(50.0)
        key.go()
        key.wait(10.0)
        many = int(CATCH_UP_SECONDS * 50 / GUARD)
        for _ in range(many):
            key.go()
        assert key.waits(2)[1] > 0.02

    def test_each_caller_leaves_the_gap_of_its_own_rate(self) -> None:
        key = Key(5.0)
        key.go(rate=5.0)
        waits = [key.later(rate=rate).seconds for rate in (1.0, 5.0, 5.0)]
        assert waits == pytest.approx([GAP / 5, GAP / 5 + GAP, GAP / 5 + GAP + GAP / 5])

    def test_a_slower_connection_does_not_hold_up_a_faster_one_by_its_window(self) -> None:
        key = Key(5.0)
        key.go()
        slow, fast = key.later(rate=0.1), key.later()
        key.wait(slow.seconds)
        key.go(slow.slot, rate=0.1)
        # Its gap counts, and no window of ten seconds.
        assert key.later(fast.slot).seconds == pytest.approx(10 * GAP)
        key.wait(10 * GAP)
        key.go(fast.slot)

    def test_no_slot_is_reserved_an_hour_ahead(self) -> None:
        key = Key()
        key.go()
        waits = [answer.seconds for answer in (key.ask() for _ in range(3_500)) if isinstance(answer, Later)]
        assert max(waits) <= 3_600.0
        refused = key.ask()
        assert isinstance(refused, BookedOut)
        assert refused.seconds == pytest.approx(max(waits) + GAP)
        key.wait(GAP)
        assert isinstance(key.ask(), Later)

    def test_a_slow_rate_has_ten_slots_ahead(self) -> None:
        key = Key(0.001)
        key.go()
        assert [type(key.ask()) for _ in range(11)] == [Later] * 10 + [BookedOut]

    def test_callers_that_died_hold_up_nobody_for_long(self) -> None:
        key = Key()
        key.go()
        for _ in range(16):
            key.later()
        key.wait(1.0)
        assert key.later().seconds > 15.0
        key.wait(WINDOW + 2 * GAP)
        key.go()

    def test_late_caller_is_served_after_those_who_took_its_slot(self) -> None:
        key = Key()
        key.go()
        alive = [key.later() for _ in range(16)][-1]
        key.wait(5.0)
        key.go()
        assert key.later(alive.slot).seconds == pytest.approx(GAP)


class TestTheLog:
    def test_a_late_caller_keeps_the_next_one_at_a_distance(self) -> None:
        key = Key()
        key.go()
        late, following = key.later(), key.later()
        key.wait(GAP + 0.3)
        key.go(late.slot)
        key.wait(GAP - 0.3)
        assert key.later(following.slot).seconds == pytest.approx(WINDOW - GAP + 0.3)

    def test_a_request_that_left_late_keeps_the_next_one_at_a_distance(self) -> None:
        key = Key()
        first, following = key.go(), key.later()
        key.wait(GAP)
        key.report(schedule.sent_late, first.at, 0.25)
        key.report(schedule.sent_late, first.at + 77.0, 0.25)
        assert key.later(following.slot).seconds == pytest.approx(WINDOW + 0.25 - GAP)

    def test_a_request_cannot_have_left_later_than_now(self) -> None:
        key = Key()
        first, following = key.go(), key.later()
        key.wait(GAP)
        key.report(schedule.sent_late, first.at, 3_600.0)
        assert key.later(following.slot).seconds == pytest.approx(WINDOW)

    def test_of_two_requests_of_the_same_time_one_is_moved(self) -> None:
        key = Key(50.0)
        first = key.go()
        key.state = replace(key.state, sent=(first.at, first.at))
        key.wait(0.5)
        key.report(schedule.sent_late, first.at, 0.25)
        assert key.state.sent == (first.at, first.at + 0.25)

    def test_callers_that_find_the_window_full_come_back_one_after_the_other(self) -> None:
        key = Key()
        first, slots = key.go(), [key.later().slot for _ in range(3)]
        key.wait(3 * GAP)
        key.report(schedule.sent_late, first.at, 3_600.0)
        waits = [key.later(slot).seconds for slot in slots]
        assert waits[0] == pytest.approx(WINDOW)
        assert all(later - earlier >= WINDOW - 1e-6 or earlier > BEHIND_SECONDS for earlier, later in pairwise(waits))
        times = []
        for slot in slots:
            until_granted(key, slot)
            times.append(key.now)
        assert all(later - earlier >= WINDOW - 0.001 for earlier, later in pairwise(times))

    def test_slots_wait_for_requests_that_have_fallen_far_behind(self) -> None:
        key = Key()
        first, slot = key.go(), key.later().slot
        key.wait(GAP)
        key.report(schedule.sent_late, first.at, 3_600.0)
        # It is put off by a window, and the others but for what they may fall behind.
        assert key.later(slot).seconds == pytest.approx(WINDOW)
        assert key.later().seconds == pytest.approx(WINDOW - BEHIND_SECONDS + GAP)

    @given(
        rate=st.sampled_from([1, 3, 5, 50]),
        arrivals=st.lists(st.tuples(st.floats(0, 0.7), st.floats(0, 0.45)), min_size=2, max_size=60),
    )
    def test_no_window_holds_more_requests_than_the_rate_however_late_callers_wake_up(
        self, rate: int, arrivals: list[tuple[float, float]]
    ) -> None:
        key, start, coming = Key(rate), 0.0, list[tuple[float, int, float, Any]]()
        for number, (pause, late) in enumerate(arrivals):
            start += pause / rate
            coming.append((key.now + start, number, late / rate, None))
        sent: list[float] = []
        while coming:
            coming.sort(key=lambda each: each[:2])
            key.now, number, late, slot = coming.pop(0)
            answer = key.ask(slot)
            if isinstance(answer, Later):
                coming.append((key.now + answer.seconds + late, number, 0.0, answer.slot))
            else:
                sent.append(key.now)
        assert len(sent) == len(arrivals)
        assert all(later - earlier > WINDOW_GUARD - 0.001 for earlier, later in zip(sent, sent[rate:], strict=False))


class TestRefusals:
    def test_a_pause_holds_for_those_who_wait_too_and_keeps_their_order(self) -> None:
        key = Key()
        key.go()
        first, second = key.later(), key.later()
        key.report(schedule.slow_down, 0.0, 30.0)
        assert key.later(first.slot).seconds == pytest.approx(30.0 + GAP)
        key.wait(30.0 + GAP)
        assert key.later(second.slot).seconds == pytest.approx(GAP)
        key.go(first.slot)

    def test_a_shorter_pause_neither_ends_nor_lengthens_a_longer_one(self) -> None:
        key = Key()
        for pause in (30.0, 5.0, 5.0):
            key.report(schedule.slow_down, 0.0, pause)
        assert key.later().seconds == pytest.approx(30.0)

    def test_no_pause_is_longer_than_a_day(self) -> None:
        key = Key()
        key.report(schedule.slow_down, 0.0, 1e9)
        assert key.later().seconds == pytest.approx(LONGEST_PAUSE_SECONDS)

    def test_a_burst_of_refusals_slows_down_once_and_those_who_wait_too(self) -> None:
        key = Key()
        first, waiting = key.go(), key.later()
        key.wait(GAP)
        second, last = key.go(waiting.slot), key.later()
        for granted in (first, second):
            key.report(schedule.slow_down, granted.at, 0.0)
        until_granted(key, last.slot)
        assert key.now - second.at == pytest.approx(GAP / 0.7, abs=0.01)

    def test_refusals_after_that_slow_down_again_down_to_the_least(self) -> None:
        key, speeds = Key(), []
        for _ in range(12):
            key.wait(1.0)
            key.report(schedule.slow_down, key.now, 0.0)
            speeds.append(key.state.speed)
        assert speeds[:3] == pytest.approx([0.7, 0.49, 0.343])
        assert speeds[-1] == LEAST_SPEED

    def test_a_refusal_of_an_unknown_request_counts_once_in_a_second(self) -> None:
        key = Key()
        for pause, speed in ((0.5, 0.7), (0.4, 0.7), (0.7, 0.49)):
            key.report(schedule.slow_down, None, 0.0)
            assert key.state.speed == pytest.approx(speed if pause != 0.7 else 0.7)
            key.wait(pause)
        key.report(schedule.slow_down, None, 0.0)
        assert key.state.speed == pytest.approx(0.49)

    def test_the_speed_recovers_step_by_step_as_requests_are_made(self) -> None:
        key, speeds = Key(), []
        key.report(schedule.slow_down, key.now, 0.0)
        for _ in range(8):
            # An idle hour gains one step.
            key.wait(3_600)
            key.go()
            speeds.append(key.state.speed)
        assert speeds == pytest.approx([0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.0, 1.0])

    def test_the_speed_does_not_recover_at_once_or_in_a_pause(self) -> None:
        key = Key()
        key.report(schedule.slow_down, key.now, 60.0)
        key.wait(59.0)
        key.later()
        assert key.state.speed == pytest.approx(0.7)

    def test_callers_that_sleep_while_the_speed_recovers_do_not_oversleep(self) -> None:
        key = Key()
        key.report(schedule.slow_down, key.now, 0.0)
        key.go()
        soon, *_, last = [key.later() for _ in range(20)]
        # The speed may recover from 70 % within six seconds.
        assert last.seconds == pytest.approx(20 * GAP + 0.3 * 6.0 / 2)
        assert GAP < soon.seconds < GAP / 0.7


class TestQuotas:
    def test_of_several_resets_the_last_counts(self) -> None:
        key = Key()
        key.report(schedule.exhaust, 3_600.0)
        key.report(schedule.exhaust, 60.0)
        assert key.ask() == QuotaExhausted(3_602.0)

    def test_a_quota_is_not_believed_to_be_exhausted_for_more_than_a_day(self) -> None:
        key = Key()
        key.report(schedule.exhaust, 31_536_000.0)
        assert key.ask() == QuotaExhausted(86_402.0)

    def test_a_restored_quota_lets_all_continue(self) -> None:
        key = Key()
        key.report(schedule.exhaust, 3_600.0)
        key.report(schedule.restore)
        key.go()
        before = key.state
        key.report(schedule.restore)
        assert key.state is before


class TestClocksThatAreSet:
    def test_a_clock_that_is_set_ahead_makes_no_burst(self) -> None:
        key = Key()
        key.go()
        slots = [key.later().slot for _ in range(4)]
        key.wait(7_200.0)
        answers = [key.ask(slot) for slot in slots]
        assert isinstance(answers[0], Granted)
        assert all(isinstance(answer, Later) and answer.seconds > 0.8 for answer in answers[1:])

    @pytest.mark.parametrize(("seconds", "is_read"), [(-0.9, True), (-1.1, False), (-7_200.0, False)])
    def test_a_clock_that_is_set_back_begins_the_schedule_anew_unless_it_is_little(
        self, seconds: float, *, is_read: bool
    ) -> None:
        key = Key()
        key.go()
        assert (schedule.from_text(schedule.to_text(key.state), key.now + seconds) is not None) is is_read

    def test_a_slot_of_a_lost_schedule_is_reserved_again(self) -> None:
        key = Key()
        key.go()
        slot = [key.later().slot for _ in range(9)][-1]
        key.state = schedule.begin(key.now, 1.0)
        assert key.later(slot).seconds == pytest.approx(WINDOW)


NOW = 1_800_000_000.0


class TestDamagedStates:
    @pytest.mark.parametrize(
        "text",
        [
            *("", "text", "null", "[]", "7", "{}", '{"sent": 1}', '"sent"', "[" * 100_000, "9" * 5_000, " " * 20_000),
            '{"reading": 1, "at": 2, "next_free": 3, "rate": 1, "sent": [1], "other": 1}',
            '{"reading": 1, "at": 2, "next_free": 3, "rate": 1, "sent": [[1]]}',
            '{"reading": 1%s, "at": 2, "next_free": 3, "rate": 1, "sent": []}' % ("0" * 400),
        ],
        ids=range(14),
    )
    def test_a_text_that_is_no_state_is_none(self, text: str) -> None:
        assert schedule.from_text(text, NOW) is None

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(
                (name, value)
                for name in ("at", "again_at", "blocked_until", "faster_at")
                for value in (NOW + 2e5, 1e308)
            ),
            *((name, float("nan")) for name in ("reading", "at", "next_free", "rate", "speed", "slowed_at")),
            *(("speed", value) for value in (0.0, -1.0, 1e-320, 1.001)),
            *(("rate", value) for value in (0.0, -1.0, 1e7, 1e-7)),
            *(("reading", value) for value in (1e300, NOW + 2.0, -1e300)),
            *(("next_free", value) for value in (NOW + 2e5, 1e308)),
            ("slowed_at", NOW + 2.0),
            *(("sent", value) for value in ([NOW + 2.0], [2.0, 1.0], [float("nan")], [1.0] * 257, ["x"])),
        ],
    )
    def test_a_state_that_would_stop_the_key_or_send_a_burst_is_none(self, name: str, value: Any) -> None:
        fields = json.loads(schedule.to_text(schedule.begin(NOW, 1.0)))
        assert schedule.from_text(json.dumps(fields), NOW)
        assert schedule.from_text(json.dumps(fields | {name: value}), NOW) is None

    def test_the_longest_pause_at_the_slowest_rate_and_a_year_later_is_read(self) -> None:
        key = Key(0.001)
        for _ in range(12):
            key.report(schedule.slow_down, key.now, 1e9)
            key.wait(1.0)
        for _ in range(12):
            key.ask()
        key.report(schedule.exhaust, 1e9)
        key.ask()
        key.wait(365 * 86_400.0)
        key.go()
