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


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3599, "59 min"), (7920, "2 h 12 min")]
)
def test_a_time_is_written_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text
