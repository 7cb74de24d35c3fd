"""What a cluster says about its tasks, in the shapes of OpenSearch and Elasticsearch."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.search_cluster import node_id

#: When the reports of :mod:`tests.unit.search_cluster` begin, in milliseconds since 1970.
REPORT_MS = 1_773_518_400_000
COORDINATOR = "coordinator-node-00000"
SECRET = "123-45-6789"
SEARCH, PHASE, BULK = "indices:data/read/search", "indices:data/read/search[phase/query]", "indices:data/write/bulk[s]"


def listed(
    number: int,
    after_ms: float,
    *,
    node: str = "node-1",
    action: str = PHASE,
    index: str = "orders",
    opaque_id: str | None = "report:nightly",
    age_ms: float = 1_000.0,
    parent: str | None = f"{COORDINATOR}:7",
    cpu_ms: float | None = None,
    executions: int = 1,
    active_threads: int = 1,
    description: str | None = None,
) -> dict[str, Any]:
    """Give a task as it is listed so long after the start of the report; without CPU, as Elasticsearch does."""
    default = f"requests[250], index[{index}][0]" if action.startswith(BULK) else f"shardId[[{index}][0]]"
    task: dict[str, Any] = {
        "node": node_id(node),
        "id": number,
        "type": "transport",
        "action": action,
        "description": default if description is None else description,
        "start_time_in_millis": REPORT_MS + int(after_ms - age_ms),
        "running_time_in_nanos": int(age_ms * 1e6),
        "cancellable": True,
        "headers": {} if opaque_id is None else {"X-Opaque-Id": opaque_id},
    }
    if parent:
        task["parent_task_id"] = parent
    if cpu_ms is not None:
        task["resource_stats"] = {
            "total": {"cpu_time_in_nanos": int(cpu_ms * 1e6), "memory_in_bytes": 1},
            "thread_info": {"thread_executions": executions, "active_threads": active_threads},
        }
    return task


def task_list(*tasks: dict[str, Any], failures: int = 0) -> dict[str, Any]:
    """Give a list of tasks as ``/_tasks`` returns it."""
    nodes: dict[str, Any] = {}
    for task in tasks:
        nodes.setdefault(task["node"], {"name": "n", "tasks": {}})["tasks"][f"{task['node']}:{task['id']}"] = task
    failed = {"node_failures": [{"type": "failed_node_exception"}] * failures} if failures else {}
    return {**failed, "nodes": nodes}


def coordinating(query: dict[str, Any], index: str = "orders", **fields: Any) -> dict[str, Any]:
    """Give the coordinating task of a search as ``/_tasks/<id>`` returns it."""
    source = json.dumps(query)
    task = listed(
        7, 0, action=SEARCH, parent=None, description=f"indices[{index}], search_type[X], source[{source}]", **fields
    )
    return {"completed": False, "task": {**task, "node": COORDINATOR}}


def pools(queue: int = 0, *nodes: str) -> dict[str, Any]:
    """Give thread pools of which one works and has a queue."""
    idle = {"threads": 0, "queue": 0, "active": 0, "rejected": 0}
    busy = {"threads": 4, "queue": queue, "active": 4, "rejected": 2}
    figures = {"generic": idle, "search": busy}
    return {"nodes": {node_id(node): {"name": node, "thread_pool": figures} for node in nodes or ("node-1",)}}


def shards(**query_ms: int) -> dict[str, Any]:
    """Give the statistics of two shards of each index, which share its query time."""
    of_indices = {
        index: [
            {"0": {"search": {"query_time_in_millis": total - 1}, "merges": {"current": 1, "total_time_in_millis": 5}}},
            {"1": {"search": {"query_time_in_millis": 1}, "indexing": {"index_time_in_millis": 4}}},
        ]
        for index, total in query_ms.items()
    }
    return {"nodes": {node_id("node-1"): {"indices": {"shards": of_indices}}}}
