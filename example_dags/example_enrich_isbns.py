"""
Look up a list of ISBNs at the rate of your plan, and write one row for each of them.

Needs the connection ``mediaops_books_default`` with your REST key and its plan.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sensors.books import BookSensor

ISBNS = [
    "978-0-14-044913-6",  # any usual writing is understood
    "0-306-40615-2",  # also the ten digits of older books
    "ISBN 9780439064873",
    "9780000000019",
    "not an ISBN",  # becomes a row that says so; no request is spent on it
]

with DAG(
    dag_id="mediaops_enrich_isbns",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},  # a retry resumes
    params={"folder": "/data/books"},  # or an object store: s3://aws_default@bucket/books
    tags=["mediaops"],
    doc_md=__doc__,
):
    record = BookSensor(
        task_id="wait_for_the_record",
        isbn="978-0-14-044913-6",
        poke_interval=600,
        timeout=24 * 3600,
        deferrable=True,  # holds no worker slot while it waits
    )
    enrich = EnrichIsbnsOperator(
        task_id="enrich",
        isbns=ISBNS,
        destination="{{ params.folder }}/{{ run_id }}/books.jsonl",
    )
    record >> enrich
