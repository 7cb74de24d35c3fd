"""Digests of made-up days, and their pages."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.digest.capture_sums import sums_of, task_rows
from airflow_provider_mediaops.cluster.digest.findings import document_of
from airflow_provider_mediaops.cluster.digest.model import Digest
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.cluster.page.digest_document import digest_page
from tests.unit.cluster.digest.captured_days import BULK, MONDAY, SEARCH, hot, running, text_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums

PAGE = "/reports/weeks/week.html"


def page_of(digest: Digest, path: str = PAGE, period: Period = Period()) -> str:  # noqa: B008 - it is frozen
    return digest_page(digest, document_of(digest, period, ["/reports"]), path)


def sums_at(at: datetime, text: str, path: str = "/reports/x.txt", **facts: Any) -> CaptureSums:
    """Return the sums of a capture that was taken at a time."""
    return sums_of(parse(text), path=path, time=at.timestamp(), **facts)


def digest_from(captures: Iterable[CaptureSums]) -> Digest:
    digest = Digest()
    for each in captures:
        digest.add(each)
    return digest


def digest_of(folder: str = "/reports/days", captures: int = 12) -> Digest:
    """Return the digest of a day with one spike."""

    def sums(number: int) -> CaptureSums:
        at = MONDAY + number * timedelta(hours=2)
        text = text_at(at, hot("n", "search", 40.0 + number, SEARCH), hot("n", "write", 10.0, BULK))
        tasks = task_rows(running("dashboard"), at.timestamp())
        series = "spike" if number == 7 else "scheduled"
        return sums_at(at, text, f"{folder}/{number}.txt", series=series, tasks=tasks)

    return digest_from(map(sums, range(captures)))
