"""
Sum up captures: each by frame, thread pool and stack, and many of them in bounded room.

Names mean the same in every run of every node. The captures of each series and kind have a profile of their own.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from airflow_provider_mediaops.cluster.folded import NO_STACK, Measure, kind_of, measures, method_of, stacks
from airflow_provider_mediaops.cluster.kinds_of_work import works_of
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.period import Period
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

KeyT = TypeVar("KeyT", str, tuple[str, ...])

Series = Literal["scheduled", "spike", "unknown"]
"""Captures at high CPU show other things than those of a schedule: they are never summed up together."""

TimeSource = Literal["capture", "report", "file"]
"""Where the time of a capture is from: its JSON file, the time that the nodes print, or the time of its file."""

ProfileKey = tuple[Series, Measure]
"""The series and the measure of a profile: amounts of different measures are never added up."""

#: The lengths of a span of time, in seconds: each is a multiple of the one before.
WIDTHS = (600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800, 2_419_200, 31_449_600, 314_496_000)
#: The maximum number of spans between the first capture and the last.
MOST_SPANS = 100
#: How many frames and groups of tasks are kept, by the number of their captures; stacks, by their amounts; and thread
#: pools. Twice as many are counted before the rest is dropped; pools are summed up as :data:`OTHER_POOLS`.
MOST_ROWS, MOST_STACKS, MOST_POOLS = 2_000, 1_500, 100
OTHER_POOLS = "(other pools)"
#: How many captures of a pool at a time are named: those in which it was hottest.
MOST_NAMED = 3
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


class ReadCapture(NamedTuple):
    """A capture as it was read, and why it was taken."""

    report: HotThreadsReport
    path: str  # its file, for people
    time: float  # when it was taken, in seconds since 1970
    time_source: TimeSource
    series: Series = "unknown"
    running_tasks: object = None  # the tasks that ran meanwhile, as its JSON file has them


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

    def merge(self, other: Row) -> None:
        """Add the sums of other captures."""
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.longest_ms = max(self.longest_ms, other.longest_ms)
        self.captures += other.captures
        self.amount += other.amount
        self.running += other.running
        self.queued += other.queued
        self.cpu_ms += other.cpu_ms
        for counts, others in ((self.pools, other.pools), (self.nodes, other.nodes)):
            for name, number in others.items():
                if name in counts or len(counts) < MOST_PLACES:
                    counts[name] = counts.get(name, 0) + number


class CaptureSums:
    """The sums of one capture. Threads of the most frequent kind count; all amounts are in the unit of its measure."""

    def __init__(self, read: ReadCapture) -> None:
        self.measure = measure = _measure_of(read.report)
        #: The amount of all threads of this kind.
        self.amount = 0.0
        #: By the frame on top of a stack.
        self.frames: dict[str, Row] = {}
        self.pools: defaultdict[str, float] = defaultdict(float)
        #: By the pool, then frames, outermost first.
        self.stacks: defaultdict[tuple[str, ...], float] = defaultdict(float)
        #: By the id of a kind of work.
        self.works: defaultdict[str, float] = defaultdict(float)
        #: By action, opaque id, index and shape.
        self.tasks = _task_rows(read)
        for node in read.report.nodes:
            for thread in node.threads:
                if kind_of(thread) == measure.kind:
                    for work in works_of(thread):
                        self.works[work.label.kind.id] += measure.amount(thread) * work.share
        for stack in stacks(read.report, measure):
            names, pool = stable_methods(stack.frames), stack.pool[:_LONGEST_NAME]
            self.amount += stack.part
            self.pools[pool] += stack.part
            whole = (pool, *names)
            self.stacks[whole] += stack.part
            row = self.frames.setdefault(names[-1] if names else NO_STACK, Row(1, read.time, read.time))
            row.amount += stack.part
            row.pools[pool] = row.nodes[stack.node[:_LONGEST_NAME]] = 1


def _measure_of(report: HotThreadsReport) -> Measure:
    """Return what was measured: of waits for which a server prints no figures, the number of threads."""
    measure = measures([report])[0]
    if measure.unit == "threads" and measure.kind in ("cpu", "mem"):
        # A capture in which nothing happened has the unit of the others.
        return Measure(measure.kind, "bytes" if measure.kind == "mem" else "percent")
    return measure


def _task_rows(read: ReadCapture) -> dict[tuple[str, ...], Row]:
    """Return a row for each group of tasks that ran during a capture."""
    rows: dict[tuple[str, ...], Row] = {}
    try:
        nodes = RunningTasks.from_dict(read.running_tasks).nodes
    except ValueError:
        return rows
    for node in nodes:
        for group in node.groups:
            names = (group.action, group.opaque_id, group.index, group.shape)
            key = tuple(storable(name or "", _LONGEST_NAME) for name in names)
            row = rows.setdefault(key, Row(1, read.time, read.time))
            row.running += group.running
            row.queued += group.queued or 0
            row.longest_ms = max(row.longest_ms, group.longest_ms)
            row.cpu_ms += group.cpu_ms or 0.0
            row.nodes[storable(node.label, _LONGEST_NAME)] = 1
            if group.pool:
                row.pools[group.pool] = 1
    return rows


@lru_cache(_REMEMBERED_FRAMES)
def _stable_method(frame: str) -> str:
    """Return the method of a frame without anything that changes from run to run or from build to build."""
    return _NUMBERED.sub(r"\1", method_of(frame))


def stable_methods(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods of a stack without what changes from run to run; of a very deep one, only its two ends."""
    if len(frames) > _DEEPEST:
        half = _DEEPEST // 2
        return (*stable_methods(frames[:half]), "… frames left out …", *stable_methods(frames[-half:]))
    # Frames are remembered, and kept for all captures.
    return tuple(_stable_method(frame[:_LONGEST_FRAME]) for frame in frames)


class BoundedRows:
    """
    Rows by key, of which those seen most often are kept.

    There are up to twice ``limit`` rows; then the rarer half is dropped. A dropped row may come back, and lacks its
    first captures then: at most :attr:`error` of them.
    """

    def __init__(self, limit: int = MOST_ROWS) -> None:
        self._limit = limit
        #: The rows by key: the parts of a name.
        self.rows: dict[tuple[str, ...], Row] = {}
        #: The number of captures that a row may lack; 0 as long as none was dropped.
        self.error = 0

    def add(self, key: tuple[str, ...], row: Row) -> None:
        """Add the sums of one or more captures."""
        self.rows.setdefault(key, Row()).merge(row)

    def prune(self) -> None:
        """Drop the rarer half of the rows, if there are too many."""
        if len(self.rows) <= 2 * self._limit:
            return
        ranked = self.ranked()
        # What had been dropped before may have been as frequent as what is dropped now.
        self.error += max(row.captures for _, row in ranked[self._limit :])
        self.rows = dict(ranked[: self._limit])

    def ranked(self) -> list[tuple[tuple[str, ...], Row]]:
        """Return the rows with their keys: first those in the most captures, then the heaviest."""

        def rank(item: tuple[tuple[str, ...], Row]) -> tuple[Any, ...]:
            key, row = item
            return -row.captures, -row.amount, -row.cpu_ms, -row.longest_ms, key

        return sorted(self.rows.items(), key=rank)


class NamedCapture(NamedTuple):
    """A capture that a thread pool names at a time."""

    amount: float  # of the pool's threads in it
    time: float  # when it was taken, in seconds since 1970
    path: str


@dataclass(slots=True)
class Cell:
    """The sums of a span of time."""

    captures: int
    amount: float
    hottest: tuple[NamedCapture, ...] = ()  # of a thread pool: the captures in which it was hottest, the hottest first


class SpanSums(Generic[KeyT]):
    """Sums by key and span of time."""

    def __init__(self) -> None:
        #: By key, then by the beginning of the span.
        self.rows: dict[KeyT, dict[int, Cell]] = {}

    def add(self, key: KeyT, span: int, cell: Cell) -> None:
        """Add the sums of one or more captures."""
        known: Cell = self.rows.setdefault(key, {}).setdefault(span, cell)
        if known is not cell:
            known.captures += cell.captures
            known.amount += cell.amount
            both = (*known.hottest, *cell.hottest)
            known.hottest = tuple(sorted(both, key=lambda each: (-each.amount, each.time, each.path))[:MOST_NAMED])

    def join(self, span_of: Callable[[float], int]) -> None:
        """Join spans to longer ones."""
        rows, self.rows = self.rows, {}
        for key, row in rows.items():
            for span, cell in row.items():
                self.add(key, span_of(span), cell)

    def ranked(self) -> list[tuple[KeyT, int, float]]:
        """Return the keys with captures and amount over all time, that of the highest amount first."""
        sums = [
            (key, sum(cell.captures for cell in row.values()), sum(cell.amount for cell in row.values()))
            for key, row in self.rows.items()
        ]
        return sorted(sums, key=lambda item: (-item[2], item[0]))


class Profile:
    """The sums of the captures of one series and one measure. It is bounded, whatever the number of captures."""

    def __init__(self, width: int) -> None:
        #: The length of a span of time, in seconds.
        self.width = width
        self.captures = 0
        #: The amount of all threads.
        self.amount = 0.0
        self.first, self.last = math.inf, -math.inf
        self.frames, self.tasks = BoundedRows(), BoundedRows()
        #: The number of captures that saw a task.
        self.captures_with_tasks = 0
        self._whole: SpanSums[str] = SpanSums()
        self.pools: SpanSums[str] = SpanSums()
        #: By the id of a kind of work.
        self.works: SpanSums[str] = SpanSums()
        #: By the pool, then the frames from the outermost on.
        self.stacks: SpanSums[tuple[str, ...]] = SpanSums()

    @property
    def spans(self) -> dict[int, Cell]:
        """Captures and amount by the beginning of a span of time."""
        return self._whole.rows[""]

    def add(self, read: ReadCapture, sums: CaptureSums) -> None:
        """Add a capture."""
        span = self._span_of(read.time)
        self.captures += 1
        self.amount += sums.amount
        self.first, self.last = min(self.first, read.time), max(self.last, read.time)
        self.captures_with_tasks += bool(sums.tasks)
        self._whole.add("", span, Cell(1, sums.amount))
        for work, amount in sums.works.items():
            self.works.add(work, span, Cell(1, amount))
        for path, amount in sums.stacks.items():
            self.stacks.add(path, span, Cell(1, amount))
        for pool, amount in sums.pools.items():
            self.pools.add(pool, span, Cell(1, amount, (NamedCapture(amount, read.time, read.path),)))
        for name, row in sums.frames.items():
            self.frames.add((name,), row)
        for key, row in sums.tasks.items():
            self.tasks.add(key, row)
        self._prune()

    def widen(self, width: int) -> None:
        """Join spans to longer ones, whose width is a multiple of the old one."""
        self.width = width
        for table in (self._whole, self.pools, self.works, self.stacks):
            table.join(self._span_of)

    def _span_of(self, time: float) -> int:
        return int(time // self.width) * self.width

    def _prune(self) -> None:
        self.frames.prune()
        self.tasks.prune()
        if len(self.stacks.rows) > 2 * MOST_STACKS:
            self.stacks.rows = {path: self.stacks.rows[path] for path, *_ in self.stacks.ranked()[:MOST_STACKS]}
        if len(self.pools.rows) > 2 * MOST_POOLS:
            for pool, *_ in self.pools.ranked()[MOST_POOLS:]:
                if pool != OTHER_POOLS:
                    for span, cell in self.pools.rows.pop(pool).items():
                        self.pools.add(OTHER_POOLS, span, cell)


class Digest:
    """The sums of the captures of a period, and of the period before: bounded, but for the names of damaged files."""

    def __init__(self, period: Period) -> None:
        self.period = period
        #: The length of a span of time, in seconds.
        self.width = WIDTHS[0]
        self.profiles: dict[ProfileKey, Profile] = {}
        self.before: dict[ProfileKey, Profile] = {}
        #: The number of captures by the source of their time.
        self.time_sources: dict[str, int] = {}
        #: The number of captures of other times, which were not summed up.
        self.outside = 0
        #: The files that cannot be read, with the reason.
        self.damaged: list[tuple[str, str]] = []

    @property
    def captures(self) -> int:
        """The number of captures that are summed up."""
        return sum(profile.captures for profile in self.profiles.values())

    def add(self, read: ReadCapture) -> None:
        """Add a capture of the period, or of the one before; count one of another time."""
        place = self.period.place_of(read.time)
        if place == "outside":
            self.outside += 1
            return
        sums = CaptureSums(read)
        key = (read.series, sums.measure)
        if place == "before":
            # Nobody asks when in that period.
            self.before.setdefault(key, Profile(WIDTHS[-1])).add(read, sums)
            return
        self.profiles.setdefault(key, Profile(self.width)).add(read, sums)
        self.time_sources[read.time_source] = self.time_sources.get(read.time_source, 0) + 1
        self._widen()

    def _widen(self) -> None:
        """Join spans of all profiles until there are not too many."""
        length = max(each.last for each in self.profiles.values()) - min(each.first for each in self.profiles.values())
        width = next((each for each in WIDTHS if each >= self.width and length / each < MOST_SPANS), WIDTHS[-1])
        if width != self.width:
            self.width = width
            for profile in self.profiles.values():
                profile.widen(width)
