"""Wait in the triggerer for a time that a service named, longer than any call waits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.exchange import Clock

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError

# The longest of the waits that follow each other without progress: a service may reset its quota late or by another
# clock, or others may have used it up already.
_LONGEST_SECONDS = (math.inf, 900.0, 3_600.0, 14_400.0)
# A wait ends a little after the time that the service named, because clocks differ, and not for all waiting tasks at
# once: by between half of this share and all of it, a minute at most.
_EXTRA_SHARE, _MAX_EXTRA_SECONDS = 0.1, 60.0


@dataclass(slots=True)
class LongWaits:
    """The waits of one task."""

    clock: Clock = field(default_factory=Clock)
    _without_progress: int = field(default=0, init=False)

    def pause_after(self, error: MediaOpsError, *, progressed: bool) -> float | None:
        """
        Return the seconds to wait after an error that ended an attempt; None to give up.

        The first wait lasts until the time that the service named: ``Retry-After``, or the reset of a quota. If nothing
        was done after it, the next ones are 15 minutes, one hour and four hours at most; there is no fifth.
        """
        if not error.temporary or not error.retry_after:
            return None
        if progressed:
            self._without_progress = 0
        if self._without_progress == len(_LONGEST_SECONDS):
            return None
        pause = min(error.retry_after, _LONGEST_SECONDS[self._without_progress])
        self._without_progress += 1
        return pause + self.clock.uniform(0.5, 1.0) * min(pause * _EXTRA_SHARE, _MAX_EXTRA_SECONDS)
