from typing import Any

from airflow.sdk import DAG, Asset, AssetAlias, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

BOOKS = Asset("books")

with DAG("books_of_the_day", schedule="@daily", params={"folder": "s3://aws_default@books"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/wanted.csv",
        destination="{{ params.folder }}/{{ dag_run.run_after | ds }}.parquet",
        # The one starts the other DAG; the other becomes an asset for the file of each day.
        outlets=[BOOKS, AssetAlias("books_by_day")],
    )

with DAG("report_on_books", schedule=BOOKS):

    @task(inlets=[BOOKS])
    def report(inlet_events: Any = None) -> str:
        """Say how many books were found, and where they are."""
        written = inlet_events[BOOKS][-1].extra
        if not written["complete"]:
            return f"{written['failed']} of {written['rows']} ISBNs had no answer."
        return f"{written['found']} books in {written['path']}"

    report()
