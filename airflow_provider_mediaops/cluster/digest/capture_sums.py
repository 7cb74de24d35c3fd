"""Sum up one capture by frame, thread pool and stack, under names that mean the same in every run of every node."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.cluster.comparison import NO_STACK, method_of
from airflow_provider_mediaops.cluster.folded import Measure, kind_of, measures, stacks
from airflow_provider_mediaops.cluster.kinds_of_work.labels import works_of
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

Series = Literal["scheduled", "spike", "unknown"]
"""Captures at high CPU show other things than those of a schedule: they are never summed up together."""

TimeSource = Literal["capture", "report", "file"]
"""Where the time of a capture is from: its JSON file, the time that the nodes print, or the time of its file."""

#: The captures of a spike, and those of a schedule, by the reason in their JSON files.
SERIES_OF_REASON: dict[str | None, Series] = {"spike": "spike", "at_once": "scheduled", "time_limit": "scheduled"}

#: How many pools or nodes a row names. Those beyond are not counted.
MOST_PLACES = 200

# Names that the compiler or the JVM numbers.
_NUMBERED = re.compile(r"(lambda\$\w+?|GeneratedMethodAccessor|GeneratedConstructorAccessor|\$Proxy)\$?[0-9]{1,9}\b")
_REMEMBERED_FRAMES = 50_000
# Of a deeper stack, such as a recursion, only the outermost and innermost frames are kept.
_DEEPEST = 250
_LONGEST_NAME = 500
# With file and line. What is longer was made up, and its beginning counts.
_LONGEST_FRAME = 2_000
_amounts: Callable[[], defaultdict[Any, float]] = partial(defaultdict, float)


@dataclass(slots=True)
class Row:
    """
    The sums of one frame on top of stacks, or of one group of tasks.

    :param captures: the number of captures in which it was seen.
    :param first: the time of the first of these captures, in seconds since 1970.
    :param last: the time of the last.
    :param pools: the number of captures by thread pool; of tasks, by the likely one.
    :param nodes: the number of captures by node.
    :param amount: of a frame, the sum of its parts of the threads' amounts.
    :param running: of tasks, the sum of those that ran.
    :param queued: of tasks, the sum of those that waited for a thread.
    :param longest_ms: of tasks, the longest time that one had existed, in milliseconds.
    :param cpu_ms: of tasks, the sum of their CPU, in milliseconds; 0 if no cluster said.
    """

    captures: int = 0
    first: float = math.inf
    last: float = -math.inf
    pools: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    amount: float = 0.0
    running: int = 0
    queued: int = 0
    longest_ms: float = 0.0
    cpu_ms: float = 0.0

    @property
    def weight(self) -> float:
        """What decides between rows that were seen in as many captures."""
        return self.amount or self.cpu_ms or self.longest_ms * 1e-9

    def merge(self, other: Row) -> None:
        """Add the sums of other captures."""
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.longest_ms = max(self.longest_ms, other.longest_ms)
        self.captures += other.captures
        self.amount += other.amount
        self.running += other.running
        self.queued += other.queued
        self.cpu_ms += other.cpu_ms
        _add_counts(self.pools, other.pools)
        _add_counts(self.nodes, other.nodes)


def _add_counts(counts: dict[str, int], others: dict[str, int]) -> None:
    for name, number in others.items():
        if name in counts or len(counts) < MOST_PLACES:
            counts[name] = counts.get(name, 0) + number


@dataclass(slots=True, kw_only=True)
class CaptureSums:
    """
    The sums of one capture.

    :param path: its file, for people: a path below the source.
    :param time: when it was taken, in seconds since 1970.
    :param time_source: where that time is from.
    :param series: whether it was taken at a spike.
    :param measure: what its threads were sampled for, and the unit of all amounts.
    :param amount: the amounts of all threads of this kind.
    :param frames: the sums of each frame on top of a stack.
    :param pools: the amount of each thread pool.
    :param stacks: the amount of each stack: the pool, then the frames from the outermost on.
    :param works: the amount of each kind of work, by its id.
    :param tasks: the groups of tasks that ran meanwhile, by action, opaque id, index and shape.
    """

    path: str
    time: float
    time_source: TimeSource
    series: Series
    measure: Measure
    amount: float = 0.0
    frames: dict[str, Row] = field(default_factory=dict)
    pools: dict[str, float] = field(default_factory=_amounts)
    stacks: dict[tuple[str, ...], float] = field(default_factory=_amounts)
    works: dict[str, float] = field(default_factory=_amounts)
    tasks: dict[tuple[str, ...], Row] = field(default_factory=dict)


def sums_of(
    report: HotThreadsReport,
    *,
    path: str,
    time: float,
    time_source: TimeSource = "capture",
    series: Series = "unknown",
    tasks: dict[tuple[str, ...], Row] | None = None,
) -> CaptureSums:
    """
    Sum up a capture.

    Threads of the most frequent kind count.
    """
    measure = _measure_of(report)
    sums = CaptureSums(path=path, time=time, time_source=time_source, series=series, measure=measure, tasks=tasks or {})
    for thread in (thread for node in report.nodes for thread in node.threads if kind_of(thread) == measure.kind):
        for work in works_of(thread):
            sums.works[work.label.kind.id] += measure.amount(thread) * work.share
    for stack in stacks(report, measure):
        part = stack.part
        names, pool = stable_methods(stack.frames), stack.pool[:_LONGEST_NAME]
        whole = (pool, *names)
        sums.pools[pool] += part
        sums.stacks[whole] += part
        top = names[-1] if names else NO_STACK
        row = sums.frames.setdefault(top, Row(1, time, time))
        row.amount += part
        row.pools[pool] = row.nodes[stack.node[:_LONGEST_NAME]] = 1
        sums.amount += part
    return sums


def _measure_of(report: HotThreadsReport) -> Measure:
    """Return what was measured: of waits for which a server prints no figures, the number of threads."""
    measure = measures([report])[0]
    if measure.unit == "threads" and measure.kind in ("cpu", "mem"):
        # A capture in which nothing happened has the unit of the others.
        return Measure(measure.kind, "bytes" if measure.kind == "mem" else "percent")
    return measure


def task_rows(running: object, time: float) -> dict[tuple[str, ...], Row]:
    """Return a row for each group of tasks that ran during a capture, by action, opaque id, index and shape."""
    try:
        nodes = RunningTasks.from_dict(running).nodes
    except ValueError:
        return {}
    rows: dict[tuple[str, ...], Row] = {}
    for node in nodes:
        for group in node.groups:
            names = (group.action, group.opaque_id, group.index, group.shape)
            key = tuple(storable(name or "", _LONGEST_NAME) for name in names)
            row = rows.setdefault(key, Row(1, time, time))
            row.running += group.running
            row.queued += group.queued or 0
            row.longest_ms = max(row.longest_ms, group.longest_ms)
            row.cpu_ms += group.cpu_ms or 0.0
            row.nodes[storable(node.label, _LONGEST_NAME)] = 1
            if group.pool:
                row.pools[group.pool] = 1
    return rows


@lru_cache(_REMEMBERED_FRAMES)
def stable_method(frame: str) -> str:
    """Return the method of a frame without anything that changes from run to run or from build to build."""
    return _NUMBERED.sub(r"\1", method_of(frame))


def stable_methods(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods of a stack, as :func:`stable_method` does; of a very deep one, only its two ends."""
    if len(frames) > _DEEPEST:
        half = _DEEPEST // 2
        return (*stable_methods(frames[:half]), "… frames left out …", *stable_methods(frames[-half:]))
    # Frames are remembered, and kept for all captures.
    return tuple(stable_method(frame[:_LONGEST_FRAME]) for frame in frames)
