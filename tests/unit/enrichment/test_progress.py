from __future__ import annotations

import pytest

from airflow_provider_mediaops.enrichment.progress import Progress
from airflow_provider_mediaops.progress import ProgressLog
from tests.unit.call_flows import FakeClock


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
    progress = Progress(total, {}, ProgressLog(print, clock.clock.monotonic))
    for _ in range(done):
        progress.count("found")
        clock.wait(1)

    assert progress.line() == line
