"""A key at each of the stores, on which every test of the schedule runs, and a Redis of a test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from tests.redis_server import PROGRAM, running_redis
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import ClockedRedisStore, Key, memory_store, sqlite_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore
    from tests.redis_server import RedisServer


@pytest.fixture(params=["memory", "sqlite", "redis"])
def key(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Key]:
    """Return an unused key at each of the stores."""
    # Times as they are today, because a store must not lose digits of them.
    fake = FakeClock(seconds=1_800_000_000.125)
    store: RateStore
    if request.param == "memory":
        store = memory_store(fake)
    elif request.param == "sqlite":
        store = sqlite_store(tmp_path / "rates.db", fake)
    else:
        store = ClockedRedisStore(request.getfixturevalue("redis_server"), fake)
    yield Key(store, fake)
    store.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, which writes everything to the disk."""
    if not PROGRAM:
        pytest.skip("no Redis: Debian's package redis-server is not installed")
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as running:
        yield running


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    opened = RedisStore(f"{server.url}?socket_timeout=240")
    yield opened
    opened.close()
