"""Exports and enrichments that are cleared or killed; each asks a service of its own."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns

if TYPE_CHECKING:
    from airflow.sdk import Context

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
ISBNS = sample_isbns(6_012)[6_000:]
MANY_ISBNS = sample_isbns(6_124)[6_100:]


def tell_process(context: Context) -> None:
    """Write down which process the first try is, so that somebody can kill it."""
    if context["ti"].try_number == 1:
        note = Path(urlsplit(OUTPUT).path) / f"{context['ti'].task_id}.writing"
        note.write_text(str(os.getpid()))
        note.rename(note.with_suffix(".pid"))


def export(task_id: str) -> None:
    """Make a task that exports what its own platform lists."""
    ExportSubscriptionsOperator(
        task_id=task_id,
        destination=f"{OUTPUT}/clears/{task_id}.jsonl",
        mine=True,
        video_conn_id=f"to_{task_id}",
    )


def enrich(task_id: str, isbns: list[str], **arguments: Any) -> None:
    """Make a task that asks its own book database."""
    EnrichIsbnsOperator(
        task_id=task_id,
        isbns=isbns,
        destination=f"{OUTPUT}/clears/{task_id}.jsonl",
        books_conn_id=f"to_{task_id}",
        **{"deferrable": False, **arguments},
    )


with DAG(
    dag_id="system_clears",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
):
    # What takes longest comes first.
    enrich("enrichment_killed", MANY_ISBNS, pre_execute=tell_process, priority_weight=3)
    enrich("enrichment_finished_deferred", ISBNS, deferrable=True, priority_weight=2)
    enrich("enrichment_finished", ISBNS)
    enrich("enrichment_failed", ISBNS, max_failures=1)
    export("export_finished")
    export("export_out_of_quota")
