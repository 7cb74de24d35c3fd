"""The waits of a task that holds no worker slot."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.exceptions import (
    InvalidReplyError,
    MediaOpsError,
    QuotaExceededError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.video.long_waits import LongWaits
from tests.unit.call_flows import FakeClock

DAY = 86_400


@pytest.mark.parametrize(("asked", "extra"), [(36_000.0, 60.0), (60.0, 6.0), (0.5, 0.05)])
def test_long_wait_ends_a_little_after_the_time_that_the_service_named(asked: float, extra: float) -> None:
    fake = FakeClock(share=0.0)
    error = QuotaExceededError("spent", retry_after=asked)
    assert LongWaits(fake.clock).pause_after(error, progressed=False) == asked + extra / 2
    fake.share = 1.0
    assert LongWaits(fake.clock).pause_after(error, progressed=True) == asked + extra


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailableError("down"),
        ServiceUnavailableError("down", retry_after=0.0),
        InvalidReplyError("odd", retry_after=5.0),
    ],
)
def test_error_that_names_no_time_or_does_not_pass_is_not_waited_for(error: MediaOpsError) -> None:
    assert LongWaits(FakeClock().clock).pause_after(error, progressed=True) is None


def test_service_after_waits_without_progress_is_asked_sooner_and_then_no_more() -> None:
    waits = LongWaits(FakeClock(share=0.0).clock)
    error = QuotaExceededError("spent", retry_after=DAY)
    pauses = [waits.pause_after(error, progressed=False) for _ in range(5)]
    assert pauses == [DAY + 30, 930.0, 3_630.0, 14_430.0, None]


def test_wait_after_progress_is_a_first_one() -> None:
    waits = LongWaits(FakeClock(share=0.0).clock)
    error = QuotaExceededError("spent", retry_after=DAY)
    progress = [False, False, True, False, True, True]
    pauses = [waits.pause_after(error, progressed=each) for each in progress]
    assert pauses == [DAY + 30, 930.0, DAY + 30, 930.0, DAY + 30, DAY + 30]
