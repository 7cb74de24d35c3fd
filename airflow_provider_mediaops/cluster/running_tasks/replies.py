"""The calls about running tasks as values: task lists, single tasks, thread pools and shard statistics. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_provider_mediaops.cluster.plain_values import figure_at, list_of, mapping_at, mapping_of, text_of
from airflow_provider_mediaops.cluster.running_tasks.descriptions import ESQL_PARTS, expression_of, index_of
from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, PoolLoad
from airflow_provider_mediaops.http.exchange import Call, Request, Response, escape_segment
from airflow_provider_mediaops.http.reply import read_json

#: The limit of a list of tasks, in bytes: lists of hundreds of MB have been met, and nodes have died of them.
MAX_LIST_BYTES = 4 * 1024 * 1024
_MAX_TASKS = 10_000
_MAX_TASK_BYTES = 1024 * 1024
_MAX_STATISTICS_BYTES = 16 * 1024 * 1024
# What is asked beside a report is worth no longer wait.
_MAX_SECONDS = 2.0
# Reads and writes of documents, and the work on indices. Background merges are not tasks.
_ACTIONS = "indices:data/*,indices:admin/*"
_LONGEST_DESCRIPTION = 66_000
_LONGEST_NAME = 200
# Kibana puts one of its own before the name of a dashboard, for each request.
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?:[;:/,\s]+|\Z)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as a node lists it. Figures that the cluster does not give are None."""

    task_id: str  # node id, colon, number
    action: str  # for example ``indices:data/read/search[phase/query]``
    started_ms: float = 0.0  # milliseconds since 1970 by the node's clock
    running_ms: float = 0.0  # how long it had existed at this look
    parent_id: str | None = None  # of the task that started it
    opaque_id: str | None = None  # the ``X-Opaque-Id`` of the request
    description: str = ""  # long ones are cut
    cpu_ms: float | None = None  # that it had used
    executions: int | None = None  # how often a thread had begun to work for it
    active_threads: int | None = None  # how many threads worked for it

    @property
    def node_id(self) -> str:
        """The id of the node that it runs on."""
        return self.task_id.rpartition(":")[0]

    @property
    def kind(self) -> str:
        """The action without its phase."""
        return self.action.partition("[")[0]

    @property
    def listed_at_ms(self) -> float:
        """When it was listed, in milliseconds since 1970 by the node's clock."""
        return self.started_ms + self.running_ms

    @property
    def is_search_phase(self) -> bool:
        """Whether it is the work on one shard for a search, whose CPU OpenSearch counts."""
        return self.action != self.kind and self.kind.startswith("indices:data/read/")

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a search or of ES|QL: only the task that coordinates the request has the query."""
        return self.is_search_phase or self.kind.startswith(ESQL_PARTS)

    @property
    def client(self) -> str | None:
        """The ``X-Opaque-Id`` without a UUID at its start, which differs from request to request; empty after it."""
        return None if self.opaque_id is None else _UUID.sub("", self.opaque_id, count=1)

    @property
    def expression(self) -> str | None:
        """The indices that the client named, as a coordinating task describes them."""
        return expression_of(self.kind, self.description)

    @property
    def index(self) -> str | None:
        """The index whose shard it works on."""
        return index_of(self.kind, self.description)


class TaskList(NamedTuple):
    """The tasks of nodes at one look."""

    tasks: tuple[Task, ...]
    bytes: int  # of the reply
    failures: int  # nodes that did not answer
    left_out: int  # tasks that are too many to be read


def _request(path: str, *params: tuple[str, str], max_bytes: int) -> Request:
    headers = {"Accept": "application/json"}
    # Another try would come too late.
    limits: dict[str, Any] = {"is_retried": False, "max_bytes": max_bytes, "max_seconds": _MAX_SECONDS}
    return Request("GET", path, params, headers, kind="tasks", **limits)


def task_list(nodes: Sequence[str]) -> Call[TaskList]:
    """List what nodes do with data, which needs the permission ``cluster:monitor/tasks/lists``."""
    params = (("detailed", "true"), ("nodes", ",".join(nodes)), ("actions", _ACTIONS))
    request = _request("/_tasks", *params, max_bytes=MAX_LIST_BYTES)
    return Call(request, _read_list)


def _read_list(response: Response) -> TaskList:
    body = read_json(response)
    listed = [task for node in mapping_at(body, "nodes").values() for task in mapping_at(node, "tasks").values()]
    tasks = tuple(task for task in map(_read_task, map(mapping_of, listed[:_MAX_TASKS])) if task)
    failures = len(list_of(body.get("node_failures")))
    return TaskList(tasks, len(response.body), failures, max(0, len(listed) - _MAX_TASKS))


def single_task(task_id: str) -> Call[Task | None]:
    """Ask for one task, which needs the permission ``cluster:monitor/task/get``; None if the reply names none."""
    request = _request(f"/_tasks/{escape_segment(task_id)}", max_bytes=_MAX_TASK_BYTES)
    return Call(request, lambda response: _read_task(mapping_at(read_json(response), "task")))


def _read_task(task: Mapping[str, Any]) -> Task | None:
    node_id, number, action = text_of(task.get("node")), task.get("id"), text_of(task.get("action"))
    if node_id is None or type(number) is not int or action is None:
        return None
    headers = mapping_at(task, "headers").items()
    opaque_ids = [text_of(header) for name, header in headers if name.lower() == "x-opaque-id"]
    return Task(
        task_id=f"{node_id}:{number}",
        action=action[:_LONGEST_NAME],
        started_ms=figure_at(task, "start_time_in_millis") or 0.0,
        running_ms=_milliseconds(task, "running_time_in_nanos") or 0.0,
        parent_id=text_of(task.get("parent_task_id")),
        opaque_id=next((opaque_id[:_LONGEST_NAME] for opaque_id in opaque_ids if opaque_id), None),
        description=(text_of(task.get("description")) or "")[:_LONGEST_DESCRIPTION],
        cpu_ms=_milliseconds(task, "resource_stats", "total", "cpu_time_in_nanos"),
        executions=_count(task, "resource_stats", "thread_info", "thread_executions"),
        active_threads=_count(task, "resource_stats", "thread_info", "active_threads"),
    )


def _milliseconds(task: Mapping[str, Any], *path: str) -> float | None:
    nanos = figure_at(task, *path)
    return None if nanos is None else nanos / 1e6


def _count(value: object, *path: str) -> int | None:
    number = figure_at(value, *path)
    return None if number is None else int(number)


def thread_pools(nodes: Sequence[str]) -> Call[dict[str, tuple[PoolLoad, ...]]]:
    """
    Ask how busy the thread pools of nodes are, which needs the permission ``cluster:monitor/nodes/stats``.

    The result has the pools that work or have a queue, by node id, the longest queue first.
    """
    path = f"/_nodes/{escape_segment(','.join(nodes))}/stats/thread_pool"
    request = _request(path, max_bytes=MAX_LIST_BYTES)
    return Call(request, lambda response: {node: _busy_pools(stats) for node, stats in _nodes_in(response).items()})


def _nodes_in(response: Response) -> Mapping[str, Any]:
    return mapping_at(read_json(response), "nodes")


def _busy_pools(stats: object) -> tuple[PoolLoad, ...]:
    pools = [
        PoolLoad(
            pool=name[:_LONGEST_NAME],
            active=_count(figures, "active") or 0,
            queue=_count(figures, "queue") or 0,
            rejected=_count(figures, "rejected") or 0,
        )
        for name, figures in mapping_at(stats, "thread_pool").items()
    ]
    busy = [pool for pool in pools if pool.active or pool.queue]
    return tuple(sorted(busy, key=lambda pool: (-pool.queue, -pool.active, pool.pool)))


def shard_times(nodes: Sequence[str]) -> Call[dict[str, dict[str, IndexWork]]]:
    """
    Read the time counters of the shards on nodes, which needs the permission ``cluster:monitor/nodes/stats``.

    The result has the work on each index since its shards were opened, by node id.
    """
    path = f"/_nodes/{escape_segment(','.join(nodes))}/stats/indices/search,indexing,merge"
    params = (("level", "shards"), ("filter_path", "nodes.*.indices.shards"))
    request = _request(path, *params, max_bytes=_MAX_STATISTICS_BYTES)
    return Call(request, lambda response: {node: _index_work(stats) for node, stats in _nodes_in(response).items()})


def _index_work(stats: object) -> dict[str, IndexWork]:
    shards = mapping_at(stats, "indices", "shards")
    return {name: _summed(name, list_of(of_index)) for name, of_index in shards.items()}


def _summed(name: str, shards: list[Any]) -> IndexWork:
    copies = [figures for shard in shards for figures in mapping_of(shard).values()]

    def total(*path: str) -> float:
        return sum(figure_at(figures, *path) or 0.0 for figures in copies)

    return IndexWork(
        index=name,
        query_ms=total("search", "query_time_in_millis"),
        index_ms=total("indexing", "index_time_in_millis"),
        merge_ms=total("merges", "total_time_in_millis"),
        merges=int(total("merges", "current")),
    )
