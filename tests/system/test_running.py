"""Which tries of a task are Airflow's mistakes, by its log of events."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tests.system.running import mistaken_ends

SUCCESS = "The executor reported that the task finished with state success, but its state attribute is queued."
FAILED = SUCCESS.replace("success", "failed")


@pytest.mark.parametrize(
    ("events", "mistaken_tries"),
    [
        (["running", "deferred", SUCCESS], [2]),
        (["running", "up_for_reschedule", "running", SUCCESS], [2]),
        (["running", "deferred", "running", "failed"], []),
        (["running", "deferred", "running", FAILED], []),
        # Its process was killed.
        (["running", SUCCESS], []),
    ],
)
def test_a_try_that_was_paused_and_whose_process_succeeded_is_taken_for_ended_by_mistake(
    events: list[str], mistaken_tries: list[int]
) -> None:
    said = [
        {
            "event": "state mismatch" if event in (SUCCESS, FAILED) else event,
            "extra": event,
            "try_number": 2,
            "when": f"2026-11-27T05:00:0{second}Z",
        }
        for second, event in enumerate(events)
    ]
    # An earlier try was paused, too.
    earlier = {"event": "deferred", "extra": None, "try_number": 1, "when": "2026-11-27T04:00:00Z"}

    last = datetime(2026, 11, 27, 5, 0, len(events) - 1, tzinfo=timezone.utc)
    assert mistaken_ends([earlier, *said]) == dict.fromkeys(mistaken_tries, last)
