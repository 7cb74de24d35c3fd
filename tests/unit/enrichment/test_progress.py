from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.enrichment.progress import Progress
from tests.unit.conversations import FakeClock

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Status


def followed(progress: Progress, clock: FakeClock, statuses: list[Status], *, seconds: float) -> list[str]:
    told: list[str] = []
    for status in statuses:
        progress.count(status)
        if progress.is_due():
            told.append(progress.line())
        clock.wait(seconds)
    return told


def test_progress_is_told_every_thirty_seconds() -> None:
    clock = FakeClock()
    progress = Progress(200, clock=clock.clock.monotonic)
    counts: dict[Status, int] = {"found": 61, "not_found": 20, "invalid": 15, "failed": 5}
    statuses = [status for status, count in counts.items() for _ in range(count)]

    told = followed(progress, clock, statuses, seconds=0.5)

    assert told == [
        "61 of 200 ISBNs: 61 found, 0 not found, 0 invalid, 0 failed; 2.0 a second, 1 min left.",
    ]
    assert progress.counts == counts
    assert progress.rows == 101


def test_a_short_run_tells_nothing_on_the_way() -> None:
    clock = FakeClock()

    assert followed(Progress(clock=clock.clock.monotonic), clock, ["found"] * 29, seconds=1) == []


def test_an_attempt_that_goes_on_counts_on_but_its_rate_is_its_own() -> None:
    clock = FakeClock()
    progress = Progress(1_100, {"found": 900, "failed": 100}, clock=clock.clock.monotonic)
    followed(progress, clock, ["found"] * 10, seconds=1)

    assert progress.line() == (
        "1,010 of 1,100 ISBNs: 910 found, 0 not found, 0 invalid, 100 failed; 1.0 a second, 1 min left."
    )


@pytest.mark.parametrize(
    ("total", "done", "line"),
    [
        (None, 1200, "1,200 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second."),
        (9, 9, "9 of 9 ISBNs: 9 found, 0 not found, 0 invalid, 0 failed; 1.0 a second."),
        (9, 0, "0 of 9 ISBNs: 0 found, 0 not found, 0 invalid, 0 failed; 0.0 a second."),
        (0, 0, "0 of 0 ISBNs: 0 found, 0 not found, 0 invalid, 0 failed; 0.0 a second."),
        (1230, 1200, "1,200 of 1,230 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second, 30 s left."),
        (
            9120,
            1200,
            "1,200 of 9,120 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second, 2 h 12 min left.",
        ),
    ],
)
def test_the_line_says_how_far_how_fast_and_how_long(total: int | None, done: int, line: str) -> None:
    clock = FakeClock()
    progress = Progress(total, clock=clock.clock.monotonic)
    followed(progress, clock, ["found"] * done, seconds=1)

    assert progress.line() == line
