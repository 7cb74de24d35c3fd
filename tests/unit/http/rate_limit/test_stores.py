"""SQLite and Redis do with a schedule exactly what its operations do in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.http.rate_limit.schedule import (
    Cooldown,
    Delayed,
    ExhaustQuota,
    Granted,
    Reserve,
    RestoreQuota,
    Slot,
    SlowDown,
    applied,
)
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import ClockedRedisStore, Key, sqlite_store

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.schedule import Operation, Schedule
    from tests.redis_server import RedisServer


def operations() -> st.SearchStrategy[tuple[float, str, Any]]:
    """Give a pause, and what is done after it."""
    seconds = st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.7, 3.0, 40.0, -5.0])
    figure = st.sampled_from([0.0, 0.2, 1.0, 5.0])
    kinds = ["reserve", "come back", "come back", "slow down", "limit", "settle", "close", "reopen", "delayed"]
    return st.tuples(seconds, st.sampled_from(kinds), figure)


class Caller:
    """Makes operations of kinds, with what was answered before."""

    def __init__(self) -> None:
        self.slot: Slot | None = None
        self.go = Granted(0.0, 0.0, 0.0)

    def operation(self, kind: str, figure: float) -> Operation[Any]:
        if kind in ("reserve", "come back"):
            gap = 0.04 if figure == 0.2 else 0.5
            return Reserve(gap, 2, 0.97, self.slot if kind == "come back" else None)
        made: dict[str, Operation[Any]] = {
            "slow down": SlowDown(0.5, figure, self.go.epoch),
            "limit": SlowDown(0.5, figure),
            "settle": Cooldown(figure),
            "close": ExhaustQuota(figure),
            "reopen": RestoreQuota(),
            "delayed": Delayed(self.go.at, figure),
        }
        return made[kind]

    def hear(self, answer: Any) -> None:
        self.slot = answer if isinstance(answer, Slot) else None
        self.go = answer if isinstance(answer, Granted) else self.go


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(steps=st.lists(operations(), min_size=1, max_size=25), quiet=st.sampled_from([0.0, 1.0]))
def test_redis_says_the_same_as_python(
    redis_server: RedisServer, steps: list[tuple[float, str, float]], quiet: float
) -> None:
    fake = FakeClock(seconds=1_800_000_000.0)
    store = ClockedRedisStore(redis_server, fake)
    name = Key(store, fake).name
    schedule: Schedule | None = None
    caller = Caller()
    for pause, kind, figure in steps:
        fake.wait(pause)
        if schedule is None:
            # A server that has not seen the key before waits as if it had lost it.
            schedule, _ = applied(Cooldown(quiet), None, fake.seconds, quiet)
        operation = caller.operation(kind, figure)
        schedule, expected = applied(operation, schedule, fake.seconds, quiet)
        assert store.apply(name, operation, quiet) == expected
        caller.hear(expected)
    store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(steps=st.lists(operations(), min_size=1, max_size=25))
def test_sqlite_says_the_same_as_python(tmp_path: Path, steps: list[tuple[float, str, float]]) -> None:
    fake = FakeClock(seconds=1_800_000_000.0)
    store = sqlite_store(tmp_path / "same.db", fake)
    name = Key(store, fake).name
    schedule: Schedule | None = None
    caller = Caller()
    for pause, kind, figure in steps:
        fake.wait(pause)
        operation = caller.operation(kind, figure)
        schedule, expected = applied(operation, schedule, fake.seconds, 1.0)
        assert store.apply(name, operation, 1.0) == expected
        caller.hear(expected)
    store.close()
