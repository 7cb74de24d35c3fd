"""Many callers on one key, in made-up time: machines that hold them up, and a service that counts strictly."""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from airflow_provider_mediaops.exceptions import RateLimitedError, RateStoreError
from airflow_provider_mediaops.http.exchange import Blocking, Clock, Returned, Wait, advance
from airflow_provider_mediaops.http.rate_limit.backends import MemoryBackend
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from tests.unit.call_flows import START, FakeClock

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.http.rate_limit.backends import Change

T = TypeVar("T")

SERVICE = "the service"
A_STEP = Wait(0.0, "a step of the process")
BEGIN = 10_000.0
LATE_SECONDS = 0.4


class Sent(NamedTuple):
    """A request that has reached the service."""

    at: float
    caller: int
    refused: bool


@dataclass
class World:
    """
    Callers, their machine, the back end and the service.

    :param callers: how many ask at the same time.
    :param often: in which share of the steps a process is held up.
    :param longer: for how many seconds then, on average.
    :param reply: seconds until the service replies, give or take 30 %.
    :param late: the share of wake-ups, and of replies, that are late by up to 0.4 seconds.
    :param stalling: the share of requests that stall by up to 0.4 seconds after they have left.
    :param dying: the share of sleeps in which a caller dies; another takes its place.
    :param outage: when the back end cannot be reached.
    :param clock_jump: by how many seconds the back end's clock is set, after 20 seconds.
    :param other_rate: the rate of every second caller, if it differs.
    """

    rate: float
    callers: int
    often: float = 0.0
    longer: float = 1.0
    reply: float = 0.0
    late: float = 0.0
    stalling: float = 0.0
    dying: float = 0.0
    outage: tuple[float, float] = (1e9, 1e9)
    clock_jump: float = 0.0
    other_rate: float = 0.0
    seed: int = 4
    fake: FakeClock = field(default_factory=lambda: FakeClock(seconds=BEGIN))
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 no secret is made of it
        self.clock = Clock(monotonic=lambda: self.fake.seconds, now=lambda: START, uniform=self.chance.uniform)
        self.backend = BackendOfMany(self)
        self.admitted = deque[float](maxlen=max(1, int(self.rate)))

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return self.fake.seconds - BEGIN

    def run(self, seconds: float) -> World:
        """Let the callers ask for so many seconds."""
        coming = [(BEGIN, number, self.asking(number)) for number in range(self.callers)]
        while self.seconds < seconds:
            self.fake.seconds, number, caller = heapq.heappop(coming)
            step = next(caller)
            if step.reason == "the key's rate" and self.chance.random() < self.dying:
                caller = self.asking(number)
            heapq.heappush(coming, (self.fake.seconds + step.seconds + self.hold_up(step), number, caller))
        return self

    def asking(self, number: int) -> Generator[Wait, None, None]:
        """Ask the service as fast as the limiter allows."""
        rate = self.other_rate if self.other_rate and number % 2 else self.rate
        limiter = RateLimiter(self.backend, "key", rate, clock=self.clock)
        while True:
            permit = yield from self.carried_out(limiter.acquire())
            assert isinstance(permit, Permit)
            yield A_STEP
            sent_at = self.fake.seconds
            if self.chance.random() < self.stalling:
                yield Wait(self.chance.uniform(0.0, LATE_SECONDS), SERVICE)
            refused = not self.admits(self.seconds)
            self.sent.append(Sent(self.seconds, number, refused))
            reply = self.reply * self.chance.uniform(0.7, 1.3)
            if self.chance.random() < self.late:
                reply += self.chance.uniform(0.0, LATE_SECONDS)
            yield Wait(reply, SERVICE)
            yield from self.carried_out(limiter.on_sent(permit, sent_at))
            if refused:
                error = RateLimitedError("too many", service="s")
                yield from self.carried_out(limiter.on_error(error, permit, 60.0))

    def carried_out(self, flow: CallFlow[T]) -> Generator[Wait, None, T]:
        """Carry out a call flow, with a way to the back end and back for each question."""
        step = advance(flow)
        while not isinstance(step, Returned):
            if isinstance(step, Wait):
                yield step
                step = advance(flow)
                continue
            assert isinstance(step, Blocking)
            yield A_STEP
            try:
                answer: Any = step.action()
            except RateStoreError as error:
                step = advance(flow, error=error)
            else:
                yield A_STEP
                step = advance(flow, answer)
        return step.value

    def admits(self, moment: float) -> bool:
        """Say whether a service that admits requests strictly at the rate admits this one."""
        if (
            len(self.admitted) == self.admitted.maxlen
            and moment - self.admitted[0] < max(1, int(self.rate)) / self.rate
        ):
            return False
        self.admitted.append(moment)
        return True

    def hold_up(self, step: Wait) -> float:
        """Return the seconds that a step takes besides its wait."""
        taken = 0.001 * self.chance.lognormvariate(0, 0.5)
        if self.chance.random() < self.often:
            taken += self.chance.expovariate(1 / self.longer)
        if step.seconds and step.reason != SERVICE and self.chance.random() < self.late:
            taken += self.chance.uniform(0.0, LATE_SECONDS)
        return taken

    @property
    def refused(self) -> list[float]:
        """The times of the requests that the service refused."""
        return [sent.at for sent in self.sent if sent.refused]

    def used(self, since: float = 0.0) -> float:
        """Return the share of the rate that was used from a time on."""
        admitted = [sent.at for sent in self.sent if sent.at >= since and not sent.refused]
        return (len(admitted) - 1) / (admitted[-1] - admitted[0]) / self.rate

    def shares(self) -> list[float]:
        """Return the share of each caller, where 1 is fair."""
        counts = Counter(sent.caller for sent in self.sent)
        return [counts[number] * self.callers / len(self.sent) for number in range(self.callers)]


class BackendOfMany(MemoryBackend):
    """A back end at the end of a wire, with a clock of its own, that may lose its states."""

    may_lose = True

    def __init__(self, world: World) -> None:
        super().__init__(lambda: world.fake.seconds + world.clock_jump * (world.seconds > 20.0))
        self._world = world
        self.asked = 0

    def update(self, name: str, change: Change[T]) -> T:
        """Change a state, if the back end can be reached."""
        self.asked += 1
        first, last = self._world.outage
        if first <= self._world.seconds < last:
            raise RateStoreError("it cannot be reached")
        return super().update(name, change)
