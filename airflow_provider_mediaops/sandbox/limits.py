"""The two limits that services keep: calls in a second, units in a day."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.clock import moment

if TYPE_CHECKING:
    from datetime import date


class SlidingWindow:
    """
    A limit on the calls in any one second, kept for each key.

    Refused calls do not count, so a client that backs off is let in again.
    """

    def __init__(self) -> None:
        self._calls: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, *, limit: int, now: float) -> bool:
        """Admit a call, or refuse it if there were as many as the limit in the second before ``now``."""
        calls = self._calls[key]
        while calls and calls[0] + 1.0 <= now:
            calls.popleft()
        if len(calls) >= limit:
            return False
        calls.append(now)
        return True


class DailyQuota:
    """A limit on the units in a day, kept for each key; the day begins at 00:00 UTC."""

    def __init__(self) -> None:
        self._day: date | None = None
        self._spent: defaultdict[str, int] = defaultdict(int)

    def spent(self, key: str, *, now: float) -> int:
        """Return the units that a key has spent today."""
        today = moment(now).date()
        if today != self._day:
            self._day = today
            self._spent.clear()
        return self._spent[key]

    def spend(self, key: str, *, units: int, limit: int, now: float) -> bool:
        """Take units from today's quota; refuse, and take nothing, if there are not enough left."""
        if self.spent(key, now=now) + units > limit:
            return False
        self._spent[key] += units
        return True
