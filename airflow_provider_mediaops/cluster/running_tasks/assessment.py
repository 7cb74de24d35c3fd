"""Compare what was seen of tasks with the report that was taken meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.running_tasks.groups import grouped, requests_of, task_group
from airflow_provider_mediaops.cluster.running_tasks.matching import (
    NO_CPU,
    NO_WINDOW,
    OTHER_POOL,
    SEVERAL_THREADS,
    TaskCpu,
    match,
)
from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, LikelyGroup, NodeTasks, RunningTasks
from airflow_provider_mediaops.cluster.running_tasks.query_shape import shape_of
from airflow_provider_mediaops.cluster.running_tasks.task_cpu import Window, histories_of
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport
    from airflow_provider_mediaops.cluster.running_tasks.groups import GroupedRequests
    from airflow_provider_mediaops.cluster.running_tasks.model import TaskGroup
    from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampling
    from airflow_provider_mediaops.cluster.running_tasks.task_cpu import TaskHistory

_MOST_GROUPS = 100
_MOST_THREADS = 200
_MOST_INDICES = 50
_LONGEST_NAME = 200
_SEARCH_POOL = "search"
# With concurrent segment search, these work for a search beside the thread that it began on.
_SEARCHER_POOL = "index_searcher"


def assessed(sampling: TaskSampling, report: HotThreadsReport) -> RunningTasks:
    """
    Return what the nodes ran while their report was taken.

    A fault in it is noted in the sampling, because it must not cost the capture.
    """
    try:
        return running_tasks(sampling, report)
    except Exception as error:  # noqa: BLE001 whatever a cluster sent, the report itself is at hand
        # Not its words: they could quote a query.
        sampling.warn(f"The listed tasks could not be compared with the report ({type(error).__name__}).")
        return RunningTasks(remarks=tuple(sampling.remarks))


def running_tasks(sampling: TaskSampling, report: HotThreadsReport) -> RunningTasks:
    """Return what the nodes ran while their report was taken."""
    hot = {node.node_id: node for node in report.nodes if node.node_id}
    hot_by_name = {node.name: node for node in report.nodes if node.name}
    # Many requests have the same query.
    shape = cache(shape_of)
    nodes = [
        _node_tasks(sampling, node_id, name, hot.get(node_id) or hot_by_name.get(name or ""), shape)
        for node_id, name in sampling.nodes.items()
    ]
    return RunningTasks(nodes=tuple(nodes), remarks=tuple(sampling.remarks))


def _node_tasks(
    sampling: TaskSampling, node_id: str, name: str | None, hot: HotNode | None, shape: Callable[[str], str]
) -> NodeTasks:
    remarks = list(sampling.node_remarks.get(node_id, ()))
    histories = histories_of(sampling.looks, node_id)
    window = _window_of(hot)
    hot_ms = _hot_ms(hot)
    found = [
        (group, task_group(group, sampling.looks, window, hot_ms, shows_query=sampling.shows_queries))
        for group in grouped(requests_of(histories, sampling.ancestors), shape)
    ]
    found.sort(key=lambda pair: _weight(pair[1]), reverse=True)
    used = [group.cpu_ms for _, group in found]
    if hot is None:
        remarks.append("The node is not in the report.")
    elif window is None and sampling.looks:
        remarks.append("The report does not say when the threads were measured, so CPU cannot be compared.")
    if hot and hot_ms is not None and sum(cpu_ms or 0.0 for cpu_ms in used) > 1.1 * hot_ms:
        remarks.append(
            f"The tasks used more CPU than the {len(hot.threads)} threads of the report: raise threads to see the rest."
        )
    # No thread is given to a group that is left out.
    kept = found[:_MOST_GROUPS]
    counts = [sum(task.node_id == node_id for task in look.tasks) for look in sampling.looks]
    return NodeTasks(
        node_id=node_id,
        node=(name or (hot.name if hot else None)),
        looks_ms=tuple(round(look.after_seconds * 1_000, 1) for look in sampling.looks),
        listed_at_start=counts[0] if counts else 0,
        listed_at_end=counts[-1] if counts else 0,
        pools=sampling.pools.get(node_id, ()),
        groups=tuple(group for _, group in kept),
        groups_left_out=len(found) - len(kept),
        threads=_threads(hot, [group for group, _ in kept], window, histories) if sampling.looks else (),
        unexplained_percent=_unexplained(used, hot_ms) if sampling.looks else None,
        indices=_index_work(sampling, node_id, remarks),
        remarks=tuple(remarks),
    )


def _weight(group: TaskGroup) -> tuple[float, float, float]:
    return (group.cpu_ms or 0.0, group.running, group.longest_ms)


def _window_of(hot: HotNode | None) -> Window | None:
    if hot is None or hot.timestamp is None or not hot.interval_seconds:
        return None
    start_ms = hot.timestamp.timestamp() * 1_000
    return Window(start_ms, start_ms + hot.interval_seconds * 1_000)


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


def _unexplained(used: Sequence[float | None], hot_ms: float | None) -> float | None:
    if not hot_ms or (used and all(cpu_ms is None for cpu_ms in used)):
        return None
    explained = sum(cpu_ms or 0.0 for cpu_ms in used)
    return round(max(0.0, 100.0 - 100.0 * explained / hot_ms), 1)


def _threads(
    hot: HotNode | None, groups: Sequence[GroupedRequests], window: Window | None, histories: dict[str, TaskHistory]
) -> tuple[LikelyGroup, ...]:
    threads = hot.threads[:_MOST_THREADS] if hot else ()
    marks = [mark for history in histories.values() for mark in history.marks.values()]
    is_concurrent = any(thread.pool == _SEARCHER_POOL for thread in threads) or any(
        (mark.executions or 0) > 1 or (mark.active_threads or 0) > 1 for mark in marks
    )
    why_not = SEVERAL_THREADS if is_concurrent else ""
    if window is None:
        why_not = NO_WINDOW
    if marks and all(mark.cpu_ms is None for mark in marks):
        why_not = NO_CPU
    tasks = [] if why_not or window is None else _candidates(groups, window)
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


def _candidates(groups: Sequence[GroupedRequests], window: Window) -> list[TaskCpu]:
    """Return the tasks that one thread served for the whole window."""
    return [
        TaskCpu(cpu_ms, number)
        for number, group in enumerate(groups)
        for history in group.histories
        if history.last.is_search_phase and history.had_one_thread and history.covers(window)
        if (cpu_ms := history.cpu_within(window)) is not None
    ]


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
