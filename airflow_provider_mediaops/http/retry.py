"""Decide whether a failed call is tried again, and after how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import LONGEST_RETRY_AFTER_SECONDS, MediaOpsError, QuotaExceededError

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Clock

_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Truncated exponential backoff with full jitter, under two upper bounds."""

    max_attempts: int = 5  # tries of one call, the first included
    # Seconds within which a retry may begin, counted from the first permit to send the call. The wait for that permit
    # does not count.
    max_wait: float = 120.0
    base_seconds: float = 0.5  # the upper bound of the first pause; it doubles with each try
    cap_seconds: float = 30.0  # the upper bound of any pause that the service did not ask for


@dataclass(slots=True)
class Attempts:
    """The tries of one call so far, and when ``max_wait`` began."""

    policy: RetryPolicy
    clock: Clock
    failed: int = 0
    _began: float | None = None

    def begin_max_wait(self) -> float:
        """Begin ``max_wait`` at the first permit to send, or at the first failure before it; return when it began."""
        if self._began is None:
            self._began = self.clock.monotonic()
        return self._began

    def pause_after(self, error: MediaOpsError) -> float | None:
        """
        Count a failed try and return the pause before the next in seconds; None if there is no other try.

        The ``Retry-After`` of the service is waited in full; 0 counts as absent. A pause that would end past the time
        limit is not begun, so the caller gets the error at once.
        """
        self.failed += 1
        began = self.begin_max_wait()
        if not error.temporary or isinstance(error, QuotaExceededError):
            return None
        if self.failed >= self.policy.max_attempts:
            return None
        pause = error.retry_after or self._backoff()
        elapsed = self.clock.monotonic() - began
        return pause if elapsed + pause <= self.policy.max_wait else None

    def _backoff(self) -> float:
        # The exponent is bounded too: 2.0 ** 1024 overflows.
        ceiling = min(self.policy.cap_seconds, self.policy.base_seconds * 2.0 ** min(self.failed - 1, 60))
        return self.clock.uniform(0.0, ceiling)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """
    Parse ``Retry-After``, in seconds or as a date (RFC 9110, section 10.2.3); None if it is absent or malformed.

    A date is compared with the reply's own ``Date``, if present, so that a difference between clocks does no harm.
    The result is a day at most.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_RETRY_AFTER_SECONDS)
    until = _http_date(value)
    if until is None:
        return None
    sent = _http_date(headers.get("date", "")) or now
    return min(max(0.0, (until - sent).total_seconds()), LONGEST_RETRY_AFTER_SECONDS)


def _http_date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)
