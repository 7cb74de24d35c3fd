"""What the sandbox's nodes run: a long search, and a bulk request. Their figures go with those of the hot threads."""

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
