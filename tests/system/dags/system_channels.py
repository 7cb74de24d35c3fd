"""The export of several channels as in the example, by mapped tasks; each asks a platform of its own."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
CHANNELS = ["UCsandbox-mine", "UCsandbox-mine", "UCsandbox-few", "UCsandbox-none"]

with DAG(
    dag_id="system_channels",
    schedule=None,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
):
    ExportSubscriptionsOperator.partial(
        task_id="export",
        destination=f"{OUTPUT}/system_channels/{{{{ ti.map_index }}}}-{{{{ task.channel_id }}}}.jsonl",
        if_changed=True,
        video_conn_id="to_channel_{{ ti.map_index }}",
    ).expand(channel_id=CHANNELS)
