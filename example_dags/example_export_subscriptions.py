"""
Wait for a subscription, then export all of them as JSON lines and as a table, into one folder a day.

Needs the connection ``mediaops_video_default``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

# Every run has this date. The shorter {{ ds }} fails in a run that was started by hand or by an asset.
FOLDER = "{{ params.folder }}/{{ dag_run.run_after | ds }}"

with DAG(
    dag_id="mediaops_export_subscriptions",
    schedule=None,
    max_active_runs=1,  # two runs of one day write the same files
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"folder": "s3://aws_default@exports/subscriptions"},
    tags=["mediaops"],
    doc_md=__doc__,
):
    subscribed = SubscriptionSensor(
        task_id="wait_for_a_subscription",
        mine=True,
        poke_interval=300,
        timeout=24 * 3600,
        deferrable=True,  # holds no worker slot while it waits
    )
    records = ExportSubscriptionsOperator(
        task_id="export_records",
        destination=f"{FOLDER}/subscriptions.jsonl",
        mine=True,
        order="alphabetical",  # the one order that stays the same from page to page
    )
    table = ExportSubscriptionsOperator(
        task_id="export_table",
        destination=f"{FOLDER}/subscriptions.csv",
        mine=True,
        part=["id", "snippet"],
        order="alphabetical",
    )
    subscribed >> [records, table]
