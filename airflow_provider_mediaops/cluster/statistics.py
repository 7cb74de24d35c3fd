"""Read the causes that no stack shows: heap, garbage collection, the queues of thread pools, throttling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_mediaops.cluster.api import BETWEEN_SECONDS, MOST_SECONDS_FOR_COUNTERS, node_counters
from airflow_provider_mediaops.cluster.plain_values import figure_at, mapping_at, mapping_of, text_of
from airflow_provider_mediaops.cluster.text import readable
from airflow_provider_mediaops.exceptions import MediaOpsError, TaskStoppedError
from airflow_provider_mediaops.http.exchange import Blocking, Wait
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.query import HotThreadsQuery
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow

#: The longest time that they take.
MOST_SECONDS = 2 * MOST_SECONDS_FOR_COUNTERS + BETWEEN_SECONDS
# From here on the servers themselves write the collector's share into their logs (monitor.jvm.gc.overhead.info).
_HOT_COLLECTOR_PERCENT = 25.0
# The size of the queue of searches, by default.
_LONG_QUEUE = 1_000
_MOST_ALARMS = 3
_LONGEST_NAME = 200
_MOST_POOLS = 50

_Counted = Callable[..., "float | None"]


class Heap(TypedDict):
    """The heap of a node."""

    used_bytes: float | None  #: the used part; None if the node does not report it
    max_bytes: float | None  #: the limit
    used_percent: float  #: the used part in percent


class Collector(TypedDict):
    """The work of the garbage collectors of a node, without those that work beside its threads all the time."""

    collections: int  #: their number
    milliseconds: float  #: the time that they took
    share_percent: float  #: this time in percent of the period


class Pool(TypedDict):
    """A thread pool with a queue, or with rejections."""

    pool: str  #: its name
    active: int  #: the number of its threads that were at work
    queue: int  #: the number of tasks that waited
    rejected: int  #: the number of tasks that it refused in the period


class Throttling(TypedDict):
    """The periods of the limit on the processor time of a node's container."""

    periods: int  #: their number
    throttled: int  #: the number of those in which the container was stopped at its limit


class NodeStatistics(TypedDict):
    """The statistics of a node right after a capture."""

    node_id: str  #: its id
    node: str  #: its name, or its id
    #: the period of the counters, in seconds; None if they are those since the node's start
    seconds: float | None
    heap: Heap | None  #: the heap; None, as for the others, if the node does not report it
    collector: Collector | None  #: the garbage collection in the period
    pools: list[Pool]  #: the thread pools with a queue, or with rejections in the period, the longest queue first
    #: the throttling of the container in the period; None without a limit
    throttling: Throttling | None


def read_statistics(ask: Ask, query: HotThreadsQuery) -> CallFlow[tuple[NodeStatistics, ...] | None]:
    """
    Ask for the statistics of the captured nodes, and again a second later: most of them are counters.

    They are an extra: neither an error nor a stop of the task costs the report that is at hand. The next request of a
    stopped task raises again.
    """
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    try:
        before = yield from ask(node_counters(query.nodes))
        if any(figure_at(node, "jvm", "timestamp") for node in before.values()):
            yield Wait(BETWEEN_SECONDS, "the counters of the collector and the thread pools")
            after = yield from ask(node_counters(query.nodes))
    except (MediaOpsError, TaskStoppedError):
        if before is None:
            return None
    earlier, latest = (before, after) if after is not None else ({}, before)
    return (yield Blocking(lambda: statistics_of(latest, earlier))) or None


def statistics_of(nodes: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[NodeStatistics, ...]:
    """Parse the statistics of nodes, the fullest heap first; without an earlier reply, counters are since the start."""
    found = [_node(node_id, mapping_of(node), mapping_of(before.get(node_id))) for node_id, node in nodes.items()]
    known = [node for node in found if node["heap"] or node["collector"] or node["pools"] or node["throttling"]]
    return tuple(sorted(known, key=lambda node: -(node["heap"] or {"used_percent": 0.0})["used_percent"]))


def alarms(statistics: Sequence[NodeStatistics]) -> list[str]:
    """Return at most three sentences about hot collectors and full queues, and the number of others."""
    found = [f"{readable(node['node'])}: {sentence}" for node in statistics for sentence in _alarms_of(node)]
    more = [f"{len(found) - _MOST_ALARMS} more nodes or thread pools"] if len(found) > _MOST_ALARMS else []
    return [*found[:_MOST_ALARMS], *more]


def _alarms_of(node: NodeStatistics) -> list[str]:
    found: list[str] = []
    seconds, collector = node["seconds"], node["collector"]
    if seconds and collector and collector["share_percent"] >= _HOT_COLLECTOR_PERCENT:
        found.append(f"garbage collection took {collector['share_percent']:.0f} % of {seconds:.1f} s")
    for pool in node["pools"]:
        name = readable(pool["pool"])
        if seconds and pool["rejected"]:
            found.append(f"the queue of {name} is full, {pool['rejected']:,} rejected in {seconds:.1f} s")
        elif pool["queue"] >= _LONG_QUEUE:
            found.append(f"{pool['queue']:,} tasks wait in the queue of {name}")
    return found


def _node(node_id: str, node: Mapping[str, Any], before: Mapping[str, Any]) -> NodeStatistics:
    seconds, counted = _counters(node, before)
    processor, collectors = ("os", "cgroup", "cpu"), ("jvm", "gc", "collectors")
    # A cycle of ZGC and Shenandoah runs beside the threads, and stops none.
    stopping = [name for name in mapping_at(node, *collectors) if not name.endswith("Cycles")]
    times = [counted(*collectors, name, "collection_time_in_millis") for name in stopping]
    collected_ms, uptime_ms = sum(time or 0.0 for time in times), counted("jvm", "uptime_in_millis")
    collections = sum(counted(*collectors, name, "collection_count") or 0.0 for name in stopping)
    periods = counted(*processor, "stat", "number_of_elapsed_periods")
    throttled = counted(*processor, "stat", "number_of_times_throttled")
    has_limit = (figure_at(node, *processor, "cfs_quota_micros") or 0.0) > 0
    return {
        "node_id": storable(node_id, _LONGEST_NAME),
        "node": storable(text_of(node.get("name")) or node_id, _LONGEST_NAME),
        "seconds": seconds,
        "heap": _heap(mapping_at(node, "jvm", "mem")),
        "collector": {
            "collections": int(collections),
            "milliseconds": collected_ms,
            "share_percent": round(min(100.0, 100 * collected_ms / uptime_ms), 1),
        }
        if uptime_ms and any(time is not None for time in times)
        else None,
        "pools": _pools(mapping_at(node, "thread_pool"), counted),
        "throttling": {"periods": int(periods), "throttled": int(throttled)}
        if has_limit and periods is not None and throttled is not None
        else None,
    }


def _counters(node: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[float | None, _Counted]:
    """
    Return the length of the period between two readings in seconds, and a function for what was counted in it.

    For readings of another start, or of the same moment: None, and a function for what was counted since the start.
    """

    def difference(*path: str) -> float | None:
        now, earlier = figure_at(node, *path), figure_at(before, *path)
        return None if now is None or earlier is None or now < earlier else now - earlier

    passed_ms = difference("jvm", "timestamp")
    if passed_ms and difference("jvm", "uptime_in_millis"):
        return round(passed_ms / 1000, 1), difference
    return None, partial(figure_at, node)


def _heap(memory: Mapping[str, Any]) -> Heap | None:
    percent = figure_at(memory, "heap_used_percent")
    used, limit = figure_at(memory, "heap_used_in_bytes"), figure_at(memory, "heap_max_in_bytes")
    if percent is None and used is not None and limit is not None and limit >= 1:
        percent = 100 * used / limit
    return None if percent is None else {"used_bytes": used, "max_bytes": limit, "used_percent": round(percent, 1)}


def _pools(pools: Mapping[str, Any], counted: _Counted) -> list[Pool]:
    found: list[Pool] = [
        {
            "pool": storable(name, _LONGEST_NAME),
            "active": int(figure_at(pool, "active") or 0),
            "queue": int(figure_at(pool, "queue") or 0),
            "rejected": int(counted("thread_pool", name, "rejected") or 0),
        }
        for name, pool in pools.items()
    ]
    shown = [pool for pool in found if pool["queue"] or pool["rejected"]]
    return sorted(shown, key=lambda pool: (-pool["queue"], -pool["rejected"], pool["pool"]))[:_MOST_POOLS]
