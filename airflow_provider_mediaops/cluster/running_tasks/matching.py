"""
Match hot threads with tasks by the CPU that both used within the window.

No cluster prints which thread works for which task. On OpenSearch a search that one thread serves for the whole window
uses exactly the CPU of that thread, so equal figures are a sign. A group is claimed for a thread only if nothing else
that was listed, and no other thread, could stand in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.running_tasks.model import LikelyGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

# Both figures are measured some milliseconds apart, however long the window is: a larger difference is no match, ...
_CLAIM_MS = 5.0
# ... and a difference up to this is a match that cannot be ruled out.
_POSSIBLE_MS = 6.0
# Threads that hardly used any CPU are all alike.
_LEAST_MS = 10.0

NO_CPU = "the cluster does not say how much CPU its tasks use"
NO_WINDOW = "the report does not say when it was measured"
NO_MATCH = "no listed task used as much CPU"
AMBIGUOUS = "several tasks or threads used as much CPU"
SEVERAL_THREADS = "several threads may work for one search, so that only sums can be compared"
OTHER_POOL = "the cluster counts the CPU of searches only"
IDLE = "it used hardly any CPU"


@dataclass(frozen=True, slots=True)
class ThreadCpu:
    """
    A hot thread.

    :param cpu_ms: its CPU within the window, in milliseconds; None if the report does not say.
    :param why_not: why no task can be its match; empty if one can.
    """

    name: str | None
    cpu_ms: float | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class TaskCpu:
    """
    A task that one thread served for the whole window.

    :param group: the position of its group.
    :param cpu_ms: its CPU within the window, in milliseconds.
    """

    group: int
    cpu_ms: float


def match(threads: Sequence[ThreadCpu], tasks: Sequence[TaskCpu]) -> tuple[LikelyGroup, ...]:
    """
    Find the group that each thread likely worked for.

    Threads and tasks whose figures lie so near that they could be one another form a cluster. Its threads are claimed
    for the group of its tasks, if all of them are of one group and there are no fewer of them than threads.
    """
    found: dict[int, LikelyGroup] = {}
    candidates: list[tuple[float, int]] = []
    for place, thread in enumerate(threads):
        if thread.why_not or thread.cpu_ms is None:
            found[place] = _unclaimed(thread, thread.why_not or NO_CPU)
        elif thread.cpu_ms < _LEAST_MS:
            found[place] = _unclaimed(thread, IDLE)
        else:
            candidates.append((thread.cpu_ms, place))
    for places, near in _clusters(candidates, tasks):
        found.update(_claims(threads, places, near))
    return tuple(found[place] for place in range(len(threads)))


def _claims(threads: Sequence[ThreadCpu], places: list[int], near: list[TaskCpu]) -> dict[int, LikelyGroup]:
    if not near:
        return {place: _unclaimed(threads[place], NO_MATCH) for place in places}
    if len(places) > len(near) or len({task.group for task in near}) > 1:
        return {place: _unclaimed(threads[place], AMBIGUOUS) for place in places}
    return {place: _nearest(threads[place], near) for place in places}


def _nearest(thread: ThreadCpu, near: list[TaskCpu]) -> LikelyGroup:
    """Return the claim of a thread for the group that all of these tasks are of."""
    error_ms = min(abs((thread.cpu_ms or 0.0) - task.cpu_ms) for task in near)
    if error_ms > _CLAIM_MS:
        return _unclaimed(thread, NO_MATCH)
    return LikelyGroup(
        thread=thread.name, cpu_ms=_rounded(thread.cpu_ms), group=near[0].group, error_ms=round(error_ms, 1)
    )


def _clusters(threads: list[tuple[float, int]], tasks: Sequence[TaskCpu]) -> list[tuple[list[int], list[TaskCpu]]]:
    """Split threads and tasks where the gap between neighbours is wider than a possible difference."""
    points: list[tuple[float, int | TaskCpu]] = [*threads, *((task.cpu_ms, task) for task in tasks)]
    points.sort(key=lambda point: point[0])
    clusters: list[tuple[list[int], list[TaskCpu]]] = []
    before = float("-inf")
    for cpu_ms, point in points:
        if cpu_ms - before > _POSSIBLE_MS:
            clusters.append(([], []))
        before = cpu_ms
        if isinstance(point, TaskCpu):
            clusters[-1][1].append(point)
        else:
            clusters[-1][0].append(point)
    return [cluster for cluster in clusters if cluster[0]]


def _unclaimed(thread: ThreadCpu, why_not: str) -> LikelyGroup:
    return LikelyGroup(thread=thread.name, cpu_ms=_rounded(thread.cpu_ms), why_not=why_not)


def _rounded(cpu_ms: float | None) -> float | None:
    return None if cpu_ms is None else round(cpu_ms, 1)
