"""A look that waits in between, and the time limit that it may not pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request, Response, Step, TransportError, Wait
from airflow_provider_mediaops.waiting import Pace, until
from airflow_provider_mediaops.watch import Done
from tests.unit.conversations import FakeClock, pauses_of, replay, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.watch import Verdict


def three_readings(closed: list[bool]) -> Conversation[Verdict]:
    """Read three times, ten seconds apart; a reading that fails counts as empty."""
    try:
        seen = []
        for _ in range(3):
            try:
                response: Response = yield Request("GET", "/reading")
                seen.append(response.text)
            except TransportError as error:
                seen.append(error.detail)
            yield Wait(10, "the next reading")
        return Done(seen)
    finally:
        closed.append(True)


def look(deadline: float, *replies: str | TransportError, steps: list[Step] | None = None) -> Verdict | None:
    clock, closed = FakeClock(), list[bool]()
    answers = [Response(200, {}, reply.encode()) if isinstance(reply, str) else reply for reply in replies]
    conversation = until(deadline, three_readings(closed), clock.clock.monotonic)
    verdict = replay(conversation, answers, steps=steps, clock=clock)
    assert closed == [True]
    return verdict


def test_a_look_that_ends_in_time_is_not_touched() -> None:
    steps: list[Step] = []
    assert look(31, "a", TransportError(Failure.BROKEN, "broken"), "c", steps=steps) == Done(["a", "broken", "c"])
    assert pauses_of(steps) == [10, 10, 10]


def test_a_wait_is_cut_at_the_time_limit_and_the_look_given_up() -> None:
    steps: list[Step] = []
    assert look(14, "a", "b", steps=steps) is None
    assert pauses_of(steps) == [10, 4]
    assert len(requests_of(steps)) == 2


def test_a_wait_that_ends_with_the_time_limit_is_waited() -> None:
    assert look(30, "a", "b", "c") == Done(["a", "b", "c"])


def test_after_the_time_limit_a_look_may_ask_and_not_wait() -> None:
    steps: list[Step] = []
    assert look(-5, "a", steps=steps) is None
    assert pauses_of(steps) == [0]


def test_who_is_told_of_the_wait_waits_for_nothing() -> None:
    clock, told, steps = FakeClock(), list[Wait](), list[Step]()
    conversation = until(14, three_readings([]), clock.clock.monotonic, told.append)
    assert replay(conversation, [Response(200), Response(200)], steps=steps, clock=clock) is None
    assert told == [Wait(10, "the next reading")]
    assert pauses_of(steps) == [10]


@pytest.mark.parametrize(("asked", "pause"), [(None, 10), (5, 10), (600, 600), (366 * 86_400, 86_400)])
def test_a_service_that_fails_is_left_alone_as_long_as_it_asks_but_for_a_day_at_the_most(
    asked: float | None, pause: float
) -> None:
    assert Pace(10).after_failure(1, asked) == pause


@pytest.mark.parametrize(
    ("pace", "pauses"),
    [
        (Pace(10), [10, 10, 10]),
        (Pace(10, exponential=True), [10, 20, 40]),
        (Pace(0.25, exponential=True), [1, 2, 4]),
        (Pace(10, exponential=True, longest_seconds=30), [10, 20, 30]),
        (Pace(10, longest_seconds=5), [10, 10, 10]),
    ],
)
def test_pauses_after_looks_are_equal_or_double_up_to_the_longest(pace: Pace, pauses: list[float]) -> None:
    assert [pace.after_reading(number) for number in (1, 2, 3)] == pauses
    assert pace.after_reading(5_000) >= pauses[-1]


def test_pauses_after_failures_double_up_to_eight_times_the_interval() -> None:
    assert [Pace(10).after_failure(number, None) for number in range(1, 7)] == [10, 20, 40, 80, 80, 80]
    assert Pace(0.01).after_failure(1, None) == 1
