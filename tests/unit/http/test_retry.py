from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import ServiceUnavailableError
from airflow_provider_mediaops.http.retry import RetryPolicy, retry_after_seconds
from tests.unit.call_flows import START, FakeClock

DAY = 86_400
DOWN = ServiceUnavailableError("down")


def test_pauses_double_up_to_a_cap() -> None:
    fake = FakeClock()
    attempts = RetryPolicy(max_attempts=9, max_wait=1e9, base_seconds=0.5, cap_seconds=10.0).start(fake.clock)
    pauses = [attempts.pause_after(DOWN) for _ in range(9)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, None]
    # Full jitter: each was drawn from nothing at all up to its bound.
    assert [low for low, _ in fake.drawn] == [0.0] * 8


def test_the_exponent_does_not_overflow() -> None:
    attempts = RetryPolicy(max_attempts=5_000, max_wait=1e9).start(FakeClock().clock)
    assert [attempts.pause_after(DOWN) for _ in range(3_000)][-1] == 30.0


def http_date(seconds: float) -> str:
    return format_datetime(START + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("9" * 400, DAY),
        (http_date(90), 90.0),
        (http_date(-90), 0.0),
        (http_date(DAY * 5), DAY),
        ("Sat, 14 Mar 2026 20:00:30 -0000", 30.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("inf", None),
        ("1e3", None),
        ("\u0661\u0662", None),
        ("Sat, 14 Mar 99999 20:00:30 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after_seconds({"retry-after": value}, START) == seconds


def test_a_date_is_measured_against_the_replys_own_date() -> None:
    # The service's clock is an hour ahead of ours.
    headers = {"retry-after": http_date(3_630), "date": http_date(3_600)}
    assert retry_after_seconds(headers, START) == 30.0
    assert retry_after_seconds({**headers, "date": "nonsense"}, START) == 3_630.0


DATE_LIKE = st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d+:\d+:\d+ .{0,8}\Z")


@pytest.mark.long
@given(value=st.text() | DATE_LIKE, date=st.text() | DATE_LIKE)
@example(value="0 MAY 0 0:10000000000 0", date="")
def test_any_text_is_seconds_within_a_day_or_nothing(value: str, date: str) -> None:
    seconds = retry_after_seconds({"retry-after": value, "date": date}, START)
    assert seconds is None or 0.0 <= seconds <= DAY
