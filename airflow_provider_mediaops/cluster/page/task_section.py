"""The part of the page that shows which tasks ran on the hot nodes while their threads were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.page.tables import MOST_ROWS

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, RunningTasks

#: The maximum number of nodes on a page, over all captures; each capture shows one or more.
MOST_NODES = 24
_MOST_REMARKS = 10


def task_section(labels: Sequence[str], found: Iterable[RunningTasks | None]) -> dict[str, Any] | None:
    """
    Return what the template says, in its macro ``behind``, about the tasks that ran while captures were taken.

    The tasks of each capture are read one after the other. None if nobody asked for those of any capture.
    """
    asked = [(label, tasks) for label, tasks in zip(labels, found, strict=True) if tasks is not None]
    if not asked:
        return None
    most = max(1, MOST_NODES // len(labels))
    return {
        "nodes": [_node_section(node, label) for label, tasks in asked for node in _heaviest(tasks.nodes, most)],
        "nodes_beyond": sum(max(0, len(tasks.nodes) - most) for _, tasks in asked),
        "remarks": [(label, remark) for label, tasks in asked for remark in tasks.remarks[:_MOST_REMARKS]],
    }


def _heaviest(nodes: Sequence[NodeTasks], most: int) -> list[NodeTasks]:
    """Return the nodes with most CPU of hot threads, then most groups, in their order."""
    by_weight = sorted(nodes, key=lambda node: (-(_hot_ms(node) or 0.0), -len(node.groups)))[:most]
    chosen = {id(node) for node in by_weight}
    return [node for node in nodes if id(node) in chosen]


def _hot_ms(node: NodeTasks) -> float | None:
    """Return the CPU of the hot threads of a node in milliseconds; None if the report does not say."""
    known = [thread.cpu_ms for thread in node.threads if thread.cpu_ms is not None]
    return sum(known) if known else None


def _node_section(node: NodeTasks, label: str) -> dict[str, Any]:
    hot_ms, groups = _hot_ms(node), node.groups[:MOST_ROWS]
    with_cpu = [group for group in node.groups if group.cpu_ms]
    says_any = any(thread.group is not None or thread.why_not for thread in node.threads[:MOST_ROWS])
    return {
        "capture": label,
        "tasks": node,
        "hot_ms": hot_ms,
        "heaviest": max(with_cpu, key=lambda group: group.cpu_ms or 0.0) if with_cpu and hot_ms else None,
        "remarks": node.remarks[:_MOST_REMARKS],
        "groups": groups,
        # Columns of which nothing is known are left out.
        "has_queries": any(group.shape or group.query for group in groups),
        "has_shares": node.unexplained_percent is not None or any(group.cpu_ms is not None for group in groups),
        "has_queues": any(group.queued is not None for group in groups),
        "highest": max([group.cpu_share_percent or 0.0 for group in groups] + [node.unexplained_percent or 0.0, 0.0]),
        "threads": node.threads if says_any else (),
        "indices": sorted(node.indices, key=lambda index: -index.total_ms),
    }
