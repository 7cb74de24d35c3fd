from airflow.sdk import DAG

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG(
    "with_notifiers",
    schedule="@daily",
    default_args={"retries": 3},
    on_success_callback=PostBulletinNotifier(text="{{ dag.dag_id }} has finished."),
):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="s3://aws_default@lists/{{ run_id }}.csv",
        isbn_column="ean",
        destination="s3://aws_default@books/{{ run_id }}.parquet",
        on_failure_callback=CaptureHotThreadsNotifier(destination="s3://aws_default@reports/{{ run_id }}.txt"),
    )
