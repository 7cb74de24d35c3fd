"""Fail a run in which too many ISBNs of a list are wrong or have no record."""

from __future__ import annotations

from airflow.sdk import DAG, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_and_check", schedule=None, default_args={"retries": 3}):
    books = EnrichIsbnsOperator(
        task_id="enrich",
        source="/data/stock.csv",
        destination="/data/books/{{ run_id }}.jsonl",
        max_failures="1%",
    )

    @task(retries=0)  # another try would find the same counts
    def check(summary: dict[str, int]) -> None:
        """Raise if more than a tenth of the rows have no record."""
        without = summary["not_found"] + summary["invalid"]
        if without > 0.1 * summary["rows"]:
            raise ValueError(f"{without} of {summary['rows']} ISBNs have no record: see {summary['path']}")

    check(books.output)
