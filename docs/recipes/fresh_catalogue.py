"""Keep a catalogue fresh in place, with no more requests a day than the key has to spare."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG(
    dag_id="fresh_catalogue",
    schedule="@daily",
    max_active_runs=1,
    default_args={"retries": 5, "retry_delay": timedelta(minutes=30)},
    params={
        "source": "s3://aws_default@catalogue/stock.csv",
        "catalogue": "s3://aws_default@catalogue/books.parquet",
        "requests": 4000,  # of the key's 5,000 a day; the others are for other tasks
    },
):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.source }}",
        destination="{{ params.catalogue }}",
        reuse="{{ params.catalogue }}",  # what yesterday's catalogue holds is not asked for again
        reuse_for=timedelta(days=90),
        max_requests="{{ params.requests }}",
        max_failures="1%",
        deferrable=True,
    )
