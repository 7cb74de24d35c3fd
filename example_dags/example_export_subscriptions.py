"""
Wait for a subscription, then export all of them as JSON lines and as a table.

Needs the connection ``mediaops_video_default``. The environment variable ``MEDIAOPS_OUTPUT`` says where files go: a
folder or an object store such as ``s3://aws_default@bucket/exports``.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

OUTPUT = os.environ.get("MEDIAOPS_OUTPUT", "file:///tmp/mediaops")

with DAG(dag_id="mediaops_export_subscriptions", schedule=None, catchup=False, tags=["mediaops"], doc_md=__doc__):
    subscribed = SubscriptionSensor(
        task_id="wait_for_a_subscription",
        mine=True,
        poke_interval=60,
        timeout=3600,
        deferrable=True,  # holds no worker slot while it waits
    )
    records = ExportSubscriptionsOperator(
        task_id="export_records",
        destination=f"{OUTPUT}/{{{{ run_id }}}}/subscriptions.jsonl",
        mine=True,
        order="alphabetical",  # the one order that stays the same from page to page
    )
    table = ExportSubscriptionsOperator(
        task_id="export_table",
        destination=f"{OUTPUT}/{{{{ run_id }}}}/subscriptions.csv",
        mine=True,
        part=["id", "snippet"],
        order="alphabetical",
    )
    subscribed >> [records, table]
