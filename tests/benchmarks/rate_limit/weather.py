"""What happens besides the requests: how long replies take, and how late wake-ups, replies and senders are."""

from __future__ import annotations

import random
import threading

WEATHERS = ("plain", "late", "stall")
REPLY_SECONDS, JITTER = 0.08, 0.3
LATE_EVERY, STALL_EVERY, LATE_SECONDS = 50, 200, 0.4
GOLDEN = 0.618034


class Lateness:
    """
    Makes one in so many late, by times that are spread evenly, so that a short case meets a fair part of them.

    :param every: of how many one is late.
    :param start: where in the sequence to begin, from 0 to 1.
    """

    def __init__(self, every: int, start: float = 0.0) -> None:
        self._every, self._count = every, int(start * every)
        self._share = start
        self._lock = threading.Lock()

    def seconds(self) -> float:
        """Return by how much the next is late."""
        with self._lock:
            self._count += 1
            if self._count % self._every:
                return 0.0
            self._share = (self._share + GOLDEN) % 1
            return LATE_SECONDS * self._share


def reply_seconds() -> float:
    """Return how long the service takes for a reply, if replies take time."""
    return REPLY_SECONDS * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 no secret is made of it


def rate_of(key: str) -> int:
    """Return the rate of a key, as in ``5-late-anything``."""
    return int(key.partition("-")[0])


def weather_of(key: str) -> str:
    """Return the weather of a key; empty if it has none."""
    return key.partition("-")[2].partition("-")[0]
