"""Times in ISO 8601: those of any writer are one time in UTC, and anything else is none."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_mediaops.iso_times import read_iso_time

NOON = datetime(2026, 11, 16, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-16T12:00:00+00:00",
        "2026-11-16T12:00:00Z",
        "2026-11-16T12:00:00.000z",
        "2026-11-16 14:00:00+02:00",
        " 2026-11-16T12:00 ",
    ],
)
def test_a_time_is_read_in_utc(text: str) -> None:
    found = read_iso_time(text)
    assert found == NOON
    assert found.tzinfo is timezone.utc


@pytest.mark.parametrize(
    "text", [None, 5, "", "Z", "soon", "2026-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59"]
)
def test_anything_else_is_none(text: Any) -> None:
    assert read_iso_time(text) is None
