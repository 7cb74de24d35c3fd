"""The stores of the rate limiter behind one face, on a clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Reserve, Slot
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from airflow_provider_mediaops.http.rate_limit.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.schedule import A, Operation
    from airflow_provider_mediaops.http.rate_limit.stores import RateStore
    from tests.redis_server import RedisServer
    from tests.unit.conversations import FakeClock

_numbers = count()


class ClockedRedisStore(RedisStore):
    """A store on a real Redis, by the clock of the test."""

    def __init__(self, server: RedisServer, fake: FakeClock) -> None:
        self._fake = fake
        self._time = f"time:{next(_numbers)}"
        super().__init__(server.url, clock=f"return tonumber(redis.call('GET', '{self._time}'))")

    def apply(self, name: str, operation: Operation[A], quiet: float) -> A:
        self._client.get().set(self._time, repr(self._fake.seconds))
        return super().apply(name, operation, quiet)


def memory_store(fake: FakeClock) -> MemoryStore:
    """Give a store in memory, by the clock of the test."""
    return MemoryStore(fake.clock)


def sqlite_store(path: Path, fake: FakeClock) -> SqliteStore:
    """Give a store in a file, by the clock of the test."""
    return SqliteStore(path, clock=lambda: fake.seconds)


@dataclass
class Key:
    """
    A key at a store, whose callers do as they are told.

    :param store: the store.
    :param clock: its clock.
    :param gap: seconds between slots.
    :param most: how many requests may be sent within ``within`` seconds.
    """

    store: RateStore
    clock: FakeClock
    gap: float = 1.0
    most: int = 1
    within: float = 0.9
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or f"key-{next(_numbers)}"

    def ask(self, held: Slot | None = None, **other: Any) -> Any:
        """Ask for a slot, or come back for one."""
        figures = {"gap": self.gap, "most": self.most, "within": self.within, **other}
        return self.do(Reserve(**figures, held=held))

    def do(self, operation: Operation[A]) -> A:
        """Do something with the schedule."""
        return self.store.apply(self.name, operation, 0.0)

    def slot(self, **other: Any) -> Slot:
        """Take a slot that is to be waited for."""
        answer = self.ask(**other)
        assert isinstance(answer, Slot), answer
        return answer

    def go(self, held: Slot | None = None, **other: Any) -> Granted:
        """Ask where it is time to send."""
        answer = self.ask(held, **other)
        assert isinstance(answer, Granted), answer
        return answer

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.wait(seconds)
