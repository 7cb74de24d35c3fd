"""The context of each kind of callback, as Airflow was seen to give it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.timezone import coerce_datetime

RUN_ID = "scheduled__2026-03-14T20:00:00+00:00"
LOGICAL_DATE = datetime(2026, 3, 14, 20, tzinfo=timezone.utc)
RUN_AFTER = LOGICAL_DATE + timedelta(days=1)


def of_a_task(**more: Any) -> Any:
    """Give what a worker gives to the callback of a task."""
    return {**of_a_task_whose_worker_was_lost(), "exception": ValueError("no such file"), **more}


def of_a_task_whose_worker_was_lost() -> Any:
    """Give what the DAG processor gives to the callback of a task whose worker has ended without a word."""
    run = SimpleNamespace(
        dag_id="nightly", run_id=RUN_ID, logical_date=LOGICAL_DATE, run_after=RUN_AFTER, conf={"why": "test"}
    )
    ti = SimpleNamespace(dag_id="nightly", run_id=RUN_ID, task_id="load", try_number=2, map_index=-1, max_tries=1)
    return {
        "dag": DAG("nightly", schedule=None),
        "dag_run": run,
        "run_id": RUN_ID,
        "ti": ti,
        "params": {"folder": "/exports"},
        "logical_date": coerce_datetime(LOGICAL_DATE),
        "data_interval_start": coerce_datetime(LOGICAL_DATE),
        "data_interval_end": coerce_datetime(RUN_AFTER),
        "ds": "2026-03-14",
        "ds_nodash": "20260314",
        "ts": "2026-03-14T20:00:00+00:00",
        "ts_nodash": "20260314T200000",
        "ts_nodash_with_tz": "20260314T200000+0000",
    }


def of_a_dag() -> Any:
    """Give what the DAG processor gives to the callback of a DAG: the task is the one that ended last."""
    return {**of_a_task_whose_worker_was_lost(), "reason": "task_failure"}


def of_a_dag_without_tasks() -> Any:
    """Give what the DAG processor gives to the callback of a DAG of whose run no task is known."""
    return {"dag": DAG("nightly", schedule=None), "run_id": RUN_ID, "reason": "success"}


def of_a_deadline(*, run_id: str = RUN_ID, is_manual: bool = False) -> Any:
    """Give what the triggerer and an executor give to a deadline alert; a run by hand may have no logical date."""
    dates = {"logical_date": "2026-03-14T20:00:00Z", "data_interval_start": "2026-03-14T20:00:00Z"}
    dates["data_interval_end"] = "2026-03-15T20:00:00Z"
    run: dict[str, Any] = {
        "dag_run_id": run_id,
        "dag_id": "nightly",
        **(dict.fromkeys(dates) if is_manual else dates),
        "queued_at": "2026-03-15T20:00:00.074132Z",
        "start_date": None,
        "end_date": None,
        "duration": None,
        "run_after": "2026-03-15T20:00:00Z",
        "last_scheduling_decision": None,
        "run_type": "scheduled",
        "state": "running",
        "triggered_by": "timetable",
        "triggering_user_name": None,
        "conf": {"why": "test"},
        "note": None,
        "dag_versions": [],
        "bundle_version": None,
        "dag_display_name": "nightly",
        "partition_key": "eu",
        "partition_date": None,
    }
    return {"dag_run": run, "deadline": {"id": "d-1", "deadline_time": RUN_AFTER + timedelta(hours=1)}}


KINDS: dict[str, Callable[[], Any]] = {
    "task": of_a_task,
    "lost": of_a_task_whose_worker_was_lost,
    "DAG": of_a_dag,
    "no tasks": of_a_dag_without_tasks,
    "deadline": of_a_deadline,
}
