"""
Compare what was seen of tasks with the report that was taken meanwhile.

No cluster prints which thread works for which task. On OpenSearch a search that one thread serves for the whole window
uses exactly the CPU of that thread, so equal figures are a sign. A group is claimed for a thread only if nothing else
that was listed, and no other thread, could stand in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.cluster.running_tasks.descriptions import shape_of
from airflow_provider_mediaops.cluster.running_tasks.groups import histories_of, task_groups
from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, LikelyGroup, NodeTasks, RunningTasks
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport
    from airflow_provider_mediaops.cluster.running_tasks.groups import TaskHistory
    from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampling

_MOST_GROUPS = 100
_MOST_THREADS = 200
_MOST_INDICES = 50
_LONGEST_NAME = 200
_SEARCH_POOL = "search"
# With concurrent segment search, these work for a search beside the thread that it began on.
_SEARCHER_POOL = "index_searcher"
# The CPU of a thread and of its task are measured some milliseconds apart, however long the window is: a larger
# difference is not a match, ...
_CLAIM_MS = 5.0
# ... and a difference up to this is a match that cannot be ruled out.
_POSSIBLE_MS = 6.0
# Threads that hardly used any CPU are all alike.
_LEAST_MS = 10.0

# Why no group is claimed for a thread.
NO_CPU = "the cluster does not say how much CPU its tasks use"
NO_WINDOW = "the report does not say when it was measured"
NO_MATCH = "no listed task used as much CPU"
AMBIGUOUS = "several tasks or threads used as much CPU"
SEVERAL_THREADS = "several threads may work for one search, so that only sums can be compared"
OTHER_POOL = "the cluster counts the CPU of searches only"


def assessed(sampling: TaskSampling, report: HotThreadsReport) -> RunningTasks:
    """Return what the nodes ran while their report was taken. A fault in it is noted: it must not cost the capture."""
    hot = {name: node for node in report.nodes for name in (node.name, node.node_id) if name}
    # Many requests have the same query.
    shape = cache(shape_of)
    try:
        nodes = tuple(
            _node_tasks(sampling, node_id, name, hot.get(node_id) or hot.get(name or ""), shape)
            for node_id, name in sampling.nodes.items()
        )
    except Exception as error:  # noqa: BLE001 whatever a cluster sent, the report itself is at hand
        # Not its words: they could quote a query.
        sentence = f"The listed tasks could not be compared with the report ({type(error).__name__})."
        return RunningTasks(remarks=(*sampling.remarks, sentence))
    return RunningTasks(nodes=nodes, remarks=sampling.remarks)


def _node_tasks(
    sampling: TaskSampling, node_id: str, name: str | None, hot: HotNode | None, shape: Callable[[str], str]
) -> NodeTasks:
    remarks = [remark] if (remark := sampling.node_remarks.get(node_id)) else []
    histories = histories_of(sampling.looks, node_id)
    window = _window_of(hot)
    hot_ms = _hot_ms(hot)
    found = task_groups(sampling, histories, window, hot_ms, shape)
    used = [group.cpu_ms for group, _ in found if group.cpu_ms is not None]
    if hot is None:
        remarks.append("The node is not in the report.")
    elif window is None and sampling.looks:
        remarks.append("The report does not say when the threads were measured, so CPU cannot be compared.")
    if hot and hot_ms is not None and sum(used) > 1.1 * hot_ms:
        remarks.append(
            f"The tasks used more CPU than the {len(hot.threads)} threads of the report: raise threads to see the rest."
        )
    # A share is explained if the cluster says how much CPU a task used, or if there was none.
    explains = bool(sampling.looks and (used or not found))
    # No thread is given to a group that is left out.
    kept = found[:_MOST_GROUPS]
    counts = [sum(task.node_id == node_id for task in look.tasks) for look in sampling.looks] or [0]
    return NodeTasks(
        node_id=node_id,
        node=(name or (hot.name if hot else None)),
        looks_ms=tuple(round(look.after_seconds * 1_000, 1) for look in sampling.looks),
        listed_at_start=counts[0],
        listed_at_end=counts[-1],
        pools=sampling.pools.get(node_id, ()),
        groups=tuple(group for group, _ in kept),
        groups_left_out=len(found) - len(kept),
        threads=_threads(hot, [tasks for _, tasks in kept], window, histories) if hot and sampling.looks else (),
        unexplained_percent=round(max(0.0, 100.0 - 100.0 * sum(used) / hot_ms), 1) if hot_ms and explains else None,
        indices=_index_work(sampling, node_id, remarks),
        remarks=tuple(remarks),
    )


def _window_of(hot: HotNode | None) -> tuple[float, float] | None:
    """Return when the CPU of threads was measured, from and to, in milliseconds since 1970 by the node's clock."""
    if hot is None or hot.timestamp is None or not hot.interval_seconds:
        return None
    start_ms = hot.timestamp.timestamp() * 1_000
    return start_ms, start_ms + hot.interval_seconds * 1_000


def _cpu_ms(thread: HotThread) -> float | None:
    """Return the CPU of a thread in milliseconds; the time that some servers print counts other time as well."""
    if thread.kind != "cpu" or thread.cpu_percent is None:
        return None
    is_cpu_only = thread.other_percent is None and thread.idle_percent is None
    if is_cpu_only and thread.seconds is not None:
        return thread.seconds * 1_000
    return None if thread.out_of_seconds is None else thread.cpu_percent / 100 * thread.out_of_seconds * 1_000


def _hot_ms(hot: HotNode | None) -> float | None:
    known = [cpu_ms for thread in hot.threads if (cpu_ms := _cpu_ms(thread)) is not None] if hot else []
    return sum(known) if known else None


def _threads(
    hot: HotNode,
    groups: Sequence[Sequence[TaskHistory]],
    window: tuple[float, float] | None,
    histories: dict[str, TaskHistory],
) -> tuple[LikelyGroup, ...]:
    threads = hot.threads[:_MOST_THREADS]
    marks = [mark for history in histories.values() for mark in history.marks.values()]
    is_concurrent = any(thread.pool == _SEARCHER_POOL for thread in threads) or any(
        (mark.executions or 0) > 1 or (mark.active_threads or 0) > 1 for mark in marks
    )
    why_not = SEVERAL_THREADS if is_concurrent else ""
    if window is None:
        why_not = NO_WINDOW
    if marks and all(mark.cpu_ms is None for mark in marks):
        why_not = NO_CPU
    # Those that one thread served for the whole window.
    tasks = [
        (cpu_ms, number)
        for number, group in enumerate(groups)
        for history in group
        if window and history.last.is_search_phase and history.fills(window)
        if (cpu_ms := history.cpu_within(window)) is not None
    ]
    return match([_unmatched(thread, why_not) for thread in threads], tasks)


def _unmatched(thread: HotThread, why_not: str) -> LikelyGroup:
    """Return a thread without a group; with the reason, if it cannot have one."""
    cpu_ms = _cpu_ms(thread)
    if why_not in ("", SEVERAL_THREADS) and thread.pool not in (_SEARCH_POOL, _SEARCHER_POOL):
        why_not = OTHER_POOL
    elif cpu_ms is None:
        why_not = why_not or NO_CPU
    return LikelyGroup(
        thread=thread.name and storable(thread.name, _LONGEST_NAME),
        cpu_ms=None if cpu_ms is None else round(cpu_ms, 1),
        why_not=why_not,
    )


class _Figure(NamedTuple):
    cpu_ms: float
    of: int  # the place of a thread in the report, or of the group of a task


def match(threads: Sequence[LikelyGroup], tasks: Sequence[tuple[float, int]]) -> tuple[LikelyGroup, ...]:
    """
    Find the group that each thread likely worked for, by the CPU of tasks in milliseconds and the place of their group.

    Threads and tasks whose figures lie so near that they could be one another form a cluster. Its threads are claimed
    for the group of its tasks, if all of them are of one group and there are no fewer of them than threads. Threads
    that say why they have no group have no match.
    """
    found = [replace(thread, why_not=thread.why_not or NO_MATCH) for thread in threads]
    measured = [
        _Figure(thread.cpu_ms, place)
        for place, thread in enumerate(threads)
        if not thread.why_not and thread.cpu_ms is not None and thread.cpu_ms >= _LEAST_MS
    ]
    for alike, near in _clusters(measured, [_Figure(*task) for task in tasks]):
        is_ambiguous = len(alike) > len(near) or len({group for _, group in near}) > 1
        for cpu_ms, place in alike:
            error_ms = min((abs(cpu_ms - of_task) for of_task, _ in near), default=float("inf"))
            if near and is_ambiguous:
                found[place] = replace(found[place], why_not=AMBIGUOUS)
            elif error_ms <= _CLAIM_MS:
                group = near[0][1]
                found[place] = replace(found[place], group=group, error_ms=round(error_ms, 1), why_not="")
    return tuple(found)


def _clusters(threads: Iterable[_Figure], tasks: Iterable[_Figure]) -> list[tuple[list[_Figure], list[_Figure]]]:
    """Split threads and tasks where the gap between neighbours is wider than a possible difference."""
    clusters: list[tuple[list[_Figure], list[_Figure]]] = []
    before = float("-inf")
    for figure, is_task in sorted([*((each, False) for each in threads), *((each, True) for each in tasks)]):
        if figure.cpu_ms - before > _POSSIBLE_MS:
            clusters.append(([], []))
        clusters[-1][is_task].append(figure)
        before = figure.cpu_ms
    return clusters


def _index_work(sampling: TaskSampling, node_id: str, remarks: list[str]) -> tuple[IndexWork, ...]:
    before, after = sampling.shards_before.get(node_id), sampling.shards_after.get(node_id)
    if before is None or after is None:
        if before is not None or after is not None:
            remarks.append("The statistics of its shards were read only once, so that work on indices is not known.")
        return ()
    work = []
    for name, end in after.items():
        start = before.get(name)
        if start is None:
            continue
        # A shard that was moved or reopened begins to count at 0 again.
        work_on = IndexWork(
            index=storable(name, _LONGEST_NAME),
            query_ms=max(0.0, end.query_ms - start.query_ms),
            index_ms=max(0.0, end.index_ms - start.index_ms),
            merge_ms=max(0.0, end.merge_ms - start.merge_ms),
            merges=end.merges,
        )
        if work_on.total_ms or work_on.merges:
            work.append(work_on)
    work.sort(key=lambda index: (-index.total_ms, -index.merges, index.index))
    return tuple(work[:_MOST_INDICES])
