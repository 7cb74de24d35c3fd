"""When a failed call is tried again, and after how long."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import MediaOpsError, QuotaExceededError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")
# A year: no date that can be reckoned with lies beyond it, whatever a service says.
_LONGEST = 366 * 86_400.0


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Clock:
    """
    Where time and chance come from; tests give their own.

    :param monotonic: seconds that never run backwards.
    :param now: the date and time in UTC.
    :param uniform: a random figure between two bounds.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """
    Truncated exponential backoff with full jitter, under two upper bounds.

    :param max_attempts: how often one call is tried in all.
    :param max_wait: seconds after the start of a call in which another try may begin.
    :param base: the upper bound of the first pause, in seconds; it doubles with each try.
    :param cap: the upper bound of any pause that the service did not ask for, in seconds.
    """

    max_attempts: int = 5
    max_wait: float = 120.0
    base: float = 0.5
    cap: float = 30.0

    def start(self, clock: Clock) -> Attempts:
        """Begin to count the tries of one call."""
        return Attempts(policy=self, clock=clock, started=clock.monotonic())


@dataclass(slots=True)
class Attempts:
    """The tries of one call so far."""

    policy: RetryPolicy
    clock: Clock
    started: float
    failed: int = field(default=0)

    def pause_after(self, error: MediaOpsError) -> float | None:
        """
        Count a failed try and say how long to wait before the next.

        What the service asks for with ``Retry-After`` is waited in full (0 counts as nothing asked); a
        pause that would go past the time limit is not begun, so that the caller learns of it at once.

        :param error: what the try ended with.
        :returns: seconds to wait, or None where another try would be wrong, or past the limits.
        """
        self.failed += 1
        if not error.temporary or isinstance(error, QuotaExceededError):
            return None
        if self.failed >= self.policy.max_attempts:
            return None
        pause = error.retry_after or self._backoff()
        elapsed = self.clock.monotonic() - self.started
        return pause if elapsed + pause <= self.policy.max_wait else None

    def _backoff(self) -> float:
        # The exponent is bounded too: 2.0 ** 1024 overflows.
        ceiling = min(self.policy.cap, self.policy.base * 2.0 ** min(self.failed - 1, 60))
        return self.clock.uniform(0.0, ceiling)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """
    Read ``Retry-After``, given in seconds or as a date (RFC 9110, section 10.2.3).

    A date is measured against the reply's own ``Date`` where there is one, so that clocks that disagree do no harm.

    :param headers: the reply's headers, by name in lower case.
    :param now: this machine's time in UTC.
    :returns: seconds to wait, from 0 to a year; None where the header is absent or not understood.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), _LONGEST)
    until = _http_date(value)
    if until is None:
        return None
    sent = _http_date(headers.get("date", "")) or now
    return min(max(0.0, (until - sent).total_seconds()), _LONGEST)


def _http_date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)
