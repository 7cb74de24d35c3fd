"""A sandbox of the three services with connections to it, and an Airflow that knows no other."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Iterator

import pytest

from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings

# What one process of Airflow writes into the database, encrypted, another has to read.
os.environ.setdefault("AIRFLOW__CORE__FERNET_KEY", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
# `dag.test()` writes a DAG down once more if half a minute has passed, and, as it reads it from elsewhere, as another
# version. On a busy machine, a DAG that is run twice would have two of them, of which SQLAlchemy warns.
os.environ["AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL"] = "86400"


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    """A sandbox whose connections are Airflow's; its kinds are not the default, so that field has to arrive as well."""
    settings = Settings(kind_prefix="sandbox", cpu_cycle=16, subscriptions=120)
    with SandboxServer(settings=settings) as server:
        for name, connection in server.connections().items():
            monkeypatch.setenv(name, connection)
        yield server
