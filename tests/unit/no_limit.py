"""The book database without its limit, for tests that count requests."""

from __future__ import annotations

from airflow_provider_mediaops.sandbox.clock import SlidingWindow


class NoLimit(SlidingWindow):
    """Lift the limit: requests that a busy machine holds up arrive together, and would be refused."""

    def admit(self, key: str, *, limit: int, now: float) -> bool:
        """Let every call in."""
        del key, limit, now
        return True
