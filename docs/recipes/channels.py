"""Export several channels, each in a task of its own, and report on all of them even if some fail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

EXPORTED = Asset("exported-channels")

with DAG(
    dag_id="channels",
    schedule="@daily",
    max_active_runs=1,
    max_active_tasks=4,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    params={"folder": "s3://aws_default@exports/channels", "channels": ["UCsandbox-mine", "UCsandbox-few"]},
):

    @task
    def channels(params: dict[str, Any]) -> list[str]:
        """Return the channels; a query of your own database could stand here."""
        return list(params["channels"])

    export = ExportSubscriptionsOperator.partial(
        task_id="export",
        destination="{{ params.folder }}/{{ task.channel_id }}.parquet",
        if_changed=True,
    ).expand(channel_id=channels())

    # As an outlet of the mapped task, the asset would start the DAGs that wait for it once for each channel.
    @task(trigger_rule="all_done", outlets=[EXPORTED])
    def report(results: list[dict[str, Any]]) -> dict[str, int]:
        """Count; a channel that failed has no result. Its task stays failed, and so does the run."""
        return {
            "channels": len(results),
            "subscriptions": sum(result["rows"] for result in results),
            "changed": sum(result["changed"] for result in results),
        }

    report(export.output)
