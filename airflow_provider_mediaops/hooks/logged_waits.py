"""Decide which waits of a hook are logged. If many tasks use one key, every request waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Wait

# Shorter waits are not logged: a fast rate has many of them each second.
_SHORTEST_SECONDS = 2.0
# A wait for the same reason as the last one is logged again only after this time.
_AGAIN_SECONDS = 30.0


class LoggedWaits:
    """The last wait that was logged."""

    def __init__(self) -> None:
        self._reason = ""
        self._at = 0.0

    def should_log(self, wait: Wait, now: float) -> bool:
        """Return whether a wait is to be logged; then it is the last one."""
        is_repeated = wait.reason == self._reason and now - self._at < _AGAIN_SECONDS
        if not wait.reason or wait.seconds < _SHORTEST_SECONDS or is_repeated:
            return False
        self._reason, self._at = wait.reason, now
        return True
