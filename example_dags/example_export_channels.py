"""
Export the subscriptions of several channels, each by a mapped task of its own, to a file of its own.

A channel's file has the same name in every run, and stays as it is while nothing has changed in it. A task that fails
or is killed goes on, in its next attempt, with the page after the last one that it saved.

Needs the connection ``mediaops_video_default``. The environment variable ``MEDIAOPS_OUTPUT`` says where files go: a
folder or an object store such as ``s3://aws_default@bucket/exports``.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

OUTPUT = os.environ.get("MEDIAOPS_OUTPUT", "file:///tmp/mediaops")
CHANNELS = ["UCsandbox-mine", "UCsandbox-few", "UCsandbox-none"]

with DAG(
    dag_id="mediaops_export_channels",
    schedule=None,
    catchup=False,
    max_active_runs=1,  # two runs would write the same files
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    tags=["mediaops"],
    doc_md=__doc__,
):
    ExportSubscriptionsOperator.partial(
        task_id="export",
        destination=f"{OUTPUT}/channels/{{{{ task.channel_id }}}}.jsonl",
        if_changed=True,
    ).expand(channel_id=CHANNELS)
