"""What an export logs, the digest that tells whether its content has changed, and the waits in the triggerer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import QuotaExceededError, ServiceUnavailableError, TemporaryError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Emit, Response, Returned, advance
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from airflow_provider_mediaops.video.export import Export, ExportAttempt, LongWaits, content_digest
from tests.unit.call_flows import FakeClock
from tests.unit.video_platform import page_reply, subscription


class Staged:
    """The staging of an export; to save a page takes a second."""

    def __init__(self, clock: FakeClock, rows: int = 0, state: dict[str, Any] | None = None) -> None:
        self._clock = clock
        self.rows, self.state = rows, state

    def records(self) -> Iterator[Mapping[str, Any]]:
        return map(subscription, range(-self.rows, 0))

    def commit(self, records: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> None:
        self._clock.wait(1.0)
        self.rows += len(records)


def lines_of(staging: Any, fake: FakeClock, query: SubscriptionQuery, replies: list[Response]) -> list[str]:
    """Export what the replies hold, and return what is logged."""
    lines = list[str]()
    export = Export(owner={}, destination="/out/a.csv", query=asdict(query))
    attempt = ExportAttempt(export, staging, lines.append, lines.append, clock=fake.clock.monotonic)
    pages = attempt.pages(Client(("http://video",), VIDEO_RULES))
    step = advance(pages)
    while not isinstance(step, Returned):
        if isinstance(step, Emit):
            item: Any = step.item
            attempt.save(item)
            step = advance(pages)
        else:
            step = advance(pages, replies.pop(0))
    return lines


@pytest.mark.parametrize(
    ("filter_", "whose"),
    [
        ({"channel_id": "UC1"}, "the subscriptions of channel UC1"),
        ({"ids": "a,b"}, "2 subscriptions by their ids"),
        ({"mine": True}, "the subscriptions of the authorised user"),
    ],
)
def test_the_first_line_says_what_is_exported_how_and_from_where(filter_: dict[str, Any], whose: str) -> None:
    fake = FakeClock()
    lines = lines_of(Staged(fake), fake, SubscriptionQuery(**filter_, max_results=7), [page_reply(1)])
    assert lines == [f"Exporting {whose} to /out/a.csv: pages of 7, no rate set, from the start."]


def test_progress_is_logged_every_30_seconds() -> None:
    fake = FakeClock()
    state = {"token": "T40", "pages": 40, "duplicates": 0, "restarts": 0, "ended": False, "complete": True}
    replies = [page_reply(*range(50 * page, 50 * page + 50), token=f"T{41 + page}") for page in range(124)]
    replies.append(page_reply(6_200))

    lines = lines_of(Staged(fake, 2_000, state), fake, SubscriptionQuery(mine=True, max_results=50), replies)

    assert lines[0].endswith(": pages of 50, no rate set, resumed after 2,000 subscriptions of 40 pages.")
    assert lines[1:] == [
        "3,500 subscriptions of 70 pages so far; 50 a second.",
        "5,000 subscriptions of 100 pages so far; 50 a second.",
        "6,500 subscriptions of 130 pages so far; 50 a second.",
        "8,000 subscriptions of 160 pages so far; 50 a second.",
    ]


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
