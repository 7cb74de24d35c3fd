"""The progress of an enrichment: a line for people, and figures for programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.progress import LOG_EVERY_SECONDS, ProgressLog, duration

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Status

STATUSES: tuple[Status, ...] = ("found", "not_found", "missing", "invalid", "failed", "not_asked")
_OF_REUSE = ("reused", "stale", "refresh_failed")


@dataclass(slots=True)
class Progress:
    """Counts the rows of an enrichment, and logs a line every 30 seconds; ``before`` has those of earlier attempts."""

    total: int
    before: Mapping[str, int] = field(default_factory=dict)
    log: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    warn: Callable[[str], None] = lambda _: None
    #: The number of rows by status, and of those that were ``reused``, ``stale`` and ``refresh_failed``.
    figures: dict[str, int] = field(init=False)
    _attempt: ProgressLog = field(init=False)
    _rows_logged: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.figures = {name: self.before.get(name, 0) for name in (*STATUSES, *_OF_REUSE)}
        self._attempt = ProgressLog(self.log, self.clock)

    @property
    def rows(self) -> int:
        """The number of rows that are done."""
        return sum(self.figures[status] for status in STATUSES)

    @property
    def per_second(self) -> float:
        """The rows a second of this attempt."""
        return self._attempt.per_second

    def count(self, *figures: str) -> None:
        """Count a row that is done: by its status, and as ``reused``, ``stale`` or ``refresh_failed`` if it is that."""
        for name in figures:
            self.figures[name] += 1
        self._attempt.count()

    def log_if_due(self, trouble: str | None = None) -> None:
        """Log the line if the last one is 30 seconds old; if nothing was done since, as a warning with the cause."""
        if not self._attempt.is_due():
            return
        stands_still, self._rows_logged = self._attempt.rows == self._rows_logged, self._attempt.rows
        if stands_still and trouble:
            self.warn(f"{self.line()} Nothing was done in the last {LOG_EVERY_SECONDS:.0f} s: {trouble}")
        else:
            self.log(self.line())

    def line(self) -> str:
        """Return a line with the rows by status, the rows a second, and the time that is left."""
        rows, rate = self.rows, self.per_second
        figures = self.figures
        shown = [name for name in STATUSES if figures[name] or name not in ("missing", "not_asked")]
        parts = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in shown)
        if figures["reused"]:
            failed = figures["refresh_failed"]
            why = f", {failed:,} because the service gave no new answer" if failed else ""
            parts += f" ({figures['reused']:,} reused, {figures['stale']:,} of them too old{why})"
        to_do = self.total - rows
        left = f", {duration(to_do / rate)} left" if to_do and rate else ""
        return f"{rows:,} of {self.total:,} ISBNs: {parts}; {rate:.1f} a second{left}."
