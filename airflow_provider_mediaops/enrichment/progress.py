"""The progress of an enrichment: a line for people, figures for programs, and warnings about the rate limit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.progress import LOG_EVERY_SECONDS, ProgressLog, counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.books.models import Status

# A key at its limit meets it all the time, and one warning says enough for some minutes.
_WARN_EVERY_SECONDS = 300.0

STATUSES: tuple[Status, ...] = ("found", "not_found", "missing", "invalid", "failed", "not_asked")
_OF_REUSE = ("reused", "stale", "refresh_failed")


@dataclass(slots=True)
class Progress:
    """Counts the rows of an enrichment, and logs a line every 30 seconds; ``before`` has those of earlier attempts."""

    total: int | None = None
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
        done = f"{rows:,}" if self.total is None else f"{rows:,} of {self.total:,}"
        figures = self.figures
        shown = [name for name in STATUSES if figures[name] or name not in ("missing", "not_asked")]
        parts = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in shown)
        if figures["reused"]:
            failed = figures["refresh_failed"]
            why = f", {failed:,} because the service gave no new answer" if failed else ""
            parts += f" ({figures['reused']:,} reused, {figures['stale']:,} of them too old{why})"
        to_do = 0 if self.total is None else self.total - rows
        left = f", {duration(to_do / rate)} left" if to_do and rate else ""
        noun = "ISBN" if rows == 1 and self.total is None else "ISBNs"
        return f"{done} {noun}: {parts}; {rate:.1f} a second{left}."


class LimitWarnings:
    """Warns that the key's limit makes the service refuse requests: at most every five minutes, and at the end."""

    def __init__(
        self, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic, rate: str = "its rate"
    ) -> None:
        self.rate = rate
        self._warn = warn
        self._clock = clock
        self._warned = float("-inf")
        self._limited = self._said = 0

    def update(self, limited: int) -> None:
        """Take note of how many requests were refused so far, and warn if it is due."""
        self._limited = limited
        if self._clock() - self._warned >= _WARN_EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Warn of what was refused since the last warning, if anything was."""
        new = self._limited - self._said
        if not new:
            return
        self._said, self._warned = self._limited, self._clock()
        self._warn(
            f"The book database has refused {counted(new, 'request')} because the key is at its limit. What is refused "
            f"is sent again. Probably the connection's rate ({self.rate}) is higher than that of the key: set plan to "
            "the key's own. Or another program uses the key: only tasks with one rate_limit_store share its rate."
        )
