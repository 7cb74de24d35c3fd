"""Why a capture was taken, and for which task attempt: read from what Airflow gives, and kept through a trigger."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider_mediaops.cluster.capture.reason import TakenFor, cause_of, reason_of
from airflow_provider_mediaops.cluster.cpu import CpuWatch


@pytest.mark.parametrize(
    ("watch", "timed_out", "reason", "cause"),
    [
        (None, False, "at_once", "at once, without waiting for high CPU"),
        (CpuWatch(85), False, "spike", "CPU ≥ 85 %, any of the watched nodes"),
        (CpuWatch(92.5, 20, require="all"), False, "spike", "CPU ≥ 92.5 % for 20 s, all of the watched nodes"),
        (
            CpuWatch(85, 20),
            True,
            "time_limit",
            "at the time limit of the wait; not seen: CPU ≥ 85 % for 20 s, any of the watched nodes",
        ),
    ],
)
def test_the_cause_is_said_in_words_and_in_one(
    watch: CpuWatch | None, *, timed_out: bool, reason: str, cause: str
) -> None:
    assert cause_of(watch, timed_out=timed_out) == cause
    assert reason_of(watch, timed_out=timed_out) == reason


def test_the_task_is_read_from_its_context() -> None:
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=2, map_index=0)
    assert TakenFor.from_context({"ti": ti}) == TakenFor("d", "r", "t", 2, 0)
    ti.map_index = -1
    assert TakenFor.from_context({"ti": ti}).map_index is None


def test_capture_of_a_dag_callback_is_not_for_the_task_that_ended_last() -> None:
    context = {
        "ti": SimpleNamespace(dag_id="d", run_id="r", task_id="last", try_number=2, map_index=0),
        "dag": SimpleNamespace(dag_id="d"),
        "run_id": "r",
        "reason": "task_failure",
    }
    assert TakenFor.from_context(context) == TakenFor("d", "r")
    assert TakenFor.from_context({**context, "dag_run": SimpleNamespace(dag_id="d")}) == TakenFor("d", "r")


def test_capture_without_any_context_is_for_nobody() -> None:
    assert TakenFor.from_context({}) == TakenFor()
