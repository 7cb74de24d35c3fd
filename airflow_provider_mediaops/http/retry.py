"""How often a call is tried, and the pauses between its tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import QuotaExceededError

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
    from airflow_provider_mediaops.http.exchange import Clock


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
    """The tries of one call so far, and when ``max_wait`` began: with the first permit to send, or failure before."""

    policy: RetryPolicy
    clock: Clock
    failed: int = 0
    _began: float | None = None

    def begin_max_wait(self) -> float:
        """Begin ``max_wait``, unless it has begun; return when it did."""
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
        ends = self.begin_max_wait() + self.policy.max_wait
        if self.failed >= self.policy.max_attempts or not error.temporary or isinstance(error, QuotaExceededError):
            return None
        ceiling = min(self.policy.cap_seconds, self.policy.base_seconds * 2.0 ** (self.failed - 1))
        pause = error.retry_after or self.clock.uniform(0.0, ceiling)
        return pause if self.clock.monotonic() + pause <= ends else None
