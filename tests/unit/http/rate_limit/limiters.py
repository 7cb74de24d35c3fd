"""Limiters on a clock that a test sets, and what a caller does with them."""

from __future__ import annotations

from typing import Any

from airflow_provider_mediaops.http.exchange import Blocking, Wait
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, QuotaExhausted
from tests.unit.conversations import FakeClock, replay
from tests.unit.http.rate_limit.rate_stores import memory_store


def limiter_of(fake: FakeClock, per_second: float = 1.0, **other: Any) -> RateLimiter:
    return RateLimiter(**{"store": memory_store(fake), "clock": fake.clock, **other}, name="key", per_second=per_second)


def take(limiter: RateLimiter, fake: FakeClock) -> Permit:
    answer = replay(limiter.acquire(), [], clock=fake)
    assert isinstance(answer, Permit)
    return answer


def permit_after(limiter: RateLimiter, fake: FakeClock, late: float) -> Permit:
    """Return a permit whose way from the store takes some seconds."""
    caller = limiter.acquire()
    try:
        step = next(caller)
        while True:
            if isinstance(step, Wait):
                fake.wait(step.seconds)
                step = next(caller)
            else:
                assert isinstance(step, Blocking)
                answer = step.action()
                fake.wait(late if isinstance(answer, Granted) else 0.0)
                step = caller.send(answer)
    except StopIteration as stop:
        permit: Permit = stop.value
        return permit


def closed(limiter: RateLimiter, fake: FakeClock | None = None) -> QuotaExhausted:
    answer = replay(limiter.acquire(), [], clock=fake)
    assert isinstance(answer, QuotaExhausted)
    return answer


def tell(limiter: RateLimiter, error: Any, permit: Permit | None = None, longest: float = 120.0) -> None:
    replay(limiter.on_error(error, permit, longest), [])
