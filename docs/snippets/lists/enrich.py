from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_a_list", schedule=None, default_args={"retries": 3}, params={"folder": "/data/books"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/isbns.txt",
        destination="{{ params.folder }}/books.jsonl",
    )
