"""Fields of a connection, and the error for one that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.connection.fields import ConnectionFields


def fields(**given: Any) -> ConnectionFields:
    return ConnectionFields("c1", **given)


def extra(**given: Any) -> ConnectionFields:
    return ConnectionFields("c1", extra=given)


def wrong(name: str) -> Any:
    return pytest.raises(InvalidConnectionError, match=f"^Connection 'c1', field '{name}': ")
