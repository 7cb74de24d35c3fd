"""Every store does with a schedule exactly what its operations do in Python, and for threads too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.http.rate_limit.operations import (
    Delayed,
    ExhaustQuota,
    Release,
    Reserve,
    RestoreQuota,
    SlowDown,
    applied,
)
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Slot
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import ClockedRedisStore, Key, sqlite_store

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.operations import Operation
    from airflow_provider_mediaops.http.rate_limit.schedule import Schedule
    from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore
    from tests.redis_server import RedisServer


def operations() -> st.SearchStrategy[tuple[float, str, Any]]:
    """Return a pause, and the operation after it."""
    seconds = st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.7, 3.0, 40.0, -0.4, -5.0])
    figure = st.sampled_from([0.0, 0.2, 1.0, 5.0])
    kinds = ["reserve", "reserve", "come back", "come back", "sleep", "slow down", "limit", "exhaust"]
    kinds += ["restore", "delayed", "release"]
    return st.tuples(seconds, st.sampled_from(kinds), figure)


class Caller:
    """Makes operations of kinds, with the answers to earlier ones."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.granted = Granted(0.0, 0.0)

    def operation(self, kind: str, figure: float) -> Operation[Any]:
        slot = self.slots.pop(0) if self.slots and kind in ("come back", "sleep", "release") else None
        gap = 0.04 if figure == 0.2 else 0.5
        if kind == "release" and slot:
            return Release(gap, slot)
        if kind in ("reserve", "come back", "sleep", "release"):
            return Reserve(gap, 2, 0.97, 60.0, slot)
        made: dict[str, Operation[Any]] = {
            "slow down": SlowDown(0.5, figure, self.granted.epoch),
            "limit": SlowDown(0.5, figure),
            "exhaust": ExhaustQuota(figure),
            "restore": RestoreQuota(),
            "delayed": Delayed(self.granted.at, figure),
        }
        return made[kind]

    def hear(self, answer: Any) -> None:
        if isinstance(answer, Slot):
            self.slots.append(answer)
        self.granted = answer if isinstance(answer, Granted) else self.granted


def check_against_python(store: RateStore, fake: FakeClock, steps: list[tuple[float, str, float]]) -> None:
    """Apply operations to a store and to a schedule in Python, and compare the answers."""
    name = Key(store, fake).name
    schedule: Schedule | None = None
    caller = Caller()
    for pause, kind, figure in steps:
        fake.wait(pause)
        if kind == "sleep" and caller.slots:
            fake.seconds = max(fake.seconds, caller.slots[0].due)
        operation = caller.operation(kind, figure)
        schedule, expected = applied(operation, schedule, fake.seconds, 1.0)
        assert store.apply(name, operation, 1.0) == expected
        caller.hear(expected)
    store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(steps=st.lists(operations(), min_size=1, max_size=30))
def test_redis_says_the_same_as_python(redis_server: RedisServer, steps: list[tuple[float, str, float]]) -> None:
    fake = FakeClock(seconds=1_800_000_000.0)
    check_against_python(ClockedRedisStore(redis_server, fake), fake, steps)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(steps=st.lists(operations(), min_size=1, max_size=30))
def test_sqlite_says_the_same_as_python(tmp_path: Path, steps: list[tuple[float, str, float]]) -> None:
    fake = FakeClock(seconds=1_800_000_000.0)
    check_against_python(sqlite_store(tmp_path / "same.db", fake), fake, steps)


def test_threads_get_different_slots(key: Key) -> None:
    following, positions = Reserve(1_000.0, 1, 900.0, 1e9), list[float]()
    # In memory, the first one is granted at once.
    key.store.apply(key.name, following, 60.0)

    def take() -> None:
        for _ in range(25):
            answer = key.store.apply(key.name, following, 60.0)
            assert isinstance(answer, Slot)
            positions.append(answer.position)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(set(positions)) == 100
