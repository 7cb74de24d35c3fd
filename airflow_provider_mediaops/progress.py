"""Count what a long task has done, and log how far it is at regular times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

#: Seconds between two lines of progress.
LOG_EVERY_SECONDS = 30.0


@dataclass(slots=True)
class ProgressLog:
    """Logs the progress of one attempt every 30 seconds."""

    log: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    warn: Callable[[str], None] = lambda _: None
    #: The rows that this attempt has done.
    rows: int = field(default=0, init=False)
    _started: float = field(init=False)
    _logged: float = field(init=False)
    _rows_logged: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._started = self._logged = self.clock()

    @property
    def per_second(self) -> float:
        """The rows a second of this attempt."""
        return self.rows / max(self.clock() - self._started, 0.001)

    def count(self, rows: int = 1) -> None:
        """Count rows that are done."""
        self.rows += rows

    def log_if_due(self, line: Callable[[], str], trouble: str | None = None) -> None:
        """Log a line if the last one is 30 seconds old; if nothing was done since, as a warning with the cause."""
        now = self.clock()
        if now - self._logged < LOG_EVERY_SECONDS:
            return
        stands_still = self.rows == self._rows_logged
        self._logged, self._rows_logged = now, self.rows
        if stands_still and trouble:
            self.warn(f"{line()} Nothing was done in the last {LOG_EVERY_SECONDS:.0f} s: {trouble}")
        else:
            self.log(line())


def duration(seconds: float) -> str:
    """Return a time as people write it, for example ``2 h 12 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends in s: ``1 ISBN``, ``2,500 ISBNs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rate_in_words(per_second: float) -> str:
    """Return a rate as people write it: ``1 request a second``, ``0.5 requests a second``."""
    return f"{per_second:g} {'request' if per_second == 1 else 'requests'} a second"
