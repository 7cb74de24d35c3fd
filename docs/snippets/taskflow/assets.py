"""Start a DAG whenever another has written an export, and read what the event says of it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, dag, task

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator

SUBSCRIPTIONS = Asset("subscriptions")


@dag(schedule="@daily", default_args={"retries": 3}, params={"folder": "s3://aws_default@exports"})
def export_subscriptions() -> None:
    """Export the subscriptions each day."""
    ExportSubscriptionsOperator(
        task_id="export",
        mine=True,
        destination="{{ params.folder }}/{{ run_id }}/subscriptions.jsonl",
        outlets=[SUBSCRIPTIONS],
    )


@task.short_circuit
def is_complete(triggering_asset_events: Any = None) -> bool:
    """Go on only if the service listed all subscriptions."""
    return all(event.extra["complete"] for event in triggering_asset_events[SUBSCRIPTIONS])


@dag(schedule=[SUBSCRIPTIONS], default_args={"retries": 3})
def announce_subscriptions() -> None:
    """Post a bulletin after each export."""
    is_complete() >> PostBulletinOperator(task_id="post", text="Our list of channels is up to date.")


export_subscriptions()
announce_subscriptions()
