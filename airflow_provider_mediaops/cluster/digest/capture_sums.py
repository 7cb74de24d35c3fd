"""Sum up one capture by frame, thread pool and stack, under names that mean the same in every run of every node."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.cluster.comparison import NO_STACK, method_of
from airflow_provider_mediaops.cluster.folded import Measure, kind_of, measures, stacks
from airflow_provider_mediaops.cluster.kinds_of_work.labels import works_of
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
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
    """The sums of one frame on top of stacks, or of one group of tasks."""

    captures: int = 0  # in which it was seen
    first: float = math.inf  # the time of the first of them, in seconds since 1970
    last: float = -math.inf
    pools: dict[str, int] = field(default_factory=dict)  # captures by thread pool; of tasks, by the likely one
    nodes: dict[str, int] = field(default_factory=dict)  # captures by node
    amount: float = 0.0  # of a frame, its parts of the threads' amounts
    running: int = 0  # of tasks, those that ran
    queued: int = 0  # of tasks, those that waited for a thread
    longest_ms: float = 0.0  # of tasks, the longest time that one had existed
    cpu_ms: float = 0.0  # of tasks; 0 if no cluster said

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
    """The sums of one capture; all amounts are in the unit of its measure."""

    path: str  # its file, for people
    time: float  # when it was taken, in seconds since 1970
    time_source: TimeSource
    series: Series
    measure: Measure
    amount: float = 0.0  # of all threads of this kind
    frames: dict[str, Row] = field(default_factory=dict)  # by the frame on top of a stack
    pools: dict[str, float] = field(default_factory=_amounts)
    stacks: dict[tuple[str, ...], float] = field(default_factory=_amounts)  # the pool, then frames, outermost first
    works: dict[str, float] = field(default_factory=_amounts)  # by the id of a kind of work
    tasks: dict[tuple[str, ...], Row] = field(default_factory=dict)  # by action, opaque id, index and shape


def sums_of(
    report: HotThreadsReport,
    *,
    path: str,
    time: float,
    time_source: TimeSource = "capture",
    series: Series = "unknown",
    tasks: dict[tuple[str, ...], Row] | None = None,
) -> CaptureSums:
    """Sum up a capture. Threads of the most frequent kind count."""
    measure = _measure_of(report)
    sums = CaptureSums(path=path, time=time, time_source=time_source, series=series, measure=measure, tasks=tasks or {})
    for thread in (thread for node in report.nodes for thread in node.threads if kind_of(thread) == measure.kind):
        for work in works_of(thread):
            sums.works[work.label.kind.id] += measure.amount(thread) * work.share
    for stack in stacks(report, measure):
        names, pool = stable_methods(stack.frames), stack.pool[:_LONGEST_NAME]
        whole = (pool, *names)
        sums.pools[pool] += stack.part
        sums.stacks[whole] += stack.part
        row = sums.frames.setdefault(names[-1] if names else NO_STACK, Row(1, time, time))
        row.amount += stack.part
        row.pools[pool] = row.nodes[stack.node[:_LONGEST_NAME]] = 1
        sums.amount += stack.part
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
