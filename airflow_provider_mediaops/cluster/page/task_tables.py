"""The part of the page that shows which tasks ran on the hot nodes while their threads were measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.page.tables import MOST_ROWS, Cell, number_cell, percent_of, table_of
from airflow_provider_mediaops.cluster.text import duration, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_mediaops.cluster.page.tables import Table
    from airflow_provider_mediaops.cluster.running_tasks.model import (
        IndexWork,
        LikelyGroup,
        NodeTasks,
        RunningTasks,
        TaskGroup,
    )

#: The maximum number of nodes on a page, over all captures; each capture shows one or more.
MOST_NODES = 24
#: The maximum number of characters of a query or its shape.
LONGEST_QUERY = 300

_REQUESTS, _THREADS, _INDICES = "Listed requests", "Likely requests of the hot threads", "Work on indices"
_CPU = "Share of node"
_MOST_REMARKS = 10
_NONE = "–"  # noqa: RUF001 - a dash
_SEEN = {"start": "at the start", "end": "at the end", "both": "at both ends", "between": "in between"}


def task_section(labels: Sequence[str], found: Iterable[RunningTasks | None]) -> dict[str, Any] | None:
    """
    Return what the template says, in its macro ``behind``, about the tasks that ran while captures were taken.

    The tasks of each capture are read one after the other. None if nobody asked for those of any capture.
    """
    asked = [(label, tasks) for label, tasks in zip(labels, found, strict=True) if tasks is not None]
    if not asked:
        return None
    most = max(1, MOST_NODES // len(labels))
    nodes = [_node_section(node, label) for label, tasks in asked for node in _heaviest(tasks.nodes, most)]
    return {
        "nodes": nodes,
        "nodes_beyond": sum(max(0, len(tasks.nodes) - most) for _, tasks in asked),
        "remarks": [(label, remark) for label, tasks in asked for remark in tasks.remarks[:_MOST_REMARKS]],
        "shown": {name for node in nodes for table in node["tables"] for name in (table.caption, *table.columns)},
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
    hot, known = _hot_ms(node), [group for group in node.groups if group.cpu_ms]
    heaviest = max(known, key=lambda one: one.cpu_ms or 0.0) if known and hot else None
    tables = (_group_table(node), _thread_table(node), _index_table(node.indices))
    return {
        "capture": label,
        "tasks": node,
        "heaviest": heaviest and {"who": _who(heaviest), "used": heaviest.cpu_ms, "of": hot},
        "remarks": node.remarks[:_MOST_REMARKS],
        "tables": [table for table in tables if table.rows],
    }


def _who(group: TaskGroup) -> str:
    """Return the shortest name of a group: its opaque id if it has one, and what it does to which index."""
    where = f" on {readable(group.index)}" if group.index else ""
    doing = f"{readable(group.action)}{where}"
    return f"{readable(group.opaque_id)} ({doing})" if group.opaque_id else doing


def _group_table(node: NodeTasks) -> Table:
    """Return a row a group, and what no listed task explains; columns of which nothing is known are left out."""
    groups = node.groups[:MOST_ROWS]
    highest = max([group.cpu_share_percent or 0.0 for group in groups] + [node.unexplained_percent or 0.0, 0.0])
    columns: dict[str, Callable[[TaskGroup], Cell]] = {
        "X-Opaque-Id": lambda group: (
            Cell(text=readable(group.opaque_id)) if group.opaque_id else Cell(text="", after="no X-Opaque-Id")
        ),
        "Action": lambda group: Cell(text=readable(group.action)),
        "Index": lambda group: Cell(text=readable(group.index or _NONE)),
    }
    if any(group.shape or group.query for group in groups):
        columns["Query"] = _query
    if any(group.cpu_ms is not None for group in groups) or node.unexplained_percent is not None:
        columns[_CPU] = lambda group: _cpu(group.cpu_share_percent, group.cpu_ms, highest)
    columns["Requests"] = lambda group: number_cell(group.requests, _NONE)
    columns["Running"] = lambda group: number_cell(group.running, _NONE)
    if any(group.queued is not None for group in groups):
        columns["Queued"] = lambda group: number_cell(group.queued, _NONE)
    columns["Longest"] = lambda group: _milliseconds(group.longest_ms)
    columns["Listed"] = lambda group: Cell(text=_SEEN[group.seen])
    columns["Likely pool"] = lambda group: Cell(text=readable(group.pool or _NONE))
    table = table_of(_REQUESTS, node.groups, columns, more=node.groups_left_out, falls_by=None)
    if node.unexplained_percent is None:
        return table
    # A column is sorted by numbers or by texts, in all of its rows.
    figures = [cell.number is not None for cell in table.rows[0]] if table.rows else [False] * len(columns)
    row = [Cell(text="", number=-1 if is_figure else None) for is_figure in figures]
    row[0] = Cell(text="not explained by any listed task")
    row[table.columns.index(_CPU)] = _cpu(node.unexplained_percent, None, highest)
    return replace(table, rows=(*table.rows, tuple(row)))


def _query(group: TaskGroup) -> Cell:
    text = readable(group.query or group.shape or _NONE, LONGEST_QUERY)
    some = 0 < group.read_requests < group.requests
    return Cell(text=text, after=f"read of {group.read_requests:,} of {group.requests:,}" if some else "")


def _thread_table(node: NodeTasks) -> Table:
    columns: dict[str, Callable[[LikelyGroup], Cell]] = {
        "Thread": lambda thread: Cell(text=readable(thread.thread or "<no name>")),
        "CPU": lambda thread: _milliseconds(thread.cpu_ms),
        "Likely request": lambda thread: (
            Cell(text=_who(node.groups[thread.group or 0]))
            if _is_claimed(thread, node)
            else Cell(text="", after=readable(thread.why_not) or "none")
        ),
        "Difference": lambda thread: _milliseconds(thread.error_ms if _is_claimed(thread, node) else None),
    }
    says_any = any(thread.group is not None or thread.why_not for thread in node.threads[:MOST_ROWS])
    return table_of(_THREADS, node.threads if says_any else (), columns, falls_by=None)


def _is_claimed(thread: LikelyGroup, node: NodeTasks) -> bool:
    return thread.group is not None and 0 <= thread.group < len(node.groups)


def _index_table(indices: Sequence[IndexWork]) -> Table:
    found = sorted(indices, key=lambda index: -_total_ms(index))
    highest = max(0.0, _total_ms(found[0])) if found else 0.0
    columns: dict[str, Callable[[IndexWork], Cell]] = {
        "Index": lambda index: Cell(text=readable(index.index)),
        "Work": lambda index: _with_bar(_total_ms(index), highest),
        "Queries": lambda index: _milliseconds(index.query_ms),
        "Indexing": lambda index: _milliseconds(index.index_ms),
        "Merges": lambda index: _milliseconds(index.merge_ms, f"{index.merges:,} under way" if index.merges else ""),
    }
    return table_of(_INDICES, found, columns)


def _total_ms(index: IndexWork) -> float:
    return index.query_ms + index.index_ms + index.merge_ms


def _with_bar(amount: float, highest: float) -> Cell:
    return Cell(text=duration(amount), number=amount, bar=percent_of(max(0.0, amount), highest))


def _cpu(percent: float | None, milliseconds: float | None, highest: float) -> Cell:
    used = "" if milliseconds is None else duration(milliseconds)
    if percent is None:
        return Cell(text=_NONE, after=used, number=-1)
    bar = percent_of(max(0.0, percent), highest)
    return Cell(text=f"{percent:.1f} %", after=used, number=percent, bar=bar)


def _milliseconds(amount: float | None, after: str = "") -> Cell:
    return Cell(text=_NONE, number=-1) if amount is None else Cell(text=duration(amount), after=after, number=amount)
