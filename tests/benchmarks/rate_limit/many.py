"""
Ten thousand callers of one key in made-up time: ours, and callers that poll as limiters of general use have them do.

Those ask a shared log whether there is room in the last second, and come back when the oldest request in it leaves. All
who wait come back at once, then, and whoever is first has it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.http.exchange import Wait
from tests.unit.http.rate_limit.callers import A_STEP, SERVICE, Request, StoreOfMany, World, refused, used

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation

CALLERS, RATE = 10_000, 5
#: Each caller has its turn so often.
TURNS = 3
# Polling callers ask the store so often that a minute shows it.
POLLING_SECONDS = 60.0


class Figures(NamedTuple):
    """
    What callers made of a rate.

    :param used: the share of the rate that was used.
    :param refused: how many requests the service refused.
    :param least: the least share of a caller, where 1 is fair.
    :param most: the largest share of a caller.
    :param asked: the requests to the store, for each request to the service.
    """

    used: float
    refused: int
    least: float
    most: float
    asked: float


class CountingStore(StoreOfMany):
    """Counts what it is asked."""

    asked = 0

    def ask(self, name: str, operation: Operation[A], cooldown: float) -> Conversation[A]:
        """Apply an operation."""
        self.asked += 1
        return (yield from super().ask(name, operation, cooldown))


class CountingWorld(World):
    """Callers of our limiter, with a store that counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store: CountingStore = CountingStore(self)

    @property
    def asked(self) -> int:
        """The requests to the store so far."""
        return self.store.asked


@dataclass
class PollingWorld(World):
    """Callers that poll a log of the last second."""

    asked: int = 0
    log: deque[float] = field(default_factory=deque)

    def asking(self, number: int) -> Iterator[Step]:
        """Ask the service whenever the log has room."""
        while True:
            yield A_STEP
            self.asked += 1
            now = self.fake.seconds
            while self.log and self.log[0] <= now - 1.0:
                self.log.popleft()
            if len(self.log) >= self.rate:
                yield Wait(self.log[0] + 1.0 - now, "room in the log")
                continue
            self.log.append(now)
            yield A_STEP
            self.requests.append(Request(self.seconds, number))
            yield Wait(self.reply, SERVICE)


def ours() -> Figures:
    """Let our callers have their turns."""
    world = CountingWorld(RATE, CALLERS)
    came = world.run(TURNS * CALLERS / RATE * 1.02)
    return _figures(world, came, world.asked)


def polling() -> Figures:
    """Let polling callers ask for a minute."""
    world = PollingWorld(RATE, CALLERS)
    came = world.run(POLLING_SECONDS)
    return _figures(world, came, world.asked)


def _figures(world: World, came: list[float], asked: int) -> Figures:
    shares = Counter(request.caller for request in world.requests)
    fair = len(came) / world.callers
    each = [shares[number] / fair for number in range(world.callers)]
    return Figures(used(came, RATE), len(refused(came, RATE)), min(each), max(each), asked / len(came))
