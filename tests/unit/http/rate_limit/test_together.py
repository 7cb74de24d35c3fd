"""Many callers on one key, in made-up time: machines that hold them up, and a service that counts strictly."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from airflow_provider_mediaops.http.rate_limit.schedule import Cooldown
from airflow_provider_mediaops.http.rate_limit.stores import MemoryStore
from tests.unit.conversations import START, FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.http.rate_limit.schedule import A, Operation


@dataclass
class Machine:
    """
    What a step of a process takes besides what it waits for.

    :param often: in which share of the steps it is held up.
    :param longer: for how many seconds then, on average.
    """

    often: float
    longer: float
    chance: random.Random = field(default_factory=lambda: random.Random(4))  # noqa: S311 no secret is made of it

    def step(self) -> float:
        """Give the seconds."""
        held_up = self.chance.random() < self.often
        return 0.001 * self.chance.lognormvariate(0, 0.5) + held_up * self.chance.expovariate(1 / self.longer)


QUIET, BUSY, BUSIER = (0.0, 1.0), (0.05, 0.01), (0.1, 0.015)
A_STEP = Wait(0.0, "a step of the process")


class StoreOfMany(MemoryStore):
    """
    A store at the end of a wire.

    :param fake: its clock.
    :param outage: from when to when it cannot be reached; then it has lost what it was told last.
    """

    def __init__(self, fake: FakeClock, outage: tuple[float, float]) -> None:
        super().__init__(fake.clock)
        self._fake, self._outage, self._settled = fake, outage, False

    def ask(self, name: str, operation: Operation[A], quiet: float) -> Conversation[A]:
        """Ask it."""
        yield A_STEP
        first, last = self._outage
        if first <= self._fake.seconds < last:
            raise RateStoreError("it cannot be reached")
        if self._fake.seconds >= last and not self._settled:
            self._settled = True
            self.apply(name, Cooldown(quiet), quiet)
        answer = self.apply(name, operation, quiet)
        self.reached = True
        yield A_STEP
        return answer


def asking(limiter: RateLimiter, fake: FakeClock, came: list[float]) -> Iterator[Step]:
    """Ask the service as fast as the limiter lets us."""
    while True:
        permit = yield from limiter.acquire()
        assert isinstance(permit, Permit)
        yield A_STEP
        came.append(fake.seconds)
        yield A_STEP
        yield from limiter.on_reply(permit)


def requests_of(
    rate: float, callers: int, machine: Machine, seconds: float, outage: tuple[float, float] = (1e9, 1e9)
) -> list[float]:
    """Let some callers ask, and give the times at which their requests came to the service."""
    fake, came = FakeClock(seconds=100.0), list[float]()
    clock = Clock(monotonic=lambda: fake.seconds, now=lambda: START, uniform=machine.chance.uniform)
    store = StoreOfMany(fake, (100.0 + outage[0], 100.0 + outage[1]))
    coming = [
        (100.0, number, asking(RateLimiter(store, "key", rate, clock=clock), fake, came)) for number in range(callers)
    ]
    end = 100.0 + seconds
    while fake.seconds < end:
        fake.seconds, number, caller = heapq.heappop(coming)
        step = next(caller)
        assert isinstance(step, Wait)
        heapq.heappush(coming, (fake.seconds + step.seconds + machine.step(), number, caller))
    return [moment - 100.0 for moment in came]


def refused(came: Sequence[float], rate: int) -> list[float]:
    """Give the requests that a service refuses which admits so many in any second."""
    admitted, refused = deque[float](maxlen=rate), []
    for moment in came:
        if len(admitted) == rate and moment - admitted[0] < 1.0:
            refused.append(moment)
        else:
            admitted.append(moment)
    return refused


def used(came: Sequence[float], rate: int) -> float:
    """Give the share of the rate that was used."""
    return (len(came) - 1) / (came[-1] - came[0]) / rate


CASES = pytest.mark.parametrize(("rate", "callers"), [(1, 1), (1, 4), (1, 16), (3, 4), (5, 1), (5, 16), (50, 16)])


@CASES
def test_on_a_quiet_machine_the_rate_is_used(rate: int, callers: int) -> None:
    came = requests_of(rate, callers, Machine(*QUIET), 60.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.975


@CASES
@pytest.mark.parametrize("held_up", [BUSY, BUSIER])
def test_callers_that_are_held_up_have_none_refused(rate: int, callers: int, held_up: tuple[float, float]) -> None:
    came = requests_of(rate, callers, Machine(*held_up), 120.0)
    assert refused(came, rate) == []
    assert used(came, rate) > 0.95


@CASES
def test_nor_do_they_after_an_outage_of_the_store(rate: int, callers: int) -> None:
    came = requests_of(rate, callers, Machine(*BUSY), 90.0, outage=(20.0, 27.0))
    assert refused(came, rate) == []
    assert not [moment for moment in came if 20.5 < moment < 28.0]
    after = [moment for moment in came if moment > 35.0]
    assert used(after, rate) > 0.95
