"""The rates that this process keeps in its memory."""

from __future__ import annotations

from airflow_provider_mediaops.http.rate_limit.backends import backend_at


def forget_rates() -> None:
    """Have no limit or spent quota of one test hold for the next that uses the same key."""
    vars(backend_at("memory://"))["_states"].clear()
