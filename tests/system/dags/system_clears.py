"""Exports that are cleared; each asks a platform of its own."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]

with DAG(
    dag_id="system_clears",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
):
    for name, deferrable in (("export_finished", True), ("export_out_of_quota", False)):
        ExportSubscriptionsOperator(
            task_id=name,
            destination=f"{OUTPUT}/clears/{name}.jsonl",
            mine=True,
            deferrable=deferrable,
            video_conn_id=f"to_{name}",
        )
