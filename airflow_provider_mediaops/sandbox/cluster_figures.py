"""
What the sandbox's nodes run, a long search and a bulk request, and the statistics of nodes.

Their figures go with those of the hot threads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.sandbox.cluster_nodes import NODES, Node

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.cluster_nodes import Cluster

INDEX = "sandbox-events"
_SEARCH = "indices:data/read/search"
_BULK = "indices:data/write/bulk[s]"
_SEARCH_ID = "report:nightly-margin"
_BULK_ID = "logstash:ingest-1"
_QUERY = {"size": 0, "query": {"bool": {"filter": [{"term": {"customer": "ann@example.com"}}]}}}
# Seconds after which the search ends and another one begins.
_SEARCH_SECONDS = 20.0
_BULK_SECONDS = 0.02
# The first number of a coordinating task.
_COORDINATING = 1_000_000
#: The metrics that a request may name.
METRICS = ("os", "process", "jvm", "thread_pool", "indices")
#: The metrics of indices that a request may name; all of them are shown in any case.
INDEX_METRICS = ("search", "indexing", "merge")
_HEAP_BYTES = 4 * 1024**3


def tasks_of(node: Node, cluster: Cluster, now: float) -> list[dict[str, Any]]:
    """Return the tasks of a node, as they are listed; a node that rests runs nothing."""
    if cluster.load(node) <= 0:
        return []
    round_ = int(now // _SEARCH_SECONDS)
    since = round_ * _SEARCH_SECONDS
    search = _task(node, 2 * round_, f"{_SEARCH}[phase/query]", now - since, now) | {
        "description": f"shardId[[{INDEX}][0]]",
        "headers": {"X-Opaque-Id": _SEARCH_ID},
        "parent_task_id": f"{NODES[0].id}:{_COORDINATING + round_}",
        "resource_stats": _resources(cluster.busy_seconds(node, since), executions=1),
    }
    bulk = _task(node, 2 * round_ + 1, _BULK, _BULK_SECONDS, now) | {
        "description": f"requests[250], index[{INDEX}][0]",
        "headers": {"X-Opaque-Id": _BULK_ID},
        "resource_stats": _resources(0.0, executions=0),
    }
    return [search, bulk]


def coordinating_task(task_id: str, now: float) -> dict[str, Any] | None:
    """Return the task that has started the searches of the nodes; None for another id, and after its search."""
    round_ = int(now // _SEARCH_SECONDS)
    if task_id != f"{NODES[0].id}:{_COORDINATING + round_}":
        return None
    return _task(NODES[0], _COORDINATING + round_, _SEARCH, now - round_ * _SEARCH_SECONDS, now) | {
        "description": f"indices[{INDEX}], search_type[QUERY_THEN_FETCH], source[{json.dumps(_QUERY)}]",
        "headers": {"X-Opaque-Id": _SEARCH_ID},
    }


def _task(node: Node, number: int, action: str, seconds: float, now: float) -> dict[str, Any]:
    """Return what all tasks have; ``seconds`` is for how long it has run."""
    return {
        "node": node.id,
        "id": number,
        "type": "transport",
        "action": action,
        "start_time_in_millis": int((now - seconds) * 1_000),
        "running_time_in_nanos": int(seconds * 1e9),
        "cancellable": True,
        "cancelled": False,
    }


def _resources(cpu_seconds: float, *, executions: int) -> dict[str, Any]:
    total = {"cpu_time_in_nanos": int(cpu_seconds * 1e9), "memory_in_bytes": 0}
    return {"total": total, "thread_info": {"thread_executions": executions, "active_threads": executions}}


def figures_of(load: float, now: float, *, by_shard: bool) -> dict[str, Any]:
    """Return the figures of a node by metric; the CPU of its machine is in percent, or -1 if it is not known."""
    timestamp, share = int(now * 1_000), max(0.0, load) / 100
    # The heap is fuller the busier a node is, and the collectors run for 3 % of the time.
    heap_percent = 30 + round(share * 54)
    rest = {"threads": 8, "queue": 0, "active": 0, "rejected": 0, "largest": 8, "completed": 100}
    busy = {**rest, "active": int(load > 0)}
    # The counters grow with the time.
    indices = {
        "search": {"query_total": int(now), "query_time_in_millis": timestamp, "query_current": round(share)},
        "indexing": {"index_total": int(now), "index_time_in_millis": int(now * 430), "index_current": round(share)},
        "merges": {"current": round(share), "total": int(now), "total_time_in_millis": int(now * 180)},
    }
    return {
        "os": {
            "timestamp": timestamp,
            "cpu": {"percent": round(load), "load_average": {"1m": round(share * 4, 2)}},
            "cgroup": {"cpu": _control_group(now)},
        },
        "process": {"timestamp": timestamp, "cpu": {"percent": round(load * 0.9) if load >= 0 else -1}},
        "jvm": {
            "timestamp": timestamp,
            "uptime_in_millis": timestamp,
            "mem": {
                "heap_used_in_bytes": _HEAP_BYTES * heap_percent // 100,
                "heap_used_percent": heap_percent,
                "heap_max_in_bytes": _HEAP_BYTES,
            },
            "gc": {
                "collectors": {
                    "young": {"collection_count": int(now), "collection_time_in_millis": int(now * 30)},
                    "old": {"collection_count": 0, "collection_time_in_millis": 0},
                }
            },
        },
        "thread_pool": {"generic": rest, "search": busy, "write": busy},
        # A node has one shard.
        "indices": {**indices, "shards": {INDEX: [{"0": indices}]}} if by_shard else indices,
    }


def _control_group(now: float) -> dict[str, Any]:
    """Return the limits of a container of eight cores that reaches its limit in one period of twenty."""
    periods = int(now * 10)
    return {
        "control_group": "/",
        "cfs_period_micros": 100_000,
        "cfs_quota_micros": 800_000,
        "stat": {
            "number_of_elapsed_periods": periods,
            "number_of_times_throttled": periods // 20,
            "time_throttled_nanos": periods * 1_000_000,
        },
    }
