"""The schedule of a key: slots, the log of sends, refusals, quotas, clocks that are set, and damaged states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.schedule import (
    BEHIND_SECONDS,
    GUARD,
    LEAST_SPEED,
    LONGEST_PAUSE_SECONDS,
    BookedOut,
    Granted,
    Later,
    QuotaExhausted,
)
from tests.unit.http.rate_limit.keys import GAP, WINDOW, Key


class TestSlots:
    @pytest.mark.parametrize("rate", [0.001, 0.5, 1.0, 2.5, 3.0, 50.0, 200.0])
    def test_slots_come_in_order_and_evenly_a_little_below_the_rate(self, rate: float) -> None:
        key = Key(rate)
        key.go()
        assert key.waits(4) == pytest.approx([GUARD / rate * number for number in range(1, 5)], rel=1e-3)

    def test_an_unused_rate_is_not_saved_up(self) -> None:
        key = Key()
        key.go()
        key.wait(3_600)
        key.go()
        assert key.waits(2) == pytest.approx([GAP, 2 * GAP])

    def test_each_caller_leaves_the_gap_of_its_own_rate(self) -> None:
        key, waits = Key(5.0), []
        key.go()
        for key.rate in (1.0, 5.0, 5.0):
            waits.append(key.later().seconds)
        assert waits == pytest.approx([GAP / 5, GAP / 5 + GAP, GAP / 5 + GAP + GAP / 5])

    def test_callers_that_died_hold_up_nobody_for_long(self) -> None:
        key = Key()
        key.go()
        for _ in range(16):
            key.later()
        key.wait(1.0)
        assert key.later().seconds > 15.0
        key.wait(WINDOW + 2 * GAP)
        key.go()

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

    def test_a_request_cannot_have_left_later_than_now(self) -> None:
        key = Key()
        first, following = key.go(), key.later()
        key.wait(GAP)
        key.report(schedule.sent_late, first.at, 3_600.0)
        # That of one that is no longer in the log changes nothing.
        key.report(schedule.sent_late, first.at + 77.0, 0.25)
        assert key.later(following.slot).seconds == pytest.approx(WINDOW)

    def test_callers_that_find_the_window_full_come_back_one_after_the_other(self) -> None:
        key = Key(50.0)
        key.go()
        key.state = replace(key.state, sent=(key.now,) * 50)
        first, second = key.later().slot, key.later().slot
        key.wait(0.1)
        assert key.later(first).seconds == pytest.approx(WINDOW - 0.1)
        # Slots wait for it, but for what they may fall behind.
        assert key.later(second).seconds == pytest.approx(WINDOW - 0.1 - BEHIND_SECONDS)
        key.wait(WINDOW - 0.1 - BEHIND_SECONDS)
        assert key.later(second).seconds == pytest.approx(BEHIND_SECONDS + WINDOW / 50)


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

    @pytest.mark.parametrize(
        ("pauses", "longest"),
        [((30.0, 5.0, 5.0), 30.0), pytest.param((1e9,), LONGEST_PAUSE_SECONDS, id="no longer than a day")],
    )
    def test_the_longest_pause_counts(self, pauses: tuple[float, ...], longest: float) -> None:
        key = Key()
        for pause in pauses:
            key.report(schedule.slow_down, 0.0, pause)
        assert key.later().seconds == pytest.approx(longest)

    def test_a_burst_of_refusals_slows_down_once_and_those_who_wait_too(self) -> None:
        key = Key()
        first, waiting = key.go(), key.later()
        key.wait(GAP)
        second, last = key.go(waiting.slot), key.later()
        for granted in (first, second):
            key.report(schedule.slow_down, granted.at, 0.0)
        while not isinstance(answer := key.ask(last.slot), Granted):
            assert isinstance(answer, Later)
            key.wait(answer.seconds)
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
        key, speeds = Key(), []
        for seconds in (0.0, 0.5, 0.4, 0.7):
            key.wait(seconds)
            key.report(schedule.slow_down, None, 0.0)
            speeds.append(key.state.speed)
        assert speeds == pytest.approx([0.7, 0.7, 0.7, 0.49])

    def test_the_speed_recovers_step_by_step_as_requests_are_made(self) -> None:
        key, speeds = Key(), []
        key.report(schedule.slow_down, key.now, 0.0)
        for _ in range(8):
            # An idle hour gains one step.
            key.wait(3_600)
            key.go()
            speeds.append(key.state.speed)
        assert speeds == pytest.approx([0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.0, 1.0])


class TestQuotas:
    @pytest.mark.parametrize(
        ("resets", "seconds"), [((3_600.0, 60.0), 3_602.0), pytest.param((1e9,), 86_402.0, id="no longer than a day")]
    )
    def test_the_last_reset_counts(self, resets: tuple[float, ...], seconds: float) -> None:
        key = Key()
        for reset in resets:
            key.report(schedule.exhaust, reset)
        assert key.ask() == QuotaExhausted(seconds)


class TestClocksThatAreSet:
    def test_a_slot_of_a_lost_schedule_is_reserved_again(self) -> None:
        key = Key()
        key.go()
        slot = [key.later().slot for _ in range(9)][-1]
        key.state = schedule.begin(key.now, 1.0)
        assert key.later(slot).seconds == pytest.approx(WINDOW)

    @pytest.mark.parametrize(("seconds", "is_read"), [(-0.9, True), (-1.1, False), (-7_200.0, False)])
    def test_a_clock_that_is_set_back_begins_the_schedule_anew_unless_it_is_little(
        self, seconds: float, *, is_read: bool
    ) -> None:
        key = Key()
        key.go()
        assert (schedule.from_text(schedule.to_text(key.state), key.now + seconds) is not None) is is_read


NOW = 1_800_000_000.0


class TestDamagedStates:
    @pytest.mark.parametrize(
        "text",
        [
            *("", "null", "7", '{"sent": 1}', "[" * 100_000, " " * 20_000),
            '{"reading": 1, "at": 2, "next_free": 3, "rate": 1, "sent": [1], "other": 1}',
            '{"reading": 1%s, "at": 2, "next_free": 3, "rate": 1, "sent": []}' % ("0" * 400),
        ],
        ids=range(8),
    )
    def test_a_text_that_is_no_state_is_none(self, text: str) -> None:
        assert schedule.from_text(text, NOW) is None

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *((name, NOW + 2e5) for name in ("at", "again_at", "blocked_until", "faster_at", "next_free")),
            *((name, float("nan")) for name in ("reading", "at", "next_free", "rate", "speed", "slowed_at")),
            *(("speed", value) for value in (0.0, 1e-320, 1.001)),
            *(("rate", value) for value in (0.0, 1e7, 1e-7)),
            *(("reading", value) for value in (NOW + 2.0, -1e300)),
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
