"""Many callers on one key, in made-up time: machines that hold them up, and a service that counts strictly."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

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
