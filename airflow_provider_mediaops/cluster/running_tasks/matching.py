"""
Match hot threads with tasks by the CPU that both used within the window.

No cluster prints which thread works for which task. On OpenSearch a search that one thread serves for the whole window
uses exactly the CPU of that thread, so equal figures are a sign. A group is claimed for a thread only if nothing else
that was listed, and no other thread, could stand in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.running_tasks.model import LikelyGroup

# Both figures are measured some milliseconds apart, however long the window is: a larger difference is not a match, ...
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


class TaskCpu(NamedTuple):
    """A task that one thread served for the whole window."""

    cpu_ms: float  # within the window
    group: int  # the position of its group


class _ThreadCpu(NamedTuple):
    """A thread that used some CPU."""

    cpu_ms: float
    place: int  # its position in the report


def match(threads: Sequence[LikelyGroup], tasks: Sequence[TaskCpu]) -> tuple[LikelyGroup, ...]:
    """
    Find the group that each thread likely worked for.

    Threads and tasks whose figures lie so near that they could be one another form a cluster. Its threads are claimed
    for the group of its tasks, if all of them are of one group and there are no fewer of them than threads. Threads
    that say why they have no group have no match.
    """
    found = [replace(thread, why_not=thread.why_not or NO_MATCH) for thread in threads]
    candidates = [
        _ThreadCpu(thread.cpu_ms, place)
        for place, thread in enumerate(threads)
        if not thread.why_not and thread.cpu_ms is not None and thread.cpu_ms >= _LEAST_MS
    ]
    for alike, near in _clusters(candidates, tasks):
        is_ambiguous = len(alike) > len(near) or len({task.group for task in near}) > 1
        for cpu_ms, place in alike:
            error_ms = min((abs(cpu_ms - task.cpu_ms) for task in near), default=float("inf"))
            if near and is_ambiguous:
                found[place] = replace(found[place], why_not=AMBIGUOUS)
            elif error_ms <= _CLAIM_MS:
                found[place] = replace(found[place], group=near[0].group, error_ms=round(error_ms, 1), why_not="")
    return tuple(found)


def _clusters(threads: Sequence[_ThreadCpu], tasks: Sequence[TaskCpu]) -> list[tuple[list[_ThreadCpu], list[TaskCpu]]]:
    """Split threads and tasks where the gap between neighbours is wider than a possible difference."""
    clusters: list[tuple[list[_ThreadCpu], list[TaskCpu]]] = []
    before = float("-inf")
    points: list[_ThreadCpu | TaskCpu] = [*threads, *tasks]
    for point in sorted(points, key=lambda point: point.cpu_ms):
        if point.cpu_ms - before > _POSSIBLE_MS:
            clusters.append(([], []))
        before = point.cpu_ms
        if isinstance(point, TaskCpu):
            clusters[-1][1].append(point)
        else:
            clusters[-1][0].append(point)
    return clusters
