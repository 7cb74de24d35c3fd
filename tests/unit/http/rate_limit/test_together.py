"""Many callers on one key, in made-up time: the rate is used, and the service refuses none of their requests."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.unit.http.rate_limit.callers import World, abandoned, refused, used

# Nothing here depends on the machine or on Airflow.
pytestmark = pytest.mark.long

CASES = pytest.mark.parametrize(("rate", "callers"), [(1, 1), (1, 4), (1, 16), (3, 4), (5, 2), (5, 16), (50, 16)])


@CASES
def test_on_a_quiet_machine_the_rate_is_used(rate: int, callers: int) -> None:
    came = World(rate, callers).run(60.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.98


@CASES
@pytest.mark.parametrize(("often", "longer"), [(0.05, 0.01), (0.1, 0.015)])
def test_callers_that_are_held_up_have_none_refused(rate: int, callers: int, often: float, longer: float) -> None:
    came = World(rate, callers, often, longer).run(120.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.965


@CASES
def test_the_time_to_serve_is_not_taken_for_lateness(rate: int, callers: int) -> None:
    """Replies of 80 ms ± 30 %."""
    came = World(rate, callers, reply=0.08).run(240.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.975


@CASES
@pytest.mark.parametrize("reply", [0.002, 0.08])
def test_late_wake_ups_and_replies_cost_little(rate: int, callers: int, reply: float) -> None:
    """Two in a hundred are late by up to 400 ms."""
    world = World(rate, callers, reply=reply, late=0.02)
    came = world.run(800.0 if rate < 50 else 120.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.97
    shares = Counter(request.caller for request in world.requests)
    fair = len(came) / callers
    assert all(0.6 * fair <= shares[number] <= 1.4 * fair for number in range(callers))


@CASES
@pytest.mark.parametrize(("often", "longer"), [(0.02, 0.01), (0.05, 0.015)])
def test_a_service_that_takes_its_time_does_not_hide_that_callers_were_held_up(
    rate: int, callers: int, often: float, longer: float
) -> None:
    """The transport says when a request was sent."""
    came = World(rate, callers, often, longer, reply=0.08, late=0.02, knows_sending=True).run(120.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.955


@pytest.mark.parametrize(("rate", "callers"), [(1, 4), (3, 4), (5, 4), (50, 16)])
def test_a_machine_that_is_always_busy_has_none_refused(rate: int, callers: int) -> None:
    """Three in ten steps take 40 ms, the store's answers among them."""
    came = World(rate, callers, 0.3, 0.04, reply=0.08, late=0.02, knows_sending=True).run(60.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.85


def test_by_the_replies_alone_it_would_be_hidden() -> None:
    world = World(5, 4, 0.05, 0.015, reply=0.08, late=0.02)
    assert refused(world.run(120.0), 5)


def test_a_single_caller_of_a_fast_key_catches_up() -> None:
    """Nobody else takes the slots that pass while it is held up."""
    came = World(50, 1, 0.05, 0.01, reply=0.002).run(60.0)
    assert refused(came, 50) == []
    assert used(came, 50) > 0.97


@CASES
def test_after_an_outage_of_the_store_none_is_refused(rate: int, callers: int) -> None:
    came = World(rate, callers, 0.05, 0.01, outage=(20.0, 27.0)).run(90.0)
    assert refused(came, rate) == []
    assert not [moment for moment in came if 20.5 < moment < 28.0]
    after = [moment for moment in came if moment > 35.0]
    assert used(after, rate) > 0.95


@CASES
@pytest.mark.parametrize("jump", [3_600.0, 0.3, -0.3, -3_600.0])
def test_a_clock_that_jumps_stops_nobody_and_makes_no_burst(rate: int, callers: int, jump: float) -> None:
    came = World(rate, callers, clock_jump=jump).run(60.0)
    # A clock that was set cannot be told from time that has passed: requests of the second before it may count twice.
    assert all(19.0 < moment < 22.0 for moment in refused(came, rate))
    assert len(refused(came, rate)) <= rate
    assert max(later - earlier for earlier, later in pairwise(came)) < 2.6
    assert used([moment for moment in came if moment > 23.0], rate) > 0.97


@CASES
def test_callers_that_die_waste_their_slots_only(rate: int, callers: int) -> None:
    world = World(rate, callers, dying=0.02)
    came = world.run(120.0)
    abandoned.clear()
    assert refused(came, rate) == []
    assert used(came, rate) > 0.92


def test_a_thousand_callers_take_turns() -> None:
    world = World(5, 1_000, 0.05, 0.01)
    came = world.run(410.0)
    assert refused(came, 5) == []
    assert used(came, 5) > 0.97
    assert set(Counter(request.caller for request in world.requests).values()) <= {1, 2, 3}
    assert len({request.caller for request in world.requests}) == 1_000


@pytest.mark.parametrize(("often", "reply"), [(0.05, 0.002), (0.0, 0.08)])
def test_a_fast_key(often: float, reply: float) -> None:
    """As many as 200 a second."""
    came = World(200, 64, often, 0.01, reply=reply).run(60.0)
    assert refused(came, 200) == []
    assert used(came, 200) > 0.96
