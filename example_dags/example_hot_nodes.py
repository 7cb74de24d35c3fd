"""
Capture the hot threads of a search cluster each time one of its nodes runs hot.

No run waits: the triggerer watches the cluster, and each spike starts a run of this DAG. Needs the connection
``mediaops_cluster_default``, with the privilege ``monitor``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger

HIGH_CPU = HighCpuTrigger(threshold=85, sustained_for=60, clear_below=70, poll_interval=30)
WATCHER = AssetWatcher(name="high_cpu", trigger=HIGH_CPU)
HOT_NODES = Asset("search-cluster-hot-nodes", watchers=[WATCHER])

with DAG(
    dag_id="mediaops_hot_nodes",
    schedule=[HOT_NODES],
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"folder": "s3://aws_default@reports/hot_nodes"},
    tags=["mediaops"],
    doc_md=__doc__,
):

    @task
    def hot_nodes(triggering_asset_events: Any = None) -> str:
        """Return the ids of the hot nodes, with commas; all nodes in a run started by hand."""
        events = [event for events in triggering_asset_events.values() for event in events]
        nodes = [node for event in events for node in event.extra["payload"]["nodes"]]
        return ",".join(sorted({node["node_id"] for node in nodes})) or "_all"

    capture = CaptureHotThreadsOperator(
        task_id="capture",
        nodes="{{ ti.xcom_pull(task_ids='hot_nodes') }}",
        destination="{{ params.folder }}/{{ run_id }}/hot_threads.txt",
    )
    hot_nodes() >> capture
