"""Look up more ISBNs than the key's quota of a day: a million, over a week."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG(
    dag_id="million_isbns",
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(days=14),
    params={
        "source": "s3://aws_default@catalogue/isbns.csv.gz",
        "destination": "s3://aws_default@catalogue/books.parquet",
    },
):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.source }}",
        isbn_column="isbn",
        destination="{{ params.destination }}",
        max_failures="1%",
        deferrable=True,  # a week in the triggerer, and no worker slot
        # Each spent quota costs one attempt: all rows so far are saved, and the next attempt resumes.
        retries=30,
        retry_delay=timedelta(hours=1),
    )
