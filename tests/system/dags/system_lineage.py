"""Tasks that write, with outlets, whose events go to OpenLineage."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from airflow.providers.openlineage.utils.selective_enable import enable_lineage
from airflow.sdk import DAG, Asset, AssetAlias, ObjectStoragePath, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns

OUTPUT = f"{os.environ['MEDIAOPS_OUTPUT']}/lineage"
# Airflow takes what stands before the path for the id of a connection.
DESTINATION = f"file://key:hunter2-the-secret@{urlsplit(OUTPUT).path}"
BOOKS = sample_isbns(6_002)[6_000:]


@task
def give_list() -> str:
    """Write a list of ISBNs with their prices; return its path."""
    path = ObjectStoragePath(f"{OUTPUT}/list.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["isbn,price", *(f"{isbn},9.5" for isbn in BOOKS), "978-0,1"]))
    return str(path)


with DAG(dag_id="system_lineage", schedule=None) as dag:
    EnrichIsbnsOperator(
        task_id="enrich",
        source=give_list(),  # type: ignore[arg-type] # the path, when the task runs
        destination=f"{DESTINATION}/books.parquet",
        outlets=[Asset("system_books"), AssetAlias("system_books_by_day")],
        deferrable=True,
    )
    ExportSubscriptionsOperator(
        task_id="export",
        mine=True,
        destination=f"{OUTPUT}/{{{{ ti.task_id }}}}.csv",
        outlets=[Asset("system_subscriptions")],
        deferrable=True,
    )
    CaptureHotThreadsOperator(task_id="capture", destination=f"{OUTPUT}/hot.txt", interval="10ms", snapshots=2)
    # A capture of a cluster that is nowhere.
    CaptureHotThreadsOperator(task_id="fail", destination=f"{OUTPUT}/fail.txt", cluster_conn_id="there_is_none")

enable_lineage(dag)
