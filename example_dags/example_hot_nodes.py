"""
Capture the hot threads of a search cluster each time one of its nodes runs hot.

No run waits for it: the triggerer watches the cluster, and starts a run of this DAG for each spike. Needs the
connection ``mediaops_cluster_default``, with the privilege ``monitor``.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger

OUTPUT = os.environ.get("MEDIAOPS_OUTPUT", "file:///tmp/mediaops")
HIGH_CPU = HighCpuTrigger(threshold=85, sustained_for=60, clear_below=70, poll_interval=30)
HOT_NODES = Asset("search-cluster-hot-nodes", watchers=[AssetWatcher(name="high_cpu", trigger=HIGH_CPU)])

with DAG(dag_id="mediaops_hot_nodes", schedule=[HOT_NODES], catchup=False, tags=["mediaops"], doc_md=__doc__):

    @task
    def hot_nodes(triggering_asset_events: Any = None) -> str:
        """Give the ids of the nodes that run hot; all nodes where a person has started the run."""
        events = [event for events in triggering_asset_events.values() for event in events]
        nodes = [node for event in events for node in event.extra["payload"]["nodes"]]
        return ",".join(sorted({node["node_id"] for node in nodes})) or "_all"

    capture = CaptureHotThreadsOperator(
        task_id="capture",
        nodes="{{ ti.xcom_pull(task_ids='hot_nodes') }}",
        destination=f"{OUTPUT}/{{{{ run_id }}}}/hot_threads.txt",
        interval="200ms",
    )
    hot_nodes() >> capture
