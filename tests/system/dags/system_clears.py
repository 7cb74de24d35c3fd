"""Exports and enrichments that are cleared; each asks a service of its own."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
ISBNS = sample_isbns(6_012)[6_000:]


def export(task_id: str) -> None:
    """Make a task that exports what its own platform lists."""
    ExportSubscriptionsOperator(
        task_id=task_id,
        destination=f"{OUTPUT}/clears/{task_id}.jsonl",
        mine=True,
        video_conn_id=f"to_{task_id}",
    )


def enrich(task_id: str, **arguments: Any) -> None:
    """Make a task that asks its own book database."""
    EnrichIsbnsOperator(
        task_id=task_id,
        isbns=ISBNS,
        destination=f"{OUTPUT}/clears/{task_id}.jsonl",
        books_conn_id=f"to_{task_id}",
        **arguments,
    )


with DAG(
    dag_id="system_clears",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
):
    # What takes longest comes first.
    enrich("enrichment_finished_deferred", deferrable=True, priority_weight=2)
    enrich("enrichment_finished", deferrable=False)
    export("export_finished")
    export("export_out_of_quota")
