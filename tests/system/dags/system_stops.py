"""Tasks that are marked as failed or cleared while they work; each asks a service of its own."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
ISBNS = sample_isbns(6_212)[6_200:]


def export(task_id: str, **arguments: Any) -> None:
    """Make a task that exports what its own platform lists."""
    ExportSubscriptionsOperator(
        task_id=task_id,
        destination=f"{OUTPUT}/stops/{task_id}.jsonl",
        mine=True,
        video_conn_id=f"to_{task_id}",
        **arguments,
    )


def enrich(task_id: str, **arguments: Any) -> None:
    """Make a task that asks its own book database."""
    EnrichIsbnsOperator(
        task_id=task_id,
        isbns=ISBNS,
        destination=f"{OUTPUT}/stops/{task_id}.jsonl",
        books_conn_id=f"to_{task_id}",
        **arguments,
    )


with DAG(
    dag_id="system_stops",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
):
    # Those in workers hold all four slots.
    PostBulletinOperator(task_id="stopped_bulletin", text="Hi", video_conn_id="to_stopped_bulletin")
    export("stopped_export", deferrable=False)
    export("cleared_export", deferrable=False)
    export("stopped_deferred_export", deferrable=True, priority_weight=2)
    enrich("stopped_enrichment", deferrable=False)
    enrich("stopped_deferred_enrichment", deferrable=True, priority_weight=2)
    CaptureHotThreadsOperator(
        task_id="stopped_deferred_capture",
        destination=f"{OUTPUT}/stops/capture.txt",
        when_cpu_above=100,
        poll_interval=1,
        wait_timeout=1800,
        deferrable=True,
        priority_weight=2,
        cluster_conn_id="to_stopped_deferred_capture",
    )
