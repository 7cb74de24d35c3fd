"""Time as the sandbox sees it, which a test can turn by hand, and the two limits that go by it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from datetime import datetime, timezone

_DAY_SECONDS = 86_400


class Clock:
    """The machine's clock, which does not jump when the machine's date is set. A test may bring one of its own."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC, never running backwards."""
        return self._epoch + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking other requests."""
        await asyncio.sleep(seconds)


def moment(seconds: float) -> datetime:
    """Convert seconds since 1970 into a date and time in UTC."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


def iso_milliseconds(seconds: float) -> str:
    """Format seconds since 1970 as services do: ``2025-01-31T08:30:00.250Z``."""
    return moment(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
        self._spent: Counter[tuple[str, float]] = Counter()

    def spent(self, key: str, *, now: float) -> int:
        """Return the units that a key has spent today."""
        return self._spent[key, now // _DAY_SECONDS]

    def spend(self, key: str, *, units: int, limit: int, now: float) -> bool:
        """Take units from today's quota; refuse, and take nothing, if there are not enough left."""
        if self.spent(key, now=now) + units > limit:
            return False
        self._spent[key, now // _DAY_SECONDS] += units
        return True
