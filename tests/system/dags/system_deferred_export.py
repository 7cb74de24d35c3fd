"""Exports of the same subscriptions, in a worker and in the triggerer, each from a platform of its own."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]

# For mistakes of Airflow (apache/airflow#71580).
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=1)}

with DAG(dag_id="system_deferred_export", schedule=None, default_args=RETRIES):
    for name in ("in_worker", "put_off", "restarted"):
        ExportSubscriptionsOperator(
            task_id=name,
            destination=f"{OUTPUT}/deferred_export/{name}.csv",
            mine=True,
            deferrable=name != "in_worker",
            video_conn_id=f"to_{name}",
        )
