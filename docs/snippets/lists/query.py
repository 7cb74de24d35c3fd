from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_a_query", schedule=None, default_args={"retries": 3}, params={"folder": "/data/books"}):
    wanted = SQLExecuteQueryOperator(task_id="wanted", conn_id="shop", sql="SELECT isbn FROM orders WHERE open")
    EnrichIsbnsOperator(
        task_id="enrich",
        isbns=wanted.output,
        destination="{{ params.folder }}/books.jsonl",
    )
