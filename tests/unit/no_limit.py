"""The book database without its limit, for tests that count requests."""

from __future__ import annotations

from airflow_provider_mediaops.sandbox.clock import SlidingWindow


class NoLimit(SlidingWindow):
    """
    The service's limit, lifted.

    It counts when requests arrive, and a busy machine holds some up until they arrive together. A test that counts
    requests must not meet a refusal that it has not arranged.
    """

    def admit(self, key: str, *, limit: int, now: float) -> bool:
        """Let every call in."""
        del key, limit, now
        return True
