"""A client of the book database that no network is behind."""

from __future__ import annotations

from typing import Any

from airflow_provider_mediaops.books.api import BOOK_RULES
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import FakeClock


def client(*, tries: int = 1, clock: FakeClock | None = None, **more: Any) -> Client:
    """Make a client whose time stands still."""
    policy, times = RetryPolicy(max_attempts=tries), clock or FakeClock()
    return Client(("https://books.example",), BOOK_RULES, retry=policy, clock=times.clock, **more)
