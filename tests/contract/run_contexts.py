"""What templates see in each kind of run: the context that Airflow's task runner makes of the server's answer."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

RUN_AFTER = datetime(2026, 11, 22, 9, 30, tzinfo=timezone.utc)
# The run's type, and its logical date: people and assets start runs without one.
KINDS = {"manual": None, "scheduled": RUN_AFTER, "asset_triggered": None}


def context_of(task: BaseOperator, kind: str, **conf: Any) -> Context:
    """Return the context of a task in a run of one of `KINDS`, with this configuration of the run."""
    logical_date = KINDS[kind]
    run_id = f"{kind}__{RUN_AFTER.isoformat()}"
    run: dict[str, Any] = {
        "dag_id": task.dag_id,
        "run_id": run_id,
        "logical_date": logical_date,
        "data_interval_start": logical_date,
        "data_interval_end": logical_date,
        "run_after": RUN_AFTER,
        "start_date": RUN_AFTER,
        "end_date": None,
        "run_type": kind,
        "state": "running",
        "conf": conf,
        "consumed_asset_events": [],
    }
    if "partition_key" in DagRun.model_fields:  # Airflow 3.2
        run["partition_key"] = None
    known: dict[str, Any] = {
        "id": uuid.uuid4(),
        "task": task,
        "task_id": task.task_id,
        "dag_id": task.dag_id,
        "run_id": run_id,
        "try_number": 1,
        "map_index": -1,
        "_ti_context_from_server": TIRunContext.model_validate({"dag_run": run, "max_tries": 0}),
    }
    instance = RuntimeTaskInstance.model_construct(**known)
    return cast("Context", instance.get_template_context())
