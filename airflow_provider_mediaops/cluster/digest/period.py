"""The time that a digest covers, and the period before, with which it is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.arguments import optional, read_moment
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Place = Literal["now", "before", "outside"]
"""Whether a capture is of the period, of the one before, or of neither."""


@dataclass(frozen=True, slots=True)
class Period:
    """
    The time that a digest covers.

    :param since: its beginning in seconds since 1970; None for no beginning, and so without a period before.
    :param until: its end, which is not part of it; None for no end.
    """

    since: float | None = None
    until: float | None = None

    @property
    def before(self) -> tuple[float, float] | None:
        """Beginning and end of the period of the same length before; None if there is none."""
        if self.since is None or self.until is None:
            return None
        return 2 * self.since - self.until, self.since

    def place_of(self, time: float, slack_seconds: float = 0.0) -> Place:
        """Return where a time is that may be wrong by so many seconds, either way."""
        before = self.before
        earliest = before[0] if before else self.since
        if earliest is not None and time < earliest - slack_seconds:
            return "outside"
        if self.until is not None and time >= self.until + slack_seconds:
            return "outside"
        return "before" if self.since is not None and time < self.since else "now"


def read_period(since: object, until: object, now: datetime) -> Period:
    """
    Read the arguments of a period.

    :param since: a ``datetime`` or an ISO text; None for no beginning.
    :param until: the same; None for now if there is a beginning, else for no end.
    :raises InvalidArgumentError: if it cannot be read, or ends before it begins.
    """
    start, end = optional(read_moment, "since", since), optional(read_moment, "until", until)
    if start is not None and end is None:
        end = now
    if start is not None and end is not None and start >= end:
        raise InvalidArgumentError(
            f"since ({start.isoformat()}) must be before until ({end.isoformat()}): nothing is between them."
        )
    return Period(*(moment.timestamp() if moment else None for moment in (start, end)))


def same_path_error(destination: str) -> InvalidArgumentError:
    """Return the error of a digest that would replace what it reads."""
    return InvalidArgumentError(
        f"destination {destination!r} is the source, too, which the digest would replace: choose another file."
    )


def check_sources(sources: Iterable[str]) -> None:
    """
    Make sure that nobody reads a whole disk by mistake.

    :raises InvalidArgumentError: for a source without a folder.
    """
    for source in sources:
        if not source.partition("://")[2 if "://" in source else 0].strip("/ "):
            raise InvalidArgumentError(f"source {source!r} is a whole disk or store: name the folder of the captures.")


def check_period(given: dict[str, Any]) -> None:
    """
    Check the arguments of a period as far as they are known.

    :raises InvalidArgumentError: if one cannot be read, or both are known and in the wrong order.
    """
    moments = [optional(read_moment, name, value) for name, value in given.items()]
    if len(moments) > 1 and moments[0] and moments[1]:
        read_period(moments[0], moments[1], moments[1])
