from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

with DAG("export_subscriptions", schedule=None, default_args={"retries": 3}, params={"folder": "/data/exports"}):
    ExportSubscriptionsOperator(
        task_id="export",
        mine=True,
        destination="{{ params.folder }}/{{ run_id }}/subscriptions.jsonl",
    )
