from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("enrich_workbook", schedule=None, default_args={"retries": 3}, params={"folder": "/data/books"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/stock.xlsx",
        repair_zeros=True,
        destination="{{ params.folder }}/books.csv",
        csv_formulas="escape",
    )
