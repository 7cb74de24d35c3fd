"""Digests of made-up days, and their pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_provider_mediaops.cluster.digest.capture_sums import sums_of, task_rows
from airflow_provider_mediaops.cluster.digest.findings import document_of
from airflow_provider_mediaops.cluster.digest.model import Digest
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.cluster.page.digest_document import digest_page
from tests.unit.cluster.digest.captured_days import BULK, MONDAY, SEARCH, hot, running, text_at

PAGE = "/reports/weeks/week.html"


def page_of(digest: Digest, path: str = PAGE, period: Period = Period()) -> str:  # noqa: B008 - it is frozen
    return digest_page(digest, document_of(digest, period, ["/reports"]), path)


def digest_of(folder: str = "/reports/days", captures: int = 12) -> Digest:
    digest = Digest()
    for number in range(captures):
        at = MONDAY + number * timedelta(hours=2)
        text = text_at(at, hot("n", "search", 40.0 + number, SEARCH), hot("n", "write", 10.0, BULK))
        tasks = task_rows(running("dashboard"), at.timestamp())
        path = f"{folder}/{number}.txt"
        series: Any = "spike" if number == 7 else "scheduled"
        digest.add(sums_of(parse(text), path=path, time=at.timestamp(), series=series, tasks=tasks))
    return digest
