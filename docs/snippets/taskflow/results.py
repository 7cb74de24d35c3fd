"""Look up the ISBNs that a task returns, and read the dataset in the next task."""

from __future__ import annotations

import json
from collections import Counter

from airflow.sdk import ObjectStoragePath, dag, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.results import EnrichmentSummary


@task
def ordered() -> list[str]:
    """Return the ISBNs of today's orders."""
    return ["978-0-14-044913-6", "0-306-40615-2", "9780140449136"]


@task
def by_publisher(enriched: EnrichmentSummary) -> dict[str, int]:
    """Count the books of each publisher."""
    # The path of a dataset leads back to it, with its connection: s3://aws_default@books/….jsonl
    lines = ObjectStoragePath(enriched["path"]).read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    return Counter(row["book"]["publisher"] for row in rows if row["status"] == "found")


@dag(schedule=None, default_args={"retries": 3}, params={"folder": "s3://aws_default@books"})
def results_downstream() -> None:
    """Pass the result of one task to the next."""
    enrich = EnrichIsbnsOperator(
        task_id="enrich",
        isbns=ordered(),
        destination="{{ params.folder }}/{{ run_id }}.jsonl",
    )
    by_publisher(enrich.output)


results_downstream()
