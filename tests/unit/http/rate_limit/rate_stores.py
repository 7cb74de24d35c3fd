"""Stores of the rate limiter on a clock that a test sets."""

from __future__ import annotations

import sqlite3
import struct
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.rate_limit.memory_store import MemoryStore
from airflow_provider_mediaops.http.rate_limit.operations import Release, Reserve, SlowDown
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Slot
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore
    from tests.redis_server import RedisServer
    from tests.unit.conversations import FakeClock

_numbers = count()


class ClockedRedisStore(RedisStore):
    """A store on a real Redis, by the clock of the test."""

    def __init__(self, server: RedisServer, fake: FakeClock) -> None:
        self._fake = fake
        self._time = f"time:{next(_numbers)}"
        super().__init__(server.url, clock=f"return tonumber(redis.call('GET', '{self._time}'))")

    def _run(self, name: str, *arguments: str) -> Any:
        self._client.get().set(self._time, repr(self._fake.seconds))
        return super()._run(name, *arguments)


def memory_store(fake: FakeClock) -> MemoryStore:
    """Return a store in memory, by the clock of the test."""
    return MemoryStore(fake.clock)


def sqlite_store(path: Path, fake: FakeClock) -> SqliteStore:
    """Return a store in a file, by the clock of the test."""
    return SqliteStore(path, clock=lambda: fake.seconds, wall=lambda: fake.seconds, boot_id=lambda: "one boot")


def wait_for_returned_slots() -> None:
    """Wait until the threads that return the slots of cancelled callers have ended."""
    for thread in threading.enumerate():
        if thread.name == "mediaops-rate-release":
            thread.join(240)
            assert not thread.is_alive()


@dataclass
class Key:
    """
    A key at a store, and operations on it.

    :param store: the store.
    :param clock: its clock.
    :param gap: seconds between slots.
    :param limit: how many requests a window may hold.
    :param window: the window in seconds.
    :param horizon: seconds; no slot is reserved further ahead.
    :param cooldown: seconds before the first slot of a schedule that the store begins.
    """

    store: RateStore
    clock: FakeClock
    gap: float = 1.0
    limit: int = 1
    window: float = 0.9
    horizon: float = 100_000.0
    name: str = ""
    cooldown: float = 0.0

    def __post_init__(self) -> None:
        self.name = self.name or f"key-{next(_numbers)}"

    def ask(self, held: Slot | None = None, **other: Any) -> Any:
        """Reserve a slot, or confirm one."""
        figures = {"gap": self.gap, "limit": self.limit, "window": self.window, "horizon": self.horizon, **other}
        return self.do(Reserve(**figures, held=held))

    def do(self, operation: Operation[A]) -> A:
        """Do something with the schedule."""
        return self.store.apply(self.name, operation, self.cooldown)

    def slot(self, **other: Any) -> Slot:
        """Reserve a slot that is to be waited for."""
        answer = self.ask(**other)
        assert isinstance(answer, Slot), answer
        return answer

    def go(self, held: Slot | None = None, **other: Any) -> Granted:
        """Ask when it is time to send."""
        answer = self.ask(held, **other)
        assert isinstance(answer, Granted), answer
        return answer

    def release(self, slot: Slot) -> None:
        """Give back the slot of a caller that was cancelled."""
        self.do(Release(self.gap, slot))

    def pause(self, seconds: float) -> None:
        """Let nothing be sent for a time, at an unchanged rate: the service refused a request of another epoch."""
        self.do(SlowDown(self.gap, seconds, epoch=-1.0))

    def come_back(self, slot: Slot) -> Any:
        """Sleep until a slot is due, and confirm it."""
        self.wait(max(0.0, slot.due - self.clock.seconds))
        return self.ask(slot)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.wait(seconds)


def waits(key: Key, many: int) -> list[float]:
    """Return the waits of some slots that are reserved at once."""
    return [key.slot().wait for _ in range(many)]


def damage(key: Key, **values: float | tuple[float, ...]) -> None:
    """Overwrite a part of the key's schedule in its store, as a fault or another program may."""
    store = key.store
    if isinstance(store, MemoryStore):
        schedules = store._memory.get().schedules  # noqa: SLF001 a fault asks nobody
        schedules[key.name] = replace(schedules[key.name], **values)  # type: ignore[arg-type]
    elif isinstance(store, SqliteStore):
        for column, value in values.items():
            stored = struct.pack(f"<{len(value)}d", *value) if isinstance(value, tuple) else value
            with closing(sqlite3.connect(store.where.removeprefix("sqlite:///"))) as file, file:
                file.execute(f"UPDATE rate_schedule_2 SET {column} = ? WHERE name = ?", (stored, key.name))  # noqa: S608
    else:
        assert isinstance(store, RedisStore)
        texts: dict[Any, Any] = {
            name: " ".join(map(repr, value)) if isinstance(value, tuple) else repr(value)
            for name, value in values.items()
        }
        store._client.get().hset(f"mediaops:rate:2:{key.name}", mapping=texts)  # noqa: SLF001
