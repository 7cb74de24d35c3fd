"""Check the arguments of a digest: the time that it covers, and its sources. Loads little: DAG files check with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from airflow_provider_mediaops.arguments import optional, read_moment
from airflow_provider_mediaops.exceptions import InvalidArgumentError

Place = Literal["now", "before", "outside"]
"""Whether a capture is of the period, of the one before, or of neither."""


@dataclass(frozen=True, slots=True)
class Period:
    """The time that a digest covers, in seconds since 1970."""

    since: float | None = None  # None for no beginning, and so without a period before
    until: float | None = None  # not part of it; None for no end

    @property
    def before(self) -> tuple[float, float] | None:
        """Beginning and end of the period of the same length before; None if there is none."""
        if self.since is None or self.until is None:
            return None
        return 2 * self.since - self.until, self.since

    def place_of(self, time: float) -> Place:
        """Return where a time is."""
        earliest = self.before[0] if self.before else self.since
        if (earliest is not None and time < earliest) or (self.until is not None and time >= self.until):
            return "outside"
        return "before" if self.since is not None and time < self.since else "now"


def read_period(since: object, until: object, now: datetime | None = None) -> Period:
    """
    Read the arguments of a period: datetimes or ISO texts; None for no beginning, and for the end ``now`` or none.

    Raise InvalidArgumentError if one cannot be read, or the period ends before it begins.
    """
    start, end = optional(read_moment, "since", since), optional(read_moment, "until", until)
    if start is not None and end is None:
        end = now
    if start is not None and end is not None and start >= end:
        raise InvalidArgumentError(
            f"since ({start.isoformat()}) must be before until ({end.isoformat()}): nothing is between them."
        )
    return Period(*(moment.timestamp() if moment else None for moment in (start, end)))


def check_sources(sources: Iterable[str]) -> None:
    """Raise InvalidArgumentError for a source without a folder, so that nobody reads a whole disk by mistake."""
    for source in sources:
        if not source.partition("://")[2 if "://" in source else 0].strip("/ "):
            raise InvalidArgumentError(f"source {source!r} is a whole disk or store: name the folder of the captures.")
