"""
What the sandbox's nodes run, a long search and a bulk request, and the statistics of nodes.

Their figures go with those of the hot threads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.sandbox.cluster.nodes import NODES, Node, matches

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.cluster.nodes import Cluster

INDEX = "sandbox-events"
SEARCH_ID = "report:nightly-margin"
BULK_ID = "logstash:ingest-1"
_SEARCH = "indices:data/read/search"
_BULK = "indices:data/write/bulk[s]"
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
    of_search, of_bulk = (SEARCH_ID, f"shardId[[{INDEX}][0]]"), (BULK_ID, f"requests[250], index[{INDEX}][0]")
    search = _task((node.id, 2 * round_), f"{_SEARCH}[phase/query]", since=since, now=now, of=of_search)
    bulk = _task((node.id, 2 * round_ + 1), _BULK, since=now - _BULK_SECONDS, now=now, of=of_bulk)
    search["parent_task_id"] = f"{NODES[0].id}:{_COORDINATING + round_}"
    search["resource_stats"] = _resources(cluster.busy_seconds(node, since), executions=1)
    bulk["resource_stats"] = _resources(0.0, executions=0)
    return [search, bulk]


def coordinating_task(task_id: str, now: float) -> dict[str, Any] | None:
    """Return the task that has started the searches of the nodes; None for another id, and after its search."""
    round_ = int(now // _SEARCH_SECONDS)
    if task_id != f"{NODES[0].id}:{_COORDINATING + round_}":
        return None
    description = f"indices[{INDEX}], search_type[QUERY_THEN_FETCH], source[{json.dumps(_QUERY)}]"
    of_search = (SEARCH_ID, description)
    return _task((NODES[0].id, _COORDINATING + round_), _SEARCH, since=round_ * _SEARCH_SECONDS, now=now, of=of_search)


def is_wanted(task: dict[str, Any], actions: str) -> bool:
    """Return whether a list of actions, with ``*`` for any characters, names that of a task; an empty one does."""
    return not actions or any(matches(action, task["action"]) for action in actions.split(","))


def _task(task_id: tuple[str, int], action: str, *, since: float, now: float, of: tuple[str, str]) -> dict[str, Any]:
    opaque_id, description = of
    return {
        "node": task_id[0],
        "id": task_id[1],
        "type": "transport",
        "action": action,
        "description": description,
        "start_time_in_millis": int(since * 1_000),
        "running_time_in_nanos": int((now - since) * 1e9),
        "cancellable": True,
        "cancelled": False,
        "headers": {"X-Opaque-Id": opaque_id},
    }


def _resources(cpu_seconds: float, *, executions: int) -> dict[str, Any]:
    total = {"cpu_time_in_nanos": int(cpu_seconds * 1e9), "memory_in_bytes": 0}
    threads = {"thread_executions": executions, "active_threads": executions}
    return {"average": total, "total": total, "min": total, "max": total, "thread_info": threads}


def figures_of(load: float, now: float, metrics: list[str], *, by_shard: bool) -> dict[str, Any]:
    """Return the figures of a node by metric; the CPU of its machine is in percent, or -1 if it is not known."""
    timestamp = int(now * 1_000)
    load_average = {"1m": round(max(0.0, load) / 25, 2)}
    known = {
        "os": {
            "timestamp": timestamp,
            "cpu": {"percent": round(load), "load_average": load_average},
            "cgroup": _cgroup(now),
        },
        "process": {"timestamp": timestamp, "cpu": {"percent": round(load * 0.9) if load >= 0 else -1}},
        "jvm": _java_machine(load, now),
        "thread_pool": _thread_pools(load),
        "indices": _index_statistics(load, now, by_shard=by_shard),
    }
    return {metric: figures for metric, figures in known.items() if metric in metrics}


def _java_machine(load: float, now: float) -> dict[str, Any]:
    """Return the heap, which is fuller the busier a node is, and the collectors, which run for 3 % of the time."""
    percent = 30 + round(max(0.0, load) * 0.54)
    young = {"collection_count": int(now), "collection_time_in_millis": int(now * 30)}
    return {
        "timestamp": int(now * 1_000),
        "uptime_in_millis": int(now * 1_000),
        "mem": {
            "heap_used_in_bytes": _HEAP_BYTES * percent // 100,
            "heap_used_percent": percent,
            "heap_max_in_bytes": _HEAP_BYTES,
        },
        "gc": {"collectors": {"young": young, "old": {"collection_count": 0, "collection_time_in_millis": 0}}},
    }


def _cgroup(now: float) -> dict[str, Any]:
    """Return the control group of a node: a container of eight cores that reaches its limit in one period of twenty."""
    periods = int(now * 10)
    return {
        "cpu": {
            "control_group": "/",
            "cfs_period_micros": 100_000,
            "cfs_quota_micros": 800_000,
            "stat": {
                "number_of_elapsed_periods": periods,
                "number_of_times_throttled": periods // 20,
                "time_throttled_nanos": periods * 1_000_000,
            },
        }
    }


def _thread_pools(load: float) -> dict[str, Any]:
    """Return the thread pools of a node, of which none has a queue."""
    active = int(load > 0)
    rest = {"threads": 8, "queue": 0, "active": 0, "rejected": 0, "largest": 8, "completed": 100}
    return {"generic": rest, "search": {**rest, "active": active}, "write": {**rest, "active": active}}


def _index_statistics(load: float, now: float, *, by_shard: bool) -> dict[str, Any]:
    """Return the counters of the indices on a node, which grow with the time. A node has one shard."""
    share = max(0.0, load) / 100
    figures = {
        "search": {"query_total": int(now), "query_time_in_millis": int(now * 1_000), "query_current": round(share)},
        "indexing": {"index_total": int(now), "index_time_in_millis": int(now * 430), "index_current": round(share)},
        "merges": {"current": round(share), "total": int(now), "total_time_in_millis": int(now * 180)},
    }
    return {**figures, "shards": {INDEX: [{"0": figures}]}} if by_shard else figures
