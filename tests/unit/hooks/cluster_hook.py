"""The hook of the search cluster, and the addresses that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.hooks.cluster import SearchClusterHook

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeCpu

BASE = "https://cluster.example:9200"
HOT_THREADS = f"{BASE}/_nodes/hot_threads"
STATS = f"{BASE}/_nodes/stats/os,process"
PROBE = f"{BASE}/_nodes/_local/stats/os,process"
PROBED_THREADS = f"{BASE}/_nodes/_local/hot_threads"


def cpu(nodes: str | list[str] | None = None) -> list[NodeCpu]:
    """Read the CPU of nodes over a hook of the default connection."""
    with SearchClusterHook() as hook:
        return hook.cpu(nodes)
