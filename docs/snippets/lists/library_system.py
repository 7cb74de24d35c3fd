from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_library_report", schedule=None, default_args={"retries": 3}, params={"folder": "/data/books"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/report.csv",
        isbn_column="020$a",
        several="rows",
        max_invalid="5%",
        destination="{{ params.folder }}/books.csv",
    )
