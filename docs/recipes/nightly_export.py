"""Export the subscriptions each night, and post which channels are new; a night without changes is skipped."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, ObjectStoragePath, task

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator

with DAG(
    dag_id="nightly_export",
    schedule="0 2 * * *",
    max_active_runs=1,  # each night is compared with the one before
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    params={"folder": "s3://aws_default@exports/subscriptions"},
):
    export = ExportSubscriptionsOperator(
        task_id="export",
        destination="{{ params.folder }}/subscriptions.jsonl",  # the same each night: the next one is compared with it
        changes="{{ params.folder }}/changes/{{ dag_run.run_after | ds }}.jsonl",
        on_unchanged="skip",  # then the asset has no event, and DAGs that are scheduled on it sleep
        mine=True,
        order="alphabetical",
        outlets=[Asset("subscriptions")],
    )

    @task.short_circuit
    def news(result: dict[str, Any]) -> str:
        """Name the channels that are new; without any, the bulletin is skipped."""
        if not result["compared"]:
            return ""  # the first night: all of them are new
        changes = [json.loads(line) for line in ObjectStoragePath(result["changes"]).read_bytes().splitlines()]
        titles = [each["after"]["snippet"]["title"] for each in changes if each["change"] == "added"]
        more = f" and {len(titles) - 10} more" if len(titles) > 10 else ""
        return f"New: {', '.join(titles[:10])}{more}." if titles else ""

    # The text is that of the first attempt: a retry never posts twice (Airflow 3.3).
    PostBulletinOperator(task_id="post", text=news(export.output))
