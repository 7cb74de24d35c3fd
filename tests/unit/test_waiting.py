"""A look that waits in between, and the time limit that it may not pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, Step, TransportError, Wait, until
from airflow_provider_mediaops.waiting import Done, Pace
from tests.unit.call_flows import FakeClock, pauses_of, replay

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.waiting import Verdict


BROKEN = TransportError(Failure.BROKEN, "broken")


def three_readings(closed: list[bool]) -> CallFlow[Verdict]:
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


@pytest.mark.parametrize(
    ("deadline", "replies", "verdict", "pauses"),
    [
        pytest.param(31, ["a", BROKEN, "c"], Done(["a", "broken", "c"]), [10] * 3, id="an end in time"),
        pytest.param(30, ["a", "b", "c"], Done(["a", "b", "c"]), [10] * 3, id="a wait that ends with the limit"),
        pytest.param(14, ["a", "b"], None, [10], id="a wait beyond the limit is not begun"),
        pytest.param(-5, ["a"], None, [], id="after the limit it may ask, and not wait"),
    ],
)
def test_look_is_given_up_before_a_wait_beyond_the_time_limit(
    deadline: float, replies: list[str | TransportError], verdict: Verdict | None, pauses: list[float]
) -> None:
    clock, closed, steps = FakeClock(), list[bool](), list[Step]()
    answers = [Response(200, {}, reply.encode()) if isinstance(reply, str) else reply for reply in replies]
    flow = until(deadline, three_readings(closed), clock.clock.monotonic)
    if verdict:
        assert replay(flow, answers, steps=steps, clock=clock) == verdict
    else:
        with pytest.raises(TemporaryError, match="would have to wait for 10 s"):
            replay(flow, answers, steps=steps, clock=clock)
    assert closed == [True]
    assert pauses_of(steps) == pauses


@pytest.mark.parametrize(
    ("interval", "asked", "pause"),
    [
        (10, None, 10),
        (10, 5, 10),
        (10, 120, 120),
        pytest.param(10, 86_400, 300, id="a day is cut to five minutes"),
        pytest.param(0.01, None, 1, id="a second at the least"),
    ],
)
def test_a_service_that_fails_is_left_alone_as_long_as_it_asks_within_bounds(
    interval: float, asked: float | None, pause: float
) -> None:
    assert Pace(interval).after_failure(0, asked) == pause
