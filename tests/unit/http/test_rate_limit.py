from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.rate_limit import RateLimiter, limiter_for
from tests.unit.conversations import FakeClock


@given(rate=st.sampled_from([1.0, 3.0, 5.0, 0.5]), arrivals=st.lists(st.floats(0, 3), min_size=2, max_size=40))
def test_no_second_holds_more_requests_than_the_rate(rate: float, arrivals: list[float]) -> None:
    fake = FakeClock()
    limiter = RateLimiter(rate, fake.clock)
    slots: list[float] = []
    for pause in arrivals:
        fake.wait(pause)
        slots.append(fake.seconds + limiter.reserve())
    assert slots == sorted(slots)
    gaps = [later - earlier for earlier, later in pairwise(slots)]
    assert min(gaps) >= 1 / rate


def test_slots_are_given_in_order_and_evenly() -> None:
    limiter = RateLimiter(5.0, FakeClock().clock)
    slots = [limiter.reserve() for _ in range(6)]
    assert slots == pytest.approx([0.0, 0.204, 0.408, 0.612, 0.816, 1.02])


def test_an_unused_rate_is_not_saved_up() -> None:
    fake = FakeClock()
    limiter = RateLimiter(1.0, fake.clock)
    limiter.reserve()
    fake.wait(3_600)
    assert limiter.reserve() == 0.0
    assert limiter.reserve() > 1.0


def test_a_limit_that_the_service_told_of_holds_for_everyone() -> None:
    fake = FakeClock()
    limiter = RateLimiter(5.0, fake.clock)
    limiter.postpone(30.0)
    assert limiter.reserve() == 30.0
    # A shorter pause does not undo a longer one.
    limiter.postpone(1.0)
    assert limiter.reserve() > 30.0


def test_threads_get_different_slots() -> None:
    limiter = RateLimiter(1_000.0, FakeClock().clock)
    slots: list[float] = []

    def take() -> None:
        slots.extend(limiter.reserve() for _ in range(200))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(set(slots)) == 800


def test_one_key_has_one_limiter_and_it_does_not_hold_the_key() -> None:
    first = limiter_for("test-key-of-rate-limits", 3.0)
    assert limiter_for("test-key-of-rate-limits", 3.0) is first
    assert limiter_for("test-key-of-rate-limits", 5.0) is not first
    assert limiter_for("another-test-key", 3.0) is not first
    assert "test-key" not in repr(first)
