"""The default connections of the three services, set by a test; and pauses without a wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.http.rate_limit.backends import backend_at
from tests.unit import book_database, search_cluster, video_platform
from tests.unit.hooks import cluster_hook, video_hook

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

#: The address of the default connection of the book database.
BOOKS = "https://books.example/premium"


def _connecting(service: str, host: str, connection: Callable[..., str]) -> Any:
    @pytest.fixture
    def connect(supervisor: Supervisor) -> Callable[..., None]:
        """Set the default connection of a service; it is set at first to one that works."""

        def set_connection(host: str = host, **fields: Any) -> None:
            supervisor.connect(f"mediaops_{service}_default", connection(host, **fields))

        set_connection()
        return set_connection

    return connect


connect_video = _connecting("video", video_hook.BASE, video_platform.connection)
connect_cluster = _connecting("cluster", cluster_hook.BASE, search_cluster.connection)
connect_books = _connecting("books", BOOKS, book_database.connection)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the pauses that are asked for, without waiting for them."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    # The key's schedule takes the time for passed.
    now = time.monotonic
    monkeypatch.setattr(backend_at("memory://"), "_clock", lambda: now() + sum(slept))
    return slept
