"""Sums over captures, by frame and by group of tasks: they are bounded in size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

#: How many pools or nodes a row names. Those beyond are not counted.
MOST_PLACES = 200


@dataclass(slots=True)
class Row(ABC):
    """
    The sums of one frame, or of one group of tasks.

    :param captures: the number of captures in which it was seen.
    :param first: the time of the first of these captures, in seconds since 1970.
    :param last: the time of the last.
    :param pools: the number of captures by thread pool; of tasks, by the likely one.
    :param nodes: the number of captures by node.
    """

    captures: int = 0
    first: float = math.inf
    last: float = -math.inf
    pools: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)

    @property
    @abstractmethod
    def weight(self) -> float:
        """What decides between rows that were seen in as many captures."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the sums of other captures."""

    def _merge_places(self, other: Row) -> None:
        self.captures += other.captures
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        add_counts(self.pools, other.pools)
        add_counts(self.nodes, other.nodes)


@dataclass(slots=True)
class FrameRow(Row):
    """
    The sums of a frame, which was on top of a stack in each of its captures.

    :param amount: the sum of its parts of the threads' amounts.
    :param threads: the sum of its parts of the threads themselves.
    """

    amount: float = 0.0
    threads: float = 0.0

    @property
    def weight(self) -> float:
        """The amount; of frames without any, the threads count."""
        return self.amount or self.threads * 1e-9

    def merge(self, other: FrameRow) -> None:
        """Add the sums of other captures."""
        self._merge_places(other)
        self.amount += other.amount
        self.threads += other.threads


@dataclass(slots=True)
class TaskRow(Row):
    """
    The sums of a group of tasks, which ran during each of its captures.

    :param running: the sum of its tasks that ran.
    :param queued: the sum of its tasks that waited for a thread.
    :param longest_ms: the longest time that one of its tasks had existed, in milliseconds.
    :param cpu_ms: the sum of its CPU, in milliseconds; 0 if no cluster said.
    """

    running: int = 0
    queued: int = 0
    longest_ms: float = 0.0
    cpu_ms: float = 0.0

    @property
    def weight(self) -> float:
        """The CPU; of groups without any, the longest time counts."""
        return self.cpu_ms or self.longest_ms * 1e-9

    def merge(self, other: TaskRow) -> None:
        """Add the sums of other captures."""
        self._merge_places(other)
        self.running += other.running
        self.queued += other.queued
        self.longest_ms = max(self.longest_ms, other.longest_ms)
        self.cpu_ms += other.cpu_ms


RowT = TypeVar("RowT", bound=Row)


class BoundedRows(Generic[RowT]):
    """
    Rows by key, of which those seen most often are kept.

    There are up to twice ``limit`` rows; then the rarer half is dropped. A dropped row may come back, and lacks its
    first captures then: at most :attr:`error` of them.

    :param limit: how many rows are kept.
    """

    def __init__(self, make: Callable[[], RowT], limit: int) -> None:
        self._make = make
        self._limit = limit
        #: The rows by key: the parts of a name.
        self.rows: dict[tuple[str, ...], RowT] = {}
        #: The number of captures that a row may lack; 0 as long as none was dropped.
        self.error = 0

    def add(self, key: tuple[str, ...], row: RowT) -> None:
        """Add the sums of one or more captures."""
        known = self.rows.get(key)
        if known is None:
            known = self.rows[key] = self._make()
        known.merge(row)

    def prune(self) -> None:
        """Drop the rarer half of the rows, if there are too many."""
        if len(self.rows) <= 2 * self._limit:
            return
        ranked = self.ranked()
        # What had been dropped before may have been as frequent as what is dropped now.
        self.error += max(row.captures for _, row in ranked[self._limit :])
        self.rows = dict(ranked[: self._limit])

    def ranked(self) -> list[tuple[tuple[str, ...], RowT]]:
        """Return the rows with their keys: first those in the most captures, then the heaviest."""
        return sorted(self.rows.items(), key=lambda item: (-item[1].captures, -item[1].weight, item[0]))


def add_counts(counts: dict[str, int], others: dict[str, int] | Iterable[str]) -> None:
    """
    Add counts by name, of a bounded number of names.

    :param counts: the counts to add to; names beyond :data:`MOST_PLACES` are left out.
    """
    for name, number in others.items() if isinstance(others, dict) else ((name, 1) for name in others):
        if name in counts or len(counts) < MOST_PLACES:
            counts[name] = counts.get(name, 0) + number
