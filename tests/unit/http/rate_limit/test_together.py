"""Many callers on one key, in made-up time: the rate is used, and the service refuses none of their requests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.unit.http.rate_limit.callers import World

# All of it is in made-up time.
pytestmark = pytest.mark.once

CASES = pytest.mark.parametrize(("rate", "callers"), [(1, 1), (2.5, 4), (3, 64), (5, 16), (50, 16)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("trouble", "seconds", "since", "least"),
    [
        pytest.param({}, 150.0, 0.0, 0.965, id="on a quiet machine"),
        # Two in a hundred are late by up to 400 ms.
        pytest.param({"reply": 0.08, "late": 0.02}, 400.0, 3.0, 0.96, id="with late wake-ups and replies"),
        # Three in ten steps take 40 ms, the back end's answers among them.
        pytest.param(
            {"often": 0.3, "longer": 0.04, "reply": 0.08, "late": 0.02}, 60.0, 0.0, 0.8, id="on a machine always busy"
        ),
        pytest.param(
            {"often": 0.05, "longer": 0.01, "outage": (20.0, 27.0)},
            90.0,
            40.0,
            0.94,
            id="after an outage of the back end",
        ),
        pytest.param({"dying": 0.02}, 120.0, 0.0, 0.92, id="beside callers that die"),
    ],
)
@CASES
def test_the_rate_is_used_and_no_request_refused(
    rate: float, callers: int, *, trouble: dict[str, Any], seconds: float, since: float, least: float
) -> None:
    # A fast rate shows a share of it soon.
    world = World(rate, callers, **trouble).run(seconds if rate < 50 else min(seconds, 60.0))
    assert world.refused == []
    assert world.used(since) > least


@pytest.mark.long
@CASES
def test_senders_that_stall_have_few_requests_refused(rate: float, callers: int) -> None:
    """One in two hundred stalls for up to 400 ms on the way, and nobody knows."""
    world = World(rate, callers, reply=0.08, stalling=0.005).run(1_000.0 if rate < 50 else 60.0)
    assert len(world.refused) <= 0.015 * len(world.sent)
    assert world.used() > 0.9
    # Callers that sleep while the rate recovers from a refusal do not oversleep.
    assert max(later.at - earlier.at for earlier, later in pairwise(world.sent)) < 3.0 / min(rate, 1.0) + 1.0


def test_a_single_caller_of_a_fast_key_catches_up() -> None:
    """Nobody else takes the slots that pass while it is held up."""
    world = World(50, 1, 0.05, 0.01, reply=0.002).run(60.0)
    assert world.refused == []
    assert world.used() > 0.965


@pytest.mark.long
@pytest.mark.parametrize(("rate", "callers"), [(1, 1), (5, 16), (50, 16)])
@pytest.mark.parametrize("jump", [3_600.0, 0.3, -0.3, -3_600.0])
def test_a_clock_that_jumps_stops_nobody_and_makes_no_burst(rate: float, callers: int, jump: float) -> None:
    world = World(rate, callers, clock_jump=jump).run(60.0)
    # A clock that was set cannot be told from time that has passed: requests of the second before it may count twice.
    assert len([moment for moment in world.refused if 19.0 < moment < 22.0]) <= rate
    assert len(world.refused) <= rate * (jump > 0)
    assert max(later.at - earlier.at for earlier, later in pairwise(world.sent)) < 2.6


@pytest.mark.parametrize(("rate", "other"), [(5, 1.0), (5, 0.1), (50, 5.0), (3, 2.0)])
def test_connections_with_different_rates_take_turns(rate: float, other: float) -> None:
    """After each request the key rests for as long as the rate of the connection that made it demands."""
    world = World(rate, 8, other_rate=other).run(900.0 if rate < 50 else 60.0)
    assert world.refused == []
    assert (min(world.shares()) > 0.6, max(world.shares()) < 1.4) == (True, True)
    assert len(world.sent) * (1 / rate + 1 / other) / 2 / world.seconds > 0.93


@pytest.mark.long
@pytest.mark.parametrize("rate", [5, 50])
def test_a_thousand_callers_take_turns(rate: int) -> None:
    world = World(rate, 1_000, 0.05, 0.01, reply=0.08, late=0.02).run(3_000.0 / rate)
    assert world.refused == []
    assert world.used() > 0.96
    assert min(world.shares()) > 0.6
    assert max(world.shares()) < 1.4
