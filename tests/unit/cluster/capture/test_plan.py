"""The plan of a capture at detection, and why and for whom a capture was taken: refused, read, kept for a trigger."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
from airflow_provider_mediaops.cluster.capture.reason import TakenFor, cause_of, reason_of
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.cluster.query import HotThreadsQuery


def plan(**fields: Any) -> CapturePlan:
    return CapturePlan(**{"query": HotThreadsQuery(), "watch": CpuWatch(85), "poll_interval": 30, **fields})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"poll_interval": float("inf")}, "poll_interval"),
        ({"every": -1}, "every"),
        ({"every": float("nan")}, "every"),
        ({"captures": 51}, "captures"),
        ({"captures": True}, "captures"),
        ({"captures": 1.5}, "captures"),
    ],
)
def test_plan_that_can_never_be_is_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word} "):
        plan(**fields)


@pytest.mark.parametrize("watch", [None, CpuWatch(85, sustained_for=60, nodes=["a"], require="all")])
def test_plan_is_made_again_of_plain_values(watch: CpuWatch | None) -> None:
    planned = plan(query=HotThreadsQuery(["a"], type="wait"), watch=watch, captures=3, on_timeout="capture")
    again = CapturePlan.from_dict(json.loads(json.dumps(planned.to_dict())))
    assert again == planned


def test_plan_knows_the_time_that_its_captures_may_take() -> None:
    planned = plan(query=HotThreadsQuery(), captures=3, every=10)
    assert planned.seconds == 3 * (10 + HotThreadsQuery().read_timeout)
    assert replace(planned, captures=1).seconds < planned.seconds


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
def test_cause_of_a_capture_is_said_in_words_and_in_one(
    watch: CpuWatch | None, *, timed_out: bool, reason: str, cause: str
) -> None:
    assert cause_of(watch, timed_out=timed_out) == cause
    assert reason_of(watch, timed_out=timed_out) == reason


def test_task_of_a_capture_is_read_from_its_context() -> None:
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
