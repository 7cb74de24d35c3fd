"""Fields of a connection to a cluster, and the error for one that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.connection_fields import CLUSTER
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.connection import ConnectionFields


def fields(**given: Any) -> ConnectionFields:
    return ConnectionFields("c1", **given, conn_type=CLUSTER)


def extra(**given: Any) -> ConnectionFields:
    return ConnectionFields("c1", extra=given, conn_type=CLUSTER)


def wrong(name: str) -> Any:
    return pytest.raises(InvalidConnectionError, match=f"^Connection 'c1', field '{name}': ")
