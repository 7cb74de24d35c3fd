"""The progress of an enrichment: a line for people, and figures for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from airflow_provider_mediaops.books.models import Status
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    from airflow_provider_mediaops.progress import ProgressLog

STATUSES: tuple[Status, ...] = get_args(Status)
_OF_REUSE = ("reused", "stale", "refresh_failed")


class Progress:
    """Counts the rows of an enrichment; ``before`` has those of earlier attempts."""

    def __init__(self, total: int, before: Mapping[str, int], log: ProgressLog) -> None:
        self._total, self._log = total, log
        #: The number of rows by status, and of those that were ``reused``, ``stale`` and ``refresh_failed``.
        self.figures = {name: before.get(name, 0) for name in (*STATUSES, *_OF_REUSE)}

    def count(self, *figures: str) -> None:
        """Count a row that is done: by its status, and as ``reused``, ``stale`` or ``refresh_failed`` if it is that."""
        for name in figures:
            self.figures[name] += 1
        self._log.count()

    def line(self) -> str:
        """Return a line with the rows by status, the rows a second, and the time that is left."""
        figures, rate = self.figures, self._log.per_second
        rows = sum(figures[status] for status in STATUSES)
        shown = [name for name in STATUSES if figures[name] or name not in ("missing", "not_asked")]
        parts = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in shown)
        if figures["reused"]:
            failed = figures["refresh_failed"]
            why = f", {failed:,} because the service gave no new answer" if failed else ""
            parts += f" ({figures['reused']:,} reused, {figures['stale']:,} of them too old{why})"
        to_do = self._total - rows
        left = f", {duration(to_do / rate)} left" if to_do and rate else ""
        return f"{rows:,} of {self._total:,} ISBNs: {parts}; {rate:.1f} a second{left}."
