from __future__ import annotations

import pytest

from airflow_provider_mediaops.progress import ProgressLog, duration
from tests.unit.call_flows import FakeClock


def test_a_line_is_logged_every_thirty_seconds() -> None:
    clock, logged = FakeClock(), list[str]()
    progress = ProgressLog(logged.append, clock.clock.monotonic)

    for _ in range(13):
        progress.count(10)
        progress.log_if_due(lambda: f"{progress.rows} rows, {progress.per_second:.1f} a second")
        clock.wait(5.0)

    assert logged == ["70 rows, 2.3 a second", "130 rows, 2.2 a second"]


def test_a_short_task_logs_no_progress() -> None:
    clock, logged = FakeClock(), list[str]()
    progress = ProgressLog(logged.append, clock.clock.monotonic)
    clock.wait(29.0)
    progress.log_if_due(lambda: "too soon")

    assert logged == []
    assert progress.per_second == 0


def test_line_while_nothing_is_done_is_a_warning_that_repeats_the_cause() -> None:
    clock, logged, warned = FakeClock(), list[str](), list[str]()
    progress = ProgressLog(logged.append, clock.clock.monotonic, warned.append)

    for trouble, is_done in (
        (None, True),
        ("503 of A.", False),
        ("503 of B.", False),
        ("503 of C.", True),
        (None, False),
    ):
        clock.wait(30)
        progress.count(is_done)
        progress.log_if_due(lambda: f"{progress.rows} rows.", trouble)

    assert logged == ["1 rows.", "2 rows.", "2 rows."]
    assert warned == [f"1 rows. Nothing was done in the last 30 s: 503 of {cause}." for cause in ("A", "B")]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3599, "59 min"), (7920, "2 h 12 min")]
)
def test_a_time_is_written_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text
