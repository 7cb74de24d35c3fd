"""The period of a digest, and the one before."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.digest.period import Period, check_period, read_period
from airflow_provider_mediaops.exceptions import InvalidArgumentError

NOW = datetime(2026, 11, 23, 6, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("time", "place"), [(99, "outside"), (100, "before"), (149, "before"), (150, "now"), (199, "now"), (200, "outside")]
)
def test_the_period_before_is_as_long(time: float, place: str) -> None:
    assert Period(150, 200).place_of(time) == place


def test_a_time_that_is_not_certain_is_outside_only_if_it_certainly_is() -> None:
    period = Period(150, 200)
    assert [period.place_of(time, 10) for time in (89, 91, 209, 211)] == ["outside", "before", "now", "outside"]


def test_without_a_beginning_there_is_no_period_before() -> None:
    assert Period(None, 200).before is None
    assert [Period(None, 200).place_of(time) for time in (-1e9, 199, 200)] == ["now", "now", "outside"]
    assert Period().place_of(0) == "now"


@pytest.mark.parametrize(
    "since",
    [
        "2026-11-16",
        "2026-11-16T00:00:00+00:00",
        "2026-11-16T00:00:00Z",
        "2026-11-16 01:00:00+01:00",
        datetime(2026, 11, 16),  # noqa: DTZ001 - it is in UTC
    ],
)
def test_a_moment_is_read_as_templates_write_it(since: object) -> None:
    assert read_period(since, None, NOW) == Period(
        NOW.timestamp() - timedelta(days=7, hours=6).total_seconds(), NOW.timestamp()
    )


@pytest.mark.parametrize("since", ["", "None", "yesterday", 5, True, [], "2026-13-01"])
def test_anything_else_is_refused_in_words(since: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^since is a datetime, or the text of one"):
        read_period(since, None, NOW)


@pytest.mark.parametrize(
    ("since", "until"), [("2026-11-16", "2026-11-15"), ("2026-11-16", "2026-11-16"), ("2026-12-01", None)]
)
def test_a_period_that_ends_before_it_begins_is_refused(since: str, until: str | None) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^since .* must be before until"):
        read_period(since, until, NOW)


def test_time_that_is_known_is_checked_early() -> None:
    check_period({"since": None, "until": "2026-11-16"})
    check_period({"since": "2026-11-16"})
    with pytest.raises(InvalidArgumentError, match="must be before"):
        check_period({"since": "2026-11-16", "until": "2026-11-01"})
