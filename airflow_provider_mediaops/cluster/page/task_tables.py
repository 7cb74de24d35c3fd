"""The part of the page that shows which tasks ran on the hot nodes while their threads were measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.page.tables import MOST_ROWS, Cell, Table, number_cell, percent_of
from airflow_provider_mediaops.cluster.page.text import count, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
_CPU = "Share of CPU"
_MOST_POOLS = 8
_MOST_REMARKS = 10
_MOST_LOOKS = 100
_NONE = "–"  # noqa: RUF001 - a dash
_SEEN = {"start": "at the start", "end": "at the end", "both": "at both ends", "between": "in between"}
# Below, a digit after the point is worth its place.
_FEW_MS = 10.0
_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1_000.0, 60_000.0, 3_600_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSection:
    """
    What the page says about the tasks of one node.

    :param heading: the node, and the capture if there are several.
    :param has_heaviest: whether the first sentence says what used most of the CPU.
    :param sentences: what was looked at, and what used most of the CPU.
    :param remarks: what was not asked, was refused or was cut, and why.
    :param tables: groups, threads and indices; those that are empty are left out.
    """

    heading: str
    has_heaviest: bool
    sentences: tuple[str, ...]
    remarks: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSection:
    """
    What the page says about running tasks.

    :param nodes_beyond: the number of nodes that are left out, such as `3 nodes`; empty if there are none.
    :param has_requests: whether any node has listed requests.
    :param has_cpu: whether any node has shares of CPU.
    :param has_threads: whether any node has likely requests of its threads.
    :param has_indices: whether any node has work on indices.
    """

    nodes: tuple[NodeSection, ...]
    nodes_beyond: str
    remarks: tuple[str, ...]
    has_requests: bool
    has_cpu: bool
    has_threads: bool
    has_indices: bool


def task_section(labels: Sequence[str], found: Iterable[RunningTasks | None]) -> TaskSection | None:
    """
    Return the section on the tasks that ran while captures were taken.

    :param found: the tasks of each, which are read one after the other; None if nobody asked for them.
    :returns: the section; None if nobody asked for the tasks of any capture.
    """
    several = len(labels) > 1
    most = max(1, MOST_NODES // len(labels))
    sections: list[NodeSection] = []
    remarks: list[str] = []
    beyond, asked = 0, False
    for label, tasks in zip(labels, found, strict=True):
        if tasks is not None:
            asked = True
            sections += [_node_section(node, label if several else "") for node in _heaviest(tasks.nodes, most)]
            remarks += [f"{label}: {remark}" if several else remark for remark in _remarks(tasks.remarks)]
            beyond += max(0, len(tasks.nodes) - most)
    if not asked:
        return None
    shown = {table.caption for section in sections for table in section.tables}
    return TaskSection(
        nodes=tuple(sections),
        nodes_beyond=count(beyond, "node") if beyond else "",
        remarks=tuple(remarks),
        has_requests=_REQUESTS in shown,
        has_cpu=any(_CPU in table.columns for section in sections for table in section.tables),
        has_threads=_THREADS in shown,
        has_indices=_INDICES in shown,
    )


def _heaviest(nodes: Sequence[NodeTasks], most: int) -> list[NodeTasks]:
    if len(nodes) <= most:
        return list(nodes)
    order = sorted(range(len(nodes)), key=lambda number: _weight(nodes[number]))[:most]
    return [nodes[number] for number in sorted(order)]


def _weight(node: NodeTasks) -> tuple[float, int]:
    """Return what sorts the nodes with most CPU of hot threads, then most groups, first."""
    return -(_hot_ms(node) or 0.0), -len(node.groups)


def _hot_ms(node: NodeTasks) -> float | None:
    """Return the CPU of the hot threads of a node in milliseconds; None if the report does not say."""
    known = [thread.cpu_ms for thread in node.threads if thread.cpu_ms is not None]
    return sum(known) if known else None


def _remarks(remarks: Sequence[str]) -> list[str]:
    return [readable(remark) for remark in remarks[:_MOST_REMARKS]]


def _node_section(node: NodeTasks, label: str) -> NodeSection:
    tables = (_group_table(node), _thread_table(node), _index_table(node.indices))
    heaviest = _heaviest_sentence(node)
    return NodeSection(
        heading=readable(node.label) + (f", capture {label}" if label else ""),
        has_heaviest=bool(heaviest),
        sentences=tuple(sentence for sentence in (heaviest, _looks(node), _pools(node)) if sentence),
        remarks=tuple(_remarks(node.remarks)),
        tables=tuple(table for table in tables if table.rows),
    )


def _heaviest_sentence(node: NodeTasks) -> str:
    """Return how much of the CPU the heaviest group used; empty if the cluster does not say."""
    hot = _hot_ms(node)
    known = [group for group in node.groups if group.cpu_ms]
    if not known or not hot:
        return ""
    group = max(known, key=lambda one: one.cpu_ms or 0.0)
    return f"{_who(group)} used {duration(group.cpu_ms)} of the {duration(hot)} of CPU that the hot threads used."


def _who(group: TaskGroup) -> str:
    """Return the shortest name of a group: its opaque id if it has one, and what it does to which index."""
    where = f" on {readable(group.index)}" if group.index else ""
    doing = f"{readable(group.action)}{where}"
    return f"{readable(group.opaque_id)} ({doing})" if group.opaque_id else doing


def _looks(node: NodeTasks) -> str:
    looks = node.looks_ms[:_MOST_LOOKS]
    if not looks:
        return "Its tasks were not listed."
    times = f"{min(looks):.0f} to {max(looks):.0f} ms" if len(looks) > 1 else f"{looks[0]:.0f} ms"
    ends = f"{count(node.listed_at_start, 'task')} at the first look, {node.listed_at_end:,} at the last"
    if len(looks) > 1:
        return f"Listed {len(looks):,} times, {times} after the report was asked for: {ends}."
    return f"Listed once, {times} after the report was asked for: {count(node.listed_at_start, 'task')}."


def _pools(node: NodeTasks) -> str:
    if not node.pools:
        return ""
    shown = [
        f"{readable(pool.pool)} {pool.active:,} active, {pool.queue:,} queued"
        + (f", {pool.rejected:,} rejected since the start of the node" if pool.rejected else "")
        for pool in node.pools[:_MOST_POOLS]
    ]
    more = f"; {len(node.pools) - _MOST_POOLS} more" if len(node.pools) > _MOST_POOLS else ""
    return f"Thread pools right before: {'; '.join(shown)}{more}."


def _group_table(node: NodeTasks) -> Table:
    """Return a row a group, and what no listed task explains; columns of which nothing is known are left out."""
    groups = node.groups[:MOST_ROWS]
    has_cpu = any(group.cpu_ms is not None for group in groups) or node.unexplained_percent is not None
    has_query = any(group.shape or group.query for group in groups)
    has_queue = any(group.queued is not None for group in groups)
    columns = (
        "X-Opaque-Id",
        "Action",
        "Index",
        *(["Query"] if has_query else []),
        *([_CPU] if has_cpu else []),
        "Requests",
        "Running",
        *(["Queued"] if has_queue else []),
        "Longest",
        "Listed",
        "Likely pool",
    )
    highest = max([group.cpu_share_percent or 0.0 for group in groups] + [node.unexplained_percent or 0.0, 0.0])
    rows = [_group_row(group, highest, has_cpu=has_cpu, has_query=has_query, has_queue=has_queue) for group in groups]
    if node.unexplained_percent is not None:
        # A column is sorted by numbers or by texts, in all of its rows.
        figures = [cell.number is not None for cell in rows[0]] if rows else [False] * len(columns)
        row = [Cell(text="", number=-1 if is_figure else None) for is_figure in figures]
        row[0] = Cell(text="not explained by any listed task")
        row[columns.index(_CPU)] = _cpu(node.unexplained_percent, None, highest)
        rows.append(tuple(row))
    return Table(
        caption=_REQUESTS,
        columns=columns,
        rows=tuple(rows),
        beyond=max(0, len(node.groups) - MOST_ROWS) + node.groups_left_out,
        falls_by=None,
    )


def _group_row(
    group: TaskGroup, highest: float, *, has_cpu: bool, has_query: bool, has_queue: bool
) -> tuple[Cell, ...]:
    return (
        Cell(text=readable(group.opaque_id)) if group.opaque_id else Cell(text="", after="no X-Opaque-Id"),
        Cell(text=readable(group.action)),
        Cell(text=readable(group.index or _NONE)),
        *([_query(group)] if has_query else []),
        *([_cpu(group.cpu_share_percent, group.cpu_ms, highest)] if has_cpu else []),
        number_cell(group.requests, _NONE),
        number_cell(group.running, _NONE),
        *([number_cell(group.queued, _NONE)] if has_queue else []),
        _milliseconds(group.longest_ms),
        Cell(text=_SEEN[group.seen]),
        Cell(text=readable(group.pool or _NONE)),
    )


def _query(group: TaskGroup) -> Cell:
    text = readable(group.query or group.shape or _NONE, LONGEST_QUERY)
    some = 0 < group.read_requests < group.requests
    return Cell(text=text, after=f"read of {group.read_requests:,} of {group.requests:,}" if some else "")


def _thread_table(node: NodeTasks) -> Table:
    threads = node.threads[:MOST_ROWS]
    return Table(
        caption=_THREADS,
        columns=("Thread", "CPU", "Likely request", "Difference"),
        rows=tuple(
            (Cell(text=readable(thread.thread or "<no name>")), _milliseconds(thread.cpu_ms), *_likely(thread, node))
            for thread in threads
        )
        if any(thread.group is not None or thread.why_not for thread in threads)
        else (),
        beyond=max(0, len(node.threads) - MOST_ROWS),
        falls_by=None,
    )


def _likely(thread: LikelyGroup, node: NodeTasks) -> tuple[Cell, Cell]:
    if thread.group is None or not 0 <= thread.group < len(node.groups):
        return Cell(text="", after=readable(thread.why_not) or "none"), Cell(text=_NONE, number=-1)
    return Cell(text=_who(node.groups[thread.group])), _milliseconds(thread.error_ms)


def _index_table(indices: Sequence[IndexWork]) -> Table:
    shown = sorted(indices, key=lambda index: -_total_ms(index))[:MOST_ROWS]
    highest = max((_total_ms(index) for index in shown), default=0.0)
    return Table(
        caption=_INDICES,
        columns=("Index", "Work", "Queries", "Indexing", "Merges"),
        rows=tuple(
            (
                Cell(text=readable(index.index)),
                _with_bar(_total_ms(index), highest),
                _milliseconds(index.query_ms),
                _milliseconds(index.index_ms),
                _milliseconds(index.merge_ms, f"{index.merges:,} under way" if index.merges else ""),
            )
            for index in shown
        ),
        beyond=max(0, len(indices) - MOST_ROWS),
    )


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


def duration(milliseconds: float | None) -> str:
    """
    Write a duration.

    :returns: such as `1.4 ms`, `464 ms`, `4.2 s`, `12.5 min`, `30.1 h`.
    """
    if milliseconds is None:
        return "unknown"
    if milliseconds < _SECOND_MS:
        return f"{milliseconds:.{int(0 < milliseconds < _FEW_MS)}f} ms"
    for unit, length, most in (("s", _SECOND_MS, _MINUTE_MS), ("min", _MINUTE_MS, _HOUR_MS)):
        if milliseconds < most:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds / _HOUR_MS:,.1f} h"
