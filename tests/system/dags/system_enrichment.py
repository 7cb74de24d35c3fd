"""A list that is enriched in the triggerer, long enough for the triggerer to die meanwhile."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
# For mistakes of Airflow (apache/airflow#71580).
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=1)}
BOOKS = sample_isbns(5_060)[5_000:]
MISSING = ["9791090000018", "9791090000025"]


@task
def give_isbns() -> list[str]:
    """Give books, some of them twice, two that are missing, and what is no ISBN."""
    return [*BOOKS[:30], *MISSING, "978-0", *BOOKS[:10], *BOOKS[30:]]


with DAG(dag_id="system_enrichment", schedule=None, default_args=RETRIES):
    EnrichIsbnsOperator(
        task_id="enrich",
        isbns=give_isbns(),
        destination=f"{OUTPUT}/enrichment/books.jsonl",
        deferrable=True,
    )
