"""One list of ISBNs in eight parts, looked up by eight tasks on one key."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

FOLDER = os.environ.get("MEDIAOPS_OUTPUT", "/tmp")  # noqa: S108 a place to point to while the file is only parsed
PARTS = 8

with DAG("distributed_enrichment", schedule=None, catchup=False):
    EnrichIsbnsOperator.partial(
        task_id="enrich",
        retries=20,
        retry_delay=timedelta(seconds=2),
        execution_timeout=timedelta(minutes=60),
    ).expand_kwargs(
        [
            {"source": f"{FOLDER}/isbns-{part}.txt", "destination": f"{FOLDER}/books-{part}.jsonl"}
            for part in range(PARTS)
        ]
    )
