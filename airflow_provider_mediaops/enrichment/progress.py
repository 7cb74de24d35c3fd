"""The progress of an enrichment: a line for people, figures for programs, and warnings about the rate limit."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.progress import LOG_EVERY_SECONDS, ProgressLog, counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_provider_mediaops.books.models import Lookup, Status

# A key at its limit meets it all the time, and one warning says enough for some minutes.
_WARN_EVERY_SECONDS = 300.0

_STATUSES: tuple[Status, ...] = ("found", "not_found", "missing", "invalid", "failed", "not_asked")


@dataclass(slots=True)
class Progress:
    """
    Counts the rows of an enrichment, and logs a line every 30 seconds.

    :param total: the number of rows of the list, if it is known.
    :param before: the counts of earlier attempts, by status.
    :param reused: the rows of earlier attempts that were taken from earlier datasets.
    :param stale: those of them that were too old.
    :param refresh_failed: those of these whose new look-up failed.
    :param log: logs a line.
    :param clock: returns seconds that never run backwards.
    :param warn: logs a warning.
    """

    total: int | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    log: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    warn: Callable[[str], None] = lambda _: None
    reused: int = 0
    stale: int = 0
    refresh_failed: int = 0
    _counts: dict[str, int] = field(init=False)
    _attempt: ProgressLog = field(init=False)
    _rows_logged: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._counts = {status: self.before.get(status, 0) for status in _STATUSES}
        self._attempt = ProgressLog(self.log, self.clock)

    @property
    def rows(self) -> int:
        """The number of rows that are done."""
        return sum(self._counts.values())

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by status."""
        return dict(self._counts)

    @property
    def per_second(self) -> float:
        """The rows a second of this attempt."""
        return self._attempt.per_second

    def count(self, status: Status, *, reused: bool = False, stale: bool = False, refresh_failed: bool = False) -> None:
        """Count a row that is done."""
        self._counts[status] += 1
        self.reused += reused
        self.stale += stale
        self.refresh_failed += refresh_failed
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
        counts = [
            (status, count) for status, count in self._counts.items() if count or status not in ("missing", "not_asked")
        ]
        parts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in counts)
        if self.reused:
            failed = f", {self.refresh_failed:,} because the service gave no new answer" if self.refresh_failed else ""
            parts += f" ({self.reused:,} reused, {self.stale:,} of them too old{failed})"
        to_do = 0 if self.total is None else self.total - rows
        left = f", {duration(to_do / rate)} left" if to_do and rate else ""
        noun = "ISBN" if rows == 1 and self.total is None else "ISBNs"
        return f"{done} {noun}: {parts}; {rate:.1f} a second{left}."


@dataclass(slots=True)
class RepeatedWarning(ABC):
    """
    Counts what it warns of, and warns at most every five minutes, and of the rest at the end.

    :param warn: logs a warning.
    :param clock: returns seconds that never run backwards.
    """

    warn: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _warned: float = field(default=float("-inf"), init=False)
    _unsaid: int = field(default=0, init=False)

    def flush(self) -> None:
        """Warn of what was counted since the last warning, if anything was."""
        if self._unsaid:
            new, self._unsaid, self._warned = self._unsaid, 0, self.clock()
            self.warn(self._line(new))

    def _count(self, new: int) -> None:
        self._unsaid += new
        if self.clock() - self._warned >= _WARN_EVERY_SECONDS:
            self.flush()

    @abstractmethod
    def _line(self, new: int) -> str:
        """Return the warning."""


@dataclass(slots=True)
class LimitWarnings(RepeatedWarning):
    """
    Warns that the service refuses requests because of the key's limit.

    :param rate: the rate of the connection, as a sentence has it.
    """

    rate: str = "its rate"
    _seen: int = field(default=0, init=False)

    def update(self, limited: int) -> None:
        """Count the requests that were refused since the last call, and warn if it is due."""
        new, self._seen = limited - self._seen, limited
        self._count(new)

    def _line(self, new: int) -> str:
        return (
            f"The book database has refused {counted(new, 'request')} because the key is at its limit. What is refused "
            f"is sent again. Probably the connection's rate ({self.rate}) is higher than that of the key: set plan to "
            "the key's own. Or another program uses the key: only tasks with one rate_limit_store share its rate."
        )


@dataclass(slots=True)
class RefreshWarnings(RepeatedWarning):
    """Warns that rows stay as they were because their new look-ups failed."""

    _last: Lookup | None = field(default=None, init=False)

    def update(self, done: Iterable[Lookup]) -> None:
        """Count such rows, and warn if it is due."""
        failed = [lookup for lookup in done if lookup.cause and lookup.reused]
        if failed:
            self._last = failed[-1]
        self._count(len(failed))

    def _line(self, new: int) -> str:
        last = f" The last error, about {self._last.isbn13}: {self._last.cause}" if self._last else ""
        return (
            f"Kept from an earlier dataset although too old, because the new look-up failed: {counted(new, 'row')}. "
            f"Such rows count as stale, and against max_failures.{last}"
        )
