"""The statistics of the sandbox's nodes, which go with their load and with what they run."""

from __future__ import annotations

from typing import Any

from airflow_provider_mediaops.sandbox.cluster.tasks import INDEX

#: The metrics that a request may name.
METRICS = ("os", "process", "jvm", "thread_pool", "indices")
#: The metrics of indices that a request may name; all of them are shown in any case.
INDEX_METRICS = ("search", "indexing", "merge")
_HEAP_BYTES = 4 * 1024**3


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
