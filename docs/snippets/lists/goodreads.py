from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_goodreads", schedule=None, default_args={"retries": 3}, params={"folder": "/data/books"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/goodreads_library_export.csv",
        isbn_column=["ISBN13", "ISBN"],
        keep_columns=["Title", "My Rating"],
        destination="{{ params.folder }}/books.csv",
        csv_formulas="escape",
    )
