"""Exports that are marked as failed or cleared while they work; each asks a platform of its own."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]

with DAG(
    dag_id="system_stops",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
):
    for name in ("stopped", "cleared", "stopped_deferred"):
        ExportSubscriptionsOperator(
            task_id=name,
            destination=f"{OUTPUT}/stops/{name}.jsonl",
            mine=True,
            deferrable=name == "stopped_deferred",
            video_conn_id=f"to_{name}",
        )
