"""Hand counts to the sink that the hooks set; without one, they are dropped. The names and units of all of them."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

Kind = Literal["counter", "timer", "gauge"]

_SERVICES = {"video platform": "video", "search cluster": "cluster", "book database": "books"}
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class Metric(NamedTuple):
    """
    A metric, or several whose names differ in a word.

    :param name: the name after ``mediaops.``; a word in braces stands for one of several.
    :param kind: its kind.
    :param unit: its unit; Airflow sends timers in milliseconds.
    :param meaning: its meaning, for the documentation.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str


#: The words that stand for those in braces.
WORDS = {
    "service": tuple(_SERVICES.values()),
    "request": (
        *("subscriptions", "bulletin", "token"),
        *("cpu", "hot_threads", "tasks", "cores", "statistics", "version"),
        *("book", "bulk", "key"),
    ),
    "outcome": (
        *("ok", "not_found", "rate_limited", "quota_exceeded", "service_unavailable", "reply_timeout"),
        *("connection_failed", "invalid_connection", "authentication", "permission_denied", "bad_request"),
        *("invalid_reply", "uncertain_delivery"),
    ),
    "reason": ("rate", "quota", "retry"),
    "status": ("found", "not_found", "missing", "invalid", "failed", "not_asked"),
    "result": ("posted", "uncertain", "kept", "failed", "missing", "unreadable", "no_answer"),
}

METRICS = (
    Metric(
        "{service}.requests.{request}.{outcome}",
        "counter",
        "requests",
        "Requests that were sent, each try by its own outcome: `ok`, or the error.",
    ),
    Metric(
        "{service}.waits.{reason}", "counter", "waits", "Waits for the key's `rate` or `quota`, and before a `retry`."
    ),
    Metric("{service}.wait_milliseconds.{reason}", "counter", "milliseconds", "The length of these waits."),
    Metric(
        "{service}.not_sent.{reason}",
        "counter",
        "requests",
        "Requests that were not sent: the key's `quota` is used up, or its `rate` is booked out.",
    ),
    Metric("books.quota.left", "gauge", "requests", "Requests that the key has left today, as the service last said."),
    Metric("books.rows.{status}", "counter", "rows", "Rows of lists that were saved, by the status that they have."),
    Metric("video.export.pages", "counter", "pages", "Pages of exports that were saved."),
    Metric("video.export.rows", "counter", "rows", "Subscriptions of exports that were saved."),
    Metric("video.posts.{result}", "counter", "bulletins", "Bulletins that were `posted`, or are `uncertain`."),
    Metric(
        "cluster.spikes",
        "counter",
        "spikes",
        "Readings that showed a spike to a sensor, an operator or a trigger: one for each try to capture it.",
    ),
    Metric("cluster.captures.{result}", "counter", "captures", "Captures that were `kept`, or have `failed`."),
    Metric(
        "cluster.capture_delay",
        "timer",
        "milliseconds",
        "From the reading that showed a spike to the report of its nodes.",
    ),
    Metric(
        "pages.reads.{result}",
        "counter",
        "reads",
        "Reads of a capture for the pages that failed: it is `missing` or `unreadable`, or its store gave `no_answer`.",
    ),
)


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
