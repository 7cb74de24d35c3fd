from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.enrichment.progress import STATUSES, Progress
from tests.unit.call_flows import FakeClock

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Status


def count(progress: Progress, clock: FakeClock, statuses: list[Status], *, seconds: float) -> None:
    for status in statuses:
        progress.count(status)
        progress.log_if_due()
        clock.wait(seconds)


def test_progress_is_logged_every_thirty_seconds() -> None:
    clock, logged = FakeClock(), list[str]()
    progress = Progress(200, log=logged.append, clock=clock.clock.monotonic)
    counts: dict[Status, int] = {"found": 61, "not_found": 20, "missing": 0, "invalid": 15, "failed": 5}

    count(progress, clock, [status for status, count in counts.items() for _ in range(count)], seconds=0.5)

    assert logged == [
        "61 of 200 ISBNs: 61 found, 0 not found, 0 invalid, 0 failed; 2.0 a second, 1 min left.",
    ]
    assert {status: progress.figures[status] for status in STATUSES} == {**counts, "not_asked": 0}
    assert progress.rows == 101


def test_progress_while_nothing_is_done_is_a_warning_that_repeats_the_cause() -> None:
    clock, logged, warned = FakeClock(), list[str](), list[str]()
    progress = Progress(9, log=logged.append, clock=clock.clock.monotonic, warn=warned.append)

    for trouble, is_done in (
        (None, True),
        ("503 of A.", False),
        ("503 of B.", False),
        ("503 of C.", True),
        (None, False),
    ):
        clock.wait(30)
        if is_done:
            progress.count("found")
        progress.log_if_due(trouble)

    assert [line.partition(":")[0] for line in logged] == ["1 of 9 ISBNs", "2 of 9 ISBNs", "2 of 9 ISBNs"]
    assert [line.partition("left. ")[2] for line in warned] == [
        "Nothing was done in the last 30 s: 503 of A.",
        "Nothing was done in the last 30 s: 503 of B.",
    ]


@pytest.mark.parametrize(
    ("total", "done", "line"),
    [
        (9, 9, "9 of 9 ISBNs: 9 found, 0 not found, 0 invalid, 0 failed; 1.0 a second."),
        (0, 0, "0 of 0 ISBNs: 0 found, 0 not found, 0 invalid, 0 failed; 0.0 a second."),
        (
            9120,
            1200,
            "1,200 of 9,120 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second, 2 h 12 min left.",
        ),
    ],
)
def test_the_line_says_how_far_how_fast_and_how_long(total: int, done: int, line: str) -> None:
    clock = FakeClock()
    progress = Progress(total, clock=clock.clock.monotonic)
    count(progress, clock, ["found"] * done, seconds=1)

    assert progress.line() == line
