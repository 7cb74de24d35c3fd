"""The digest of many captures: a profile for each series and kind, and what could not be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from airflow_provider_mediaops.cluster.digest.capture_sums import Row
from airflow_provider_mediaops.cluster.folded import Measure

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums

KeyT = TypeVar("KeyT", str, tuple[str, ...])

#: The lengths of a span of time, in seconds: each is a multiple of the one before.
WIDTHS = (600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800, 2_419_200, 31_449_600, 314_496_000)
#: The maximum number of spans between the first capture and the last.
MOST_SPANS = 100
#: How many damaged files are named.
MOST_DAMAGED = 1_000

ProfileKey = tuple[str, Measure]
"""The series and the measure of a profile: amounts of different measures are never added up."""

# Twice as many of these are counted before the rest is dropped.
#: How many frames and groups of tasks are kept, by the number of their captures.
MOST_ROWS = 2_000
#: How many stacks are kept, by their amounts.
MOST_STACKS = 1_500
#: How many thread pools have a row of their own; the smallest beyond them are summed up as :data:`OTHER_POOLS`.
MOST_POOLS = 100
#: How many captures of a pool at a time are named: those in which it was hottest.
MOST_NAMED = 3
OTHER_POOLS = "(other pools)"


class BoundedRows:
    """
    Rows by key, of which those seen most often are kept.

    There are up to twice ``limit`` rows; then the rarer half is dropped. A dropped row may come back, and lacks its
    first captures then: at most :attr:`error` of them.
    """

    def __init__(self, limit: int) -> None:
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
        return sorted(self.rows.items(), key=lambda item: (-item[1].captures, -item[1].weight, item[0]))


class SpanSums(Generic[KeyT]):
    """Sums by key and span of time: the number of captures, and their amount."""

    def __init__(self) -> None:
        #: By key, then by the beginning of the span.
        self.rows: dict[KeyT, dict[int, list[float]]] = {}

    def add(self, key: KeyT, span: int, captures: float, amount: float) -> None:
        """Add the sums of one or more captures."""
        sizes = self.rows.setdefault(key, {}).setdefault(span, [0, 0])
        sizes[0] += captures
        sizes[1] += amount

    def join(self, span_of: Callable[[float], int]) -> None:
        """Join spans to longer ones."""
        rows, self.rows = self.rows, {}
        for key, row in rows.items():
            for span, sizes in row.items():
                self.add(key, span_of(span), *sizes)

    def ranked(self) -> list[tuple[KeyT, float, float]]:
        """Return the keys with captures and amount over all time, that of the highest amount first."""
        sums = [
            (key, sum(sizes[0] for sizes in row.values()), sum(sizes[1] for sizes in row.values()))
            for key, row in self.rows.items()
        ]
        return sorted(sums, key=lambda item: (-item[2], item[0]))


class NamedCapture(NamedTuple):
    """A capture that a thread pool names at a time."""

    amount: float  # of the pool's threads in it
    time: float  # when it was taken, in seconds since 1970
    path: str


class Frames:
    """The frames of some captures, and how many captures they are."""

    def __init__(self) -> None:
        self.captures = 0
        #: The amount of all threads.
        self.amount = 0.0
        self.rows = BoundedRows(MOST_ROWS)

    def add(self, sums: CaptureSums) -> None:
        """Add a capture."""
        self.captures += 1
        self.amount += sums.amount
        for name, row in sums.frames.items():
            self.rows.add((name,), row)
        self.rows.prune()


class Profile:
    """The sums of the captures of one series and one measure. It is bounded, whatever the number of captures."""

    def __init__(self, width: int) -> None:
        #: The length of a span of time, in seconds.
        self.width = width
        self.frames = Frames()
        self.tasks = BoundedRows(MOST_ROWS)
        #: The number of captures that saw a task.
        self.captures_with_tasks = 0
        self.first, self.last = math.inf, -math.inf
        self._whole: SpanSums[str] = SpanSums()
        self.pools: SpanSums[str] = SpanSums()
        #: By the id of a kind of work.
        self.works: SpanSums[str] = SpanSums()
        #: By the pool, then the frames from the outermost on.
        self.stacks: SpanSums[tuple[str, ...]] = SpanSums()
        #: By thread pool and span, the captures in which it was hottest, the hottest first.
        self.named: dict[tuple[str, int], list[NamedCapture]] = {}

    @property
    def spans(self) -> dict[int, list[float]]:
        """Captures and amount by the beginning of a span of time."""
        return self._whole.rows[""]

    def add(self, sums: CaptureSums) -> None:
        """Add a capture."""
        span = self._span_of(sums.time)
        self.frames.add(sums)
        self.first, self.last = min(self.first, sums.time), max(self.last, sums.time)
        self._whole.add("", span, 1, sums.amount)
        for work, amount in sums.works.items():
            self.works.add(work, span, 1, amount)
        for path, amount in sums.stacks.items():
            self.stacks.add(path, span, 1, amount)
        for pool, amount in sums.pools.items():
            self.pools.add(pool, span, 1, amount)
            self._name(pool, span, [NamedCapture(amount, sums.time, sums.path)])
        self.captures_with_tasks += bool(sums.tasks)
        for key, row in sums.tasks.items():
            self.tasks.add(key, row)
        self._prune()

    def widen(self, width: int) -> None:
        """Join spans to longer ones, whose width is a multiple of the old one."""
        self.width = width
        for table in (self._whole, self.pools, self.works, self.stacks):
            table.join(self._span_of)
        named, self.named = self.named, {}
        for (pool, span), captures in named.items():
            self._name(pool, self._span_of(span), captures)

    def _span_of(self, time: float) -> int:
        return int(time // self.width) * self.width

    def _name(self, pool: str, span: int, captures: Iterable[NamedCapture]) -> None:
        known = self.named.get((pool, span), [])
        hottest = sorted([*known, *captures], key=lambda each: (-each.amount, each.time, each.path))
        self.named[pool, span] = hottest[:MOST_NAMED]

    def _prune(self) -> None:
        self.tasks.prune()
        if len(self.stacks.rows) > 2 * MOST_STACKS:
            self.stacks.rows = {path: self.stacks.rows[path] for path, *_ in self.stacks.ranked()[:MOST_STACKS]}
        if len(self.pools.rows) > 2 * MOST_POOLS:
            for pool, *_ in self.pools.ranked()[MOST_POOLS:]:
                if pool != OTHER_POOLS:
                    for span, sizes in self.pools.rows.pop(pool).items():
                        self.pools.add(OTHER_POOLS, span, *sizes)
                        self._name(OTHER_POOLS, span, self.named.pop((pool, span)))


class Digest:
    """The sums of many captures, in a bounded size."""

    def __init__(self) -> None:
        self.width = WIDTHS[0]
        self.profiles: dict[ProfileKey, Profile] = {}
        #: The frames of the period before.
        self.before: dict[ProfileKey, Frames] = {}
        #: The number of captures by the source of their time.
        self.time_sources: dict[str, int] = {}
        #: The number of captures of other times, which were not summed up.
        self.outside = 0
        #: The first damaged files with the reason, and how many there are.
        self.damaged: list[tuple[str, str]] = []
        self.damaged_count = 0

    @property
    def captures(self) -> int:
        """The number of captures that are summed up."""
        return sum(profile.frames.captures for profile in self.profiles.values())

    def add(self, sums: CaptureSums) -> None:
        """Add a capture of the period."""
        key = (sums.series, sums.measure)
        if key not in self.profiles:
            self.profiles[key] = Profile(self.width)
        self.profiles[key].add(sums)
        self.time_sources[sums.time_source] = self.time_sources.get(sums.time_source, 0) + 1
        self._widen()

    def add_before(self, sums: CaptureSums) -> None:
        """Add a capture of the period before, of which the frames count."""
        self.before.setdefault((sums.series, sums.measure), Frames()).add(sums)

    def add_damaged(self, file: str, reason: str) -> None:
        """Add a file that cannot be read."""
        self.damaged_count += 1
        if len(self.damaged) < MOST_DAMAGED:
            self.damaged.append((file, reason))

    def _widen(self) -> None:
        """Join spans of all profiles until there are not too many."""
        length = max(each.last for each in self.profiles.values()) - min(each.first for each in self.profiles.values())
        width = next((each for each in WIDTHS if each >= self.width and length / each < MOST_SPANS), WIDTHS[-1])
        if width != self.width:
            self.width = width
            for profile in self.profiles.values():
                profile.widen(width)
