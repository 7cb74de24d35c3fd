"""Connections in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put connections into the environment, where there are no others."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)

    def set_connection(conn_id: str, connection: str) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", connection)

    return set_connection
