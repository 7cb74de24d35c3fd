"""Hand counts to the sink that the hooks set; without one, they are dropped."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Literal

_log = logging.getLogger(__name__)

Kind = Literal["counter", "timer", "gauge"]

_SERVICES = {"video platform": "video", "search cluster": "cluster", "book database": "books"}
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


_sink: Callable[[Kind, str, float], None] | None = None


def hand_to(sink: Callable[[Kind, str, float], None] | None) -> None:
    """
    Set the sink of this process.

    :param sink: takes the kind, the name after ``mediaops.`` and the value of a metric, a timer's in seconds; None to
        drop all.
    """
    global _sink  # noqa: PLW0603 there is one of it, as there is one Stats
    _sink = sink


def count(name: str, number: int = 1) -> None:
    """Add to a counter."""
    if number:
        _hand("counter", name, number)


def timing(name: str, seconds: float) -> None:
    """Give a timer a value."""
    _hand("timer", name, seconds)


def gauge(name: str, value: float) -> None:
    """Set a gauge."""
    _hand("gauge", name, value)


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


def _hand(kind: Kind, name: str, value: float) -> None:
    if _sink is None:
        return
    try:
        _sink(kind, name, value)
    except Exception:  # noqa: BLE001 whatever a metric backend does, the task goes on
        _log.debug("The metric %s was not taken.", name, exc_info=True)
