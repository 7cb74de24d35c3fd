"""The default connections of the three services, set by a test; and pauses without a wait."""

from __future__ import annotations

import json
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


@pytest.fixture
def connect_video(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the default connection of the video platform."""

    def set_connection(host: str = video_hook.BASE, *, login: str = "", **fields: Any) -> None:
        value = {**json.loads(video_platform.connection(host, **fields)), "login": login}
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", json.dumps(value))

    set_connection()
    return set_connection


@pytest.fixture
def connect_cluster(supervisor: Supervisor) -> Callable[..., None]:
    """Set the default connection of the search cluster."""

    def set_connection(host: str = cluster_hook.BASE, **fields: Any) -> None:
        supervisor.connect("mediaops_cluster_default", search_cluster.connection(host, **fields))

    set_connection()
    return set_connection


@pytest.fixture
def connect_books(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the default connection of the book database."""

    def set_connection(host: str = BOOKS, **fields: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", book_database.connection(host, **fields))

    set_connection()
    return set_connection


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the pauses that are asked for, without waiting for them."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    # The key's schedule takes the time for passed.
    now = time.monotonic
    monkeypatch.setattr(backend_at("memory://"), "_clock", lambda: now() + sum(slept))
    return slept
