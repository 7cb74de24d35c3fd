"""The two transports, behind one face: every test of theirs runs on both, so that they cannot drift apart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http import timed_connections
from airflow_provider_mediaops.http.async_transport import AsyncTransport
from airflow_provider_mediaops.http.sync_transport import SyncTransport
from tests.redis_server import PROGRAM, running_redis
from tests.unit.http.sending import MovedClock
from tests.unit.loopback import make_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.http.transport_settings import TransportSettings
    from tests.redis_server import RedisServer
    from tests.unit.http.sending import Open, Send


@pytest.fixture
def clock() -> MovedClock:
    """Return the clock by which the opened transports keep their deadlines."""
    return MovedClock()


@pytest.fixture(params=["requests", "httpx"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, clock: MovedClock) -> Iterator[Open]:
    """Open a transport, which is closed after the test."""
    loop = asyncio.new_event_loop()
    loop.time = clock.monotonic  # type: ignore[method-assign]
    monkeypatch.setattr(timed_connections, "time", clock)
    sync: list[SyncTransport] = []
    asynchronous: list[AsyncTransport] = []

    def open_sync(settings: TransportSettings) -> Send:
        sync.append(SyncTransport(settings))
        return sync[-1].send

    def open_async(settings: TransportSettings) -> Send:
        transport = AsyncTransport(settings)
        asynchronous.append(transport)
        return lambda sent: loop.run_until_complete(transport.send(sent))

    yield open_sync if request.param == "requests" else open_async
    for each in sync:
        each.close()
    for transport in asynchronous:
        loop.run_until_complete(transport.aclose())
    loop.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis that nothing has been written to."""
    if not PROGRAM:
        pytest.skip("no Redis: Debian's package redis-server is not installed")
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server
