"""The names and units of the metrics, for the documentation and the mapping of StatsD."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """
    A metric, or several whose names differ in a word.

    :param name: the name after ``mediaops.``; a word in braces stands for one of several.
    :param unit: its unit; Airflow sends timers in milliseconds.
    :param meaning: its meaning, for the documentation.
    """

    name: str
    kind: str
    unit: str
    meaning: str


#: The words that stand for those in braces.
WORDS = {
    "service": ("video", "cluster", "books"),
    "request": (
        *("subscriptions", "bulletin", "token"),
        *("cpu", "hot_threads", "tasks", "statistics", "version"),
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
    Metric("books.rows.{status}", "counter", "rows", "Rows of lists that are done, by the status that they have."),
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
