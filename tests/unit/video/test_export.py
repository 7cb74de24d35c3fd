"""The digest that tells whether the content of an export has changed, and the waits in the triggerer."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.exceptions import QuotaExceededError, ServiceUnavailableError, TemporaryError
from airflow_provider_mediaops.video.export import LongWaits, content_digest
from tests.unit.call_flows import FakeClock
from tests.unit.video_platform import subscription


def test_other_fields_count_in_the_digest_only_where_there_is_no_etag() -> None:
    assert content_digest([subscription(1, etag="e")]) == content_digest([subscription(1, etag="e", more=1)])
    assert content_digest([subscription(1)]) != content_digest([subscription(1, more=1)])
    assert content_digest([{"etag": "e", "n": 1}]) != content_digest([{"etag": "e", "n": 2}])


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
    ],
)
def test_error_that_names_no_time_is_not_waited_for(error: TemporaryError) -> None:
    assert LongWaits(FakeClock().clock).pause_after(error, progressed=True) is None


@pytest.mark.parametrize(
    ("progress", "pauses"),
    [
        ([False] * 5, [DAY + 30, 930.0, 3_630.0, 14_430.0, None]),
        ([False, False, True, False, True, True], [DAY + 30, 930.0, DAY + 30, 930.0, DAY + 30, DAY + 30]),
    ],
)
def test_service_is_asked_sooner_after_waits_without_progress_and_in_the_end_no_more(
    progress: list[bool], pauses: list[float | None]
) -> None:
    waits = LongWaits(FakeClock(share=0.0).clock)
    error = QuotaExceededError("spent", retry_after=DAY)
    assert [waits.pause_after(error, progressed=each) for each in progress] == pauses
