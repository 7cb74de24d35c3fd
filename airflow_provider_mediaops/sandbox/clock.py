"""Time as the sandbox sees it, so that a test can turn it by hand."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone


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
