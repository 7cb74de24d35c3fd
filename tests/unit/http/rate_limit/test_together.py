"""Many callers on one key, in made-up time: machines that hold them up, and a service that counts strictly."""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from airflow_provider_mediaops.http.rate_limit.memory_store import MemoryStore
from airflow_provider_mediaops.http.rate_limit.operations import SlowDown
from tests.unit.conversations import START, FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation

SERVICE = "the service"
A_STEP = Wait(0.0, "a step of the process")
BEGIN = 10_000.0


class Request(NamedTuple):
    """A request at the service."""

    at: float
    caller: int


@dataclass
class World:
    """
    Callers, their machine, the store and the service.

    :param rate: the key's rate.
    :param callers: how many ask at the same time.
    :param often: in which share of the steps a process is held up.
    :param longer: for how many seconds then, on average.
    :param reply: seconds until the service replies.
    :param jitter: by which share of that replies differ.
    :param late: the share of wake-ups, and of replies, that are late by up to 0.4 seconds.
    :param dying: the share of sleeps in which a caller dies; another takes its place.
    :param outage: when the store cannot be reached; then it has lost the latest requests.
    :param knows_sending: whether the transport says when a request was sent.
    :param clock_jump: by how many seconds the store's clock is set, after 20 seconds.
    """

    rate: int
    callers: int
    often: float = 0.0
    longer: float = 1.0
    reply: float = 0.0
    jitter: float = 0.3
    late: float = 0.0
    dying: float = 0.0
    outage: tuple[float, float] = (1e9, 1e9)
    knows_sending: bool = False
    clock_jump: float = 0.0
    seed: int = 4
    fake: FakeClock = field(default_factory=lambda: FakeClock(seconds=BEGIN))
    requests: list[Request] = field(default_factory=list)
    has_settled: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 no secret is made of it
        self.clock = Clock(monotonic=lambda: self.fake.seconds, now=lambda: START, uniform=self.chance.uniform)
        self.store = StoreOfMany(self)

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return self.fake.seconds - BEGIN

    def run(self, seconds: float) -> list[float]:
        """Let the callers ask, and return the times at which their requests reached the service."""
        coming = [(BEGIN, number, self.asking(number)) for number in range(self.callers)]
        while self.seconds < seconds:
            self.fake.seconds, number, caller = heapq.heappop(coming)
            step = next(caller)
            assert isinstance(step, Wait)
            if step.reason == "the key's rate" and self.chance.random() < self.dying:
                # Killed: it gives nothing back.
                abandoned.append(caller)
                caller = self.asking(number)
            heapq.heappush(coming, (self.fake.seconds + step.seconds + self.hold_up(step), number, caller))
        return [request.at for request in self.requests]

    def asking(self, number: int) -> Iterator[Step]:
        """Ask the service as fast as the limiter allows."""
        limiter = RateLimiter(self.store, "key", self.rate, clock=self.clock)
        while True:
            permit = yield from limiter.acquire()
            assert isinstance(permit, Permit)
            yield A_STEP
            sent_at = self.fake.seconds if self.knows_sending else None
            self.requests.append(Request(self.seconds, number))
            reply = self.reply * self.chance.uniform(1 - self.jitter, 1 + self.jitter)
            if self.chance.random() < self.late:
                reply += self.chance.uniform(0.0, 0.4)
            yield Wait(reply, SERVICE)
            yield from limiter.on_reply(permit, sent_at)

    def hold_up(self, step: Wait) -> float:
        """Return the seconds that a step takes besides its wait."""
        taken = 0.001 * self.chance.lognormvariate(0, 0.5)
        if self.chance.random() < self.often:
            taken += self.chance.expovariate(1 / self.longer)
        if step.seconds and step.reason != SERVICE and self.chance.random() < self.late:
            taken += self.chance.uniform(0.0, 0.4)
        return taken


# Callers that were killed: if they were collected as garbage, they would be closed and give their slots back.
abandoned: list[Iterator[Step]] = []


class StoreOfMany(MemoryStore):
    """A store at the end of a wire, with a clock of its own."""

    def __init__(self, world: World) -> None:
        super().__init__(Clock(monotonic=lambda: world.fake.seconds + world.clock_jump * (world.seconds > 20.0)))
        self._world = world

    def ask(self, name: str, operation: Operation[A], cooldown: float) -> Conversation[A]:
        """Apply an operation, after a way there and back."""
        yield A_STEP
        first, last = self._world.outage
        if first <= self._world.seconds < last:
            raise RateStoreError("it cannot be reached")
        if self._world.seconds >= last and not self._world.has_settled:
            self._world.has_settled = True
            # A limit reply to a request of another epoch pauses all callers and does not slow them down.
            self.apply(name, SlowDown(0.0, cooldown, epoch=-1.0), cooldown)
        answer = self.apply(name, operation, cooldown)
        self.reached = True
        yield A_STEP
        return answer


def refused(came: Sequence[float], rate: int) -> list[float]:
    """Return the requests that a service refuses which admits so many in any second."""
    admitted, refused = deque[float](maxlen=rate), []
    for moment in came:
        if len(admitted) == rate and moment - admitted[0] < 1.0:
            refused.append(moment)
        else:
            admitted.append(moment)
    return refused


def used(came: Sequence[float], rate: int) -> float:
    """Return the share of the rate that was used."""
    return (len(came) - 1) / (came[-1] - came[0]) / rate


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
