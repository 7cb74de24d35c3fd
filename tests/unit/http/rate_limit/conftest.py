"""A back end of each kind, and a Redis of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.rate_limit.backends import MemoryBackend, RateBackend, SqliteBackend
from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend
from tests.redis_server import PROGRAM, running_redis

if TYPE_CHECKING:
    from tests.redis_server import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    if not PROGRAM:
        pytest.skip("no Redis: Debian's package redis-server is not installed")
    with running_redis(tmp_path) as running:
        yield running


@pytest.fixture(params=["memory", "sqlite", "redis"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> RateBackend:
    """An empty back end of each kind."""
    if request.param == "memory":
        return MemoryBackend()
    if request.param == "sqlite":
        return SqliteBackend(tmp_path / "folder" / "rates.db", busy_seconds=240.0)
    return RedisBackend(f"{request.getfixturevalue('server').url}?socket_timeout=240")
