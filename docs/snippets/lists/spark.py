from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_spark_folder", schedule=None, default_args={"retries": 3}, params={"folder": "/data/books"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/day=*/part-*.csv",
        destination="{{ params.folder }}/books.parquet",
    )
