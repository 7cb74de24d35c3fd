"""
The rate of a key: one limiter for everyone in this process who uses it.

A caller reserves the next free slot and sleeps until it comes; so callers are served in the order in which they asked,
evenly spaced, and none polls.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field

from airflow_provider_mediaops.http.retry import Clock

# Slots stand this much further apart than the rate demands: a request that travels slowly and one that travels
# fast may not meet in the same second at the service.
_MARGIN = 1.02


@dataclass(slots=True)
class RateLimiter:
    """
    Evenly spaced slots, first come, first served.

    :param per_second: how many requests a second the key may make.
    :param clock: where time comes from.
    """

    per_second: float
    clock: Clock = field(default_factory=Clock)
    _next_free: float = field(default=float("-inf"), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def reserve(self) -> float:
        """
        Take the next free slot.

        :returns: the seconds until it comes; 0.0 where it is now.
        """
        with self._lock:
            now = self.clock.monotonic()
            slot = max(now, self._next_free)
            self._next_free = slot + _MARGIN / self.per_second
            return slot - now

    def postpone(self, seconds: float) -> None:
        """
        Give out no slot for a while, because the service said that the limit is reached.

        :param seconds: how long, from now.
        """
        with self._lock:
            self._next_free = max(self._next_free, self.clock.monotonic() + seconds)


_limiters: dict[tuple[str, float], RateLimiter] = {}
_limiters_lock = threading.Lock()


def limiter_for(key: str, per_second: float) -> RateLimiter:
    """
    Give the limiter that this process shares for a key.

    :param key: the credential that the service counts by; only its digest is kept.
    :param per_second: the key's rate, in requests a second.
    :returns: the same limiter for the same key and rate.
    """
    name = (hashlib.sha256(key.encode()).hexdigest(), per_second)
    with _limiters_lock:
        return _limiters.setdefault(name, RateLimiter(per_second))
