"""A DAG that is started by nodes that run hot, over an asset and its watcher."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger

HOT_NODES = Asset(
    "mediaops-system-hot-nodes",
    watchers=[
        AssetWatcher(
            name="high_cpu",
            trigger=HighCpuTrigger(
                # Of its own, so that nobody shares its readings.
                cluster_conn_id="cluster_watched",
                nodes=["sandbox-1", "sandbox-3"],
                threshold=90,
                clear_below=80,
                sustained_for=2,
                poll_interval=1,
                reading_interval=1,
            ),
        )
    ],
)

with DAG(dag_id="system_hot_nodes", schedule=[HOT_NODES], is_paused_upon_creation=False):

    @task
    def tell(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """Give the payloads of the events that started the run."""
        return [event.extra["payload"] for event in triggering_asset_events[HOT_NODES]]

    tell()
