"""Keys at back ends, and limiters on a clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Blocking, Returned, advance
from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.backends import MemoryBackend
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Later, Schedule
from tests.unit.call_flows import FakeClock, replay

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Step
    from airflow_provider_mediaops.http.rate_limit.backends import RateBackend

#: Seconds from one slot to the next, and those of the window, at a rate of one a second.
GAP, WINDOW = 1.03, 1.02


def memory_backend(fake: FakeClock) -> MemoryBackend:
    """Return a back end in memory, by the clock of the test."""
    return MemoryBackend(lambda: fake.seconds)


def limiter_of(fake: FakeClock, per_second: float = 1.0, backend: RateBackend | None = None) -> RateLimiter:
    """Return a limiter by the clock of the test."""
    return RateLimiter(backend or memory_backend(fake), "key", per_second, fake.clock)


def take(limiter: RateLimiter, fake: FakeClock) -> Permit:
    """Wait for a permit."""
    answer = replay(limiter.acquire(), [], clock=fake)
    assert isinstance(answer, Permit)
    return answer


def next_step(flow: CallFlow[Any], reply: object = None) -> Step | Returned[Any]:
    """Carry out what a call flow asks of a back end; return its next step after that, or its end."""
    step = advance(flow, reply)
    while isinstance(step, Blocking):
        step = advance(flow, step.action())
    return step


def keep(
    backend: RateBackend,
    name: str,
    *,
    reserved: float = 0.0,
    paused: float = 0.0,
    exhausted: float = 0.0,
    speed: float = 1.0,
    idle: float | None = None,
) -> None:
    """Keep a state of a key: for how many seconds slots are reserved, and it is paused, exhausted and was idle."""

    def change(_text: str | None, now: float) -> tuple[str, None]:
        state = Schedule(
            reading=now,
            at=now + paused,
            next_free=now + reserved * speed,
            rate=1.0,
            speed=speed,
            blocked_until=now + exhausted,
            sent=() if idle is None else (now - idle,),
        )
        return schedule.to_text(state), None

    backend.update(name, change)


@dataclass
class Key:
    """A schedule, its rate and its time: what callers ask and report, one after the other."""

    rate: float = 1.0
    now: float = 1_800_000_000.125

    def __post_init__(self) -> None:
        self.state = schedule.begin(self.now, self.rate, at_once=True)

    def ask(self, slot: float | None = None) -> schedule.Answer:
        """Reserve a slot, or confirm one."""
        if slot is None:
            self.state, answer = schedule.reserve(self.state, self.now, self.rate)
        else:
            self.state, answer = schedule.confirm(self.state, self.now, self.rate, slot)
        # A back end keeps the state as a text.
        kept = schedule.from_text(schedule.to_text(self.state), self.now)
        assert kept == self.state
        return answer

    def later(self, slot: float | None = None) -> Later:
        """Ask when it is not time to send."""
        answer = self.ask(slot)
        assert isinstance(answer, Later), answer
        return answer

    def go(self, slot: float | None = None) -> Granted:
        """Ask when it is time to send."""
        answer = self.ask(slot)
        assert isinstance(answer, Granted), answer
        return answer

    def report(self, report: Any, *figures: float | None) -> None:
        """Report something to the schedule."""
        self.state = report(self.state, self.now, *figures)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def waits(self, many: int) -> list[float]:
        """Return the waits of some slots that are reserved at once."""
        return [self.later().seconds for _ in range(many)]
