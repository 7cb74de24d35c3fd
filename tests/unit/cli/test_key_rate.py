"""The state of a key as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cli.key_rate import figures_of
from tests.unit.call_flows import FakeClock
from tests.unit.http.rate_limit.keys import GAP, keep, limiter_of, next_step, take

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter


def figures(limiter: RateLimiter) -> dict[str, Any] | None:
    return figures_of(*limiter.backend.read("key"), limiter.per_second)


@pytest.fixture
def fake() -> FakeClock:
    return FakeClock(seconds=1_000.0)


def test_key_that_nobody_has_used_has_no_state(fake: FakeClock) -> None:
    limiter = limiter_of(fake)
    assert figures(limiter) is None
    assert limiter.backend.names() == []


def test_key_is_free_again_after_a_request(fake: FakeClock) -> None:
    limiter = limiter_of(fake)
    take(limiter, fake)
    fake.wait(1.5)
    assert figures(limiter) == {
        "state": "free",
        "reserved": 0,
        "reserved_seconds": 0.0,
        "paused_seconds": 0.0,
        "exhausted_seconds": 0.0,
        "rate_factor": 1.0,
        "idle_seconds": 1.5,
    }


def test_slots_that_are_waited_for_are_reserved(fake: FakeClock) -> None:
    limiter = limiter_of(fake)
    take(limiter, fake)
    for _ in range(40):
        next_step(limiter.acquire())
    fake.wait(0.25)
    found = figures(limiter)
    assert found
    assert (found["state"], found["reserved"]) == ("reserved", 40)
    assert found["reserved_seconds"] == pytest.approx(41 * GAP - 0.25)


def test_slots_of_a_key_whose_rate_is_not_known_have_no_number(fake: FakeClock) -> None:
    limiter = limiter_of(fake)
    keep(limiter.backend, "key", reserved=20.0)
    found = figures_of(*limiter.backend.read("key"))
    assert found
    assert (found["state"], found["reserved"], found["reserved_seconds"]) == ("reserved", None, pytest.approx(20.0))


@pytest.mark.parametrize(
    ("kept", "state", "name", "figure"),
    [
        ({"paused": 20.0, "reserved": 5.0}, "paused", "paused_seconds", 20.0),
        ({"paused": 20.0, "exhausted": 3_602.0}, "exhausted", "exhausted_seconds", 3_602.0),
        ({"speed": 0.7, "reserved": 20.0}, "reserved", "reserved_seconds", 20.0),
        ({"speed": 0.7}, "free", "rate_factor", 0.7),
    ],
)
def test_of_several_states_the_one_that_delays_longest_counts(
    fake: FakeClock, kept: dict[str, float], state: str, name: str, figure: float
) -> None:
    limiter = limiter_of(fake)
    keep(limiter.backend, "key", **kept)
    found = figures(limiter)
    assert found
    assert found["state"] == state
    assert found[name] == pytest.approx(figure)
