"""How far an enrichment is, in one line for people and in figures for programs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.books.models import Status

_PROGRESS_EVERY = 30.0


@dataclass(slots=True)
class Progress:
    """
    How far an enrichment is.

    :param total: how many rows there are, where that is known.
    :param before: the counts of earlier attempts, by status.
    :param clock: seconds that never run backwards.
    """

    total: int | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _counts: dict[str, int] = field(init=False)
    _rows_before: int = field(init=False)
    _started: float = field(init=False)
    _told: float = field(init=False)

    def __post_init__(self) -> None:
        self._counts = {status: self.before.get(status, 0) for status in ("found", "not_found", "invalid", "failed")}
        self._rows_before = self.rows
        self._started = self._told = self.clock()

    @property
    def rows(self) -> int:
        """How many rows are done."""
        return sum(self._counts.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many rows ended with each status."""
        return dict(self._counts)

    @property
    def rate(self) -> float:
        """How many rows a second were done in this attempt."""
        return (self.rows - self._rows_before) / max(self.clock() - self._started, 0.001)

    def count(self, status: Status) -> None:
        """Count a row that is done."""
        self._counts[status] += 1

    def is_due(self) -> bool:
        """Say whether it is time to tell of it: every 30 seconds."""
        now = self.clock()
        if now - self._told < _PROGRESS_EVERY:
            return False
        self._told = now
        return True

    def line(self) -> str:
        """Say in one line how far it is, how fast, and how long it will take."""
        rows, rate = self.rows, self.rate
        done = f"{rows:,}" if self.total is None else f"{rows:,} of {self.total:,}"
        parts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in self._counts.items())
        to_do = 0 if self.total is None else self.total - rows
        left = f", {_duration(to_do / rate)} left" if to_do and rate else ""
        return f"{done} ISBNs: {parts}; {rate:.1f} a second{left}."


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"
