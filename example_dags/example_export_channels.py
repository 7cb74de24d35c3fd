"""
Export the subscriptions of several channels, each by a mapped task, to a file for each channel.

A channel's file has the same name in every run, and is replaced only if its content has changed. A task that fails or
is killed resumes, in its next attempt, after the last page that it saved.

Needs the connection ``mediaops_video_default``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

CHANNELS = ["UCsandbox-mine", "UCsandbox-few", "UCsandbox-none"]

with DAG(
    dag_id="mediaops_export_channels",
    schedule=None,
    max_active_runs=1,  # two runs would write the same files
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"folder": "s3://aws_default@exports/channels"},
    tags=["mediaops"],
    doc_md=__doc__,
):
    ExportSubscriptionsOperator.partial(
        task_id="export",
        destination="{{ params.folder }}/{{ task.channel_id }}.jsonl",
        if_changed=True,
    ).expand(channel_id=CHANNELS)
