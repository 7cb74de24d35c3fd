"""Count and time what happens, in Airflow's own Stats for StatsD and OpenTelemetry; without them, nothing is kept."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from http import HTTPStatus
from typing import Any

_log = logging.getLogger(__name__)

_SERVICES = {"video platform": "video", "search cluster": "cluster", "book database": "books"}
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")

# Airflow's Stats, once a hook or the pages use them. The services are called without Airflow, too.
_stats: Any = None


def use_airflow_metrics() -> None:
    """Let the counts of this process go to Airflow's Stats from now on."""
    global _stats  # noqa: PLW0603 there is one of it in a process
    if _stats is None:
        try:
            from airflow_provider_mediaops.version_compat import airflow_stats

            stats = airflow_stats()
            # Without a name it sends nothing, and Airflow makes its client: that looks up the name of a host.
            stats.timer()
        except Exception:  # noqa: BLE001 no metric backend is worth a task
            return
        _stats = stats


def count(name: str, number: int = 1) -> None:
    """Add to a counter, whose name follows ``mediaops.``."""
    if number:
        _hand("incr", name, number)


def timing(name: str, seconds: float) -> None:
    """Give a timer a value."""
    _hand("timing", name, timedelta(seconds=seconds))


def gauge(name: str, value: float) -> None:
    """Set a gauge."""
    # OpenTelemetry refuses all metrics of a process for one integer of more than 64 bits.
    _hand("gauge", name, float(value))


def count_request(service: str, request: str, error: Exception | None) -> None:
    """Count a try of a request by its outcome."""
    count(f"{_SERVICES.get(service, 'other')}.requests.{request}.{outcome_of(error)}")


def count_not_sent(service: str, reason: str) -> None:
    """Count a request that was not sent."""
    count(f"{_SERVICES.get(service, 'other')}.not_sent.{reason}")


def count_wait(service: str, reason: str, seconds: float) -> None:
    """Count a wait."""
    word = _SERVICES.get(service, "other")
    count(f"{word}.waits.{reason}")
    count(f"{word}.wait_milliseconds.{reason}", round(seconds * 1000))


def outcome_of(error: Exception | None) -> str:
    """Return the word for an error, for example ``rate_limited``; ``ok`` for none."""
    if error is None:
        return "ok"
    # The book database has several, of which each may mean that there is no such book.
    if getattr(error, "status", None) == HTTPStatus.NOT_FOUND:
        return "not_found"
    return _WORD_START.sub("_", type(error).__name__.removesuffix("Error")).lower()


def _hand(method: str, name: str, value: float | timedelta) -> None:
    if _stats is None:
        return
    try:
        getattr(_stats, method)(f"mediaops.{name}", value)
    except Exception:  # noqa: BLE001 whatever a metric backend does, the task goes on
        _log.debug("The metric %s was not taken.", name, exc_info=True)
