from airflow.sdk import DAG

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG("capture_when_it_fails", schedule=None, params={"folder": "s3://aws_default@exports"}):
    EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.folder }}/isbns.csv",
        destination="{{ params.folder }}/{{ run_id }}/books.jsonl",
        on_failure_callback=CaptureHotThreadsNotifier(
            destination="{{ params.folder }}/{{ run_id }}/{{ ti.task_id }}-{{ ti.try_number }}.txt",
            formats=["txt", "html"],
        ),
    )
