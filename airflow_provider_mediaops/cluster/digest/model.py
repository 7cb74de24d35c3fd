"""The digest of many captures: a profile for each series and kind, and what could not be read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.cluster.digest.capture_sums import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums

#: The lengths of a span of time, in seconds: each is a multiple of the one before.
WIDTHS = (600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800, 2_419_200, 31_449_600, 314_496_000)
#: The maximum number of spans between the first capture and the last.
MOST_SPANS = 100
#: How many damaged files are named.
MOST_DAMAGED = 1_000

ProfileKey = tuple[str, str]
"""The series and the kind of a profile."""

# Each of these is a number that is kept: twice as many are counted before the rest is dropped.
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

    :param limit: how many rows are kept.
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


class NamedCapture(NamedTuple):
    """
    A capture that a cell names.

    :param amount: the amount of the pool's threads in it.
    :param time: when it was taken, in seconds since 1970.
    """

    amount: float
    threads: float
    time: float
    path: str


class Cell:
    """
    The sums of one thread pool in one span of time.

    :param captures: the number of captures that show the pool.
    :param amount: the amount of its threads.
    :param named: the captures in which it was hottest, the hottest first.
    """

    __slots__ = ("amount", "captures", "named", "threads")

    def __init__(
        self, captures: int = 0, amount: float = 0.0, threads: float = 0.0, named: Iterable[NamedCapture] = ()
    ) -> None:
        self.captures = captures
        self.amount = amount
        self.threads = threads
        self.named = list(named)

    def merge(self, other: Cell) -> None:
        """Add the sums of other captures."""
        self.captures += other.captures
        self.amount += other.amount
        self.threads += other.threads
        hottest = sorted(
            [*self.named, *other.named], key=lambda each: (-each.amount, -each.threads, each.time, each.path)
        )
        self.named = hottest[:MOST_NAMED]


class Frames:
    """The frames of some captures, and how many captures they are."""

    def __init__(self) -> None:
        self.captures = 0
        #: The amounts of all threads, and their number.
        self.amount = self.threads = 0.0
        self.rows = BoundedRows(MOST_ROWS)

    def add(self, sums: CaptureSums) -> None:
        """Add a capture."""
        self.captures += 1
        self.amount += sums.amount
        self.threads += sums.threads
        for name, row in sums.frames.items():
            self.rows.add((name,), row)
        self.rows.prune()


class Profile:
    """
    The sums of the captures of one series and one kind. It is bounded, whatever the number of captures.

    :param width: the length of a span of time, in seconds.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.frames = Frames()
        self.tasks = BoundedRows(MOST_ROWS)
        #: The number of captures that saw a task.
        self.captures_with_tasks = 0
        self.first, self.last = math.inf, -math.inf
        #: By the beginning of a span of time: captures, amount and threads.
        self.spans: dict[int, list[float]] = {}
        #: By thread pool and span.
        self.cells: dict[str, dict[int, Cell]] = {}
        #: By kind of work and span: captures, amount and threads.
        self.works: dict[str, dict[int, list[float]]] = {}
        #: By stack and span: amount and threads.
        self.stacks: dict[tuple[str, ...], dict[int, list[float]]] = {}

    def add(self, sums: CaptureSums) -> None:
        """Add a capture."""
        span = self.span_of(sums.time)
        self.frames.add(sums)
        self.first, self.last = min(self.first, sums.time), max(self.last, sums.time)
        _add(self.spans, span, [1, sums.amount, sums.threads])
        for pool, (amount, threads) in sums.pools.items():
            cell = Cell(1, amount, threads, [NamedCapture(amount, threads, sums.time, sums.path)])
            self._cell(pool, span).merge(cell)
        for work, sizes in sums.works.items():
            _add(self.works.setdefault(work, {}), span, [1, *sizes])
        for path, sizes in sums.stacks.items():
            _add(self.stacks.setdefault(path, {}), span, sizes)
        if sums.tasks:
            self.captures_with_tasks += 1
            for key, row in sums.tasks.items():
                self.tasks.add(key, row)
        self._prune()

    def span_of(self, time: float) -> int:
        """Return the span in which a time is."""
        return int(time // self.width) * self.width

    def widen(self, width: int) -> None:
        """Join spans to longer ones, whose width is a multiple of the old one."""
        if width == self.width:
            return
        self.width = width
        spans, cells, stacks = self.spans, self.cells, self.stacks
        self.spans, self.cells, self.stacks = {}, {}, {}
        for span, sizes in spans.items():
            _add(self.spans, self.span_of(span), sizes)
        for pool, row in cells.items():
            for span, cell in row.items():
                self._cell(pool, self.span_of(span)).merge(cell)
        for path, found in stacks.items():
            joined = self.stacks.setdefault(path, {})
            for span, sizes in found.items():
                _add(joined, self.span_of(span), sizes)
        for work, found in self.works.items():
            self.works[work] = {}
            for span, sizes in found.items():
                _add(self.works[work], self.span_of(span), sizes)

    def pools(self) -> list[tuple[str, float, float]]:
        """Return the thread pools with amount and threads, the hottest first."""
        sums = [
            (pool, sum(cell.amount for cell in row.values()), sum(cell.threads for cell in row.values()))
            for pool, row in self.cells.items()
        ]
        return sorted(sums, key=lambda item: (-item[1], -item[2], item[0]))

    def heaviest_stacks(self) -> list[tuple[tuple[str, ...], dict[int, list[float]]]]:
        """Return the stacks, the heaviest first."""
        return sorted(self.stacks.items(), key=lambda item: (*_heaviness(item[1]), item[0]))

    def _cell(self, pool: str, span: int) -> Cell:
        row = self.cells.setdefault(pool, {})
        cell = row.get(span)
        if cell is None:
            cell = row[span] = Cell()
        return cell

    def _prune(self) -> None:
        self.tasks.prune()
        if len(self.stacks) > 2 * MOST_STACKS:
            self.stacks = dict(self.heaviest_stacks()[:MOST_STACKS])
        if len(self.cells) > 2 * MOST_POOLS:
            for pool, _, _ in self.pools()[MOST_POOLS:]:
                if pool != OTHER_POOLS:
                    for span, cell in self.cells.pop(pool).items():
                        self._cell(OTHER_POOLS, span).merge(cell)


def _add(sums: dict[int, list[float]], span: int, sizes: list[float]) -> None:
    known = sums.get(span)
    sums[span] = list(sizes) if known is None else [one + other for one, other in zip(known, sizes, strict=True)]


def _heaviness(found: dict[int, list[float]]) -> tuple[float, float]:
    return -sum(sizes[0] for sizes in found.values()), -sum(sizes[1] for sizes in found.values())


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
        key = (sums.series, sums.kind)
        if key not in self.profiles:
            self.profiles[key] = Profile(self.width)
        self.profiles[key].add(sums)
        self.time_sources[sums.time_source] = self.time_sources.get(sums.time_source, 0) + 1
        self._widen()

    def add_before(self, sums: CaptureSums) -> None:
        """Add a capture of the period before, of which the frames count."""
        self.before.setdefault((sums.series, sums.kind), Frames()).add(sums)

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
