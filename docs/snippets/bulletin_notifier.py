from datetime import timedelta

from airflow.sdk import DAG
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference

from airflow_provider_mediaops.notifications import PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG(
    "post_when_it_ends",
    schedule=None,
    params={"folder": "s3://aws_default@exports"},
    on_success_callback=PostBulletinNotifier(text="{{ dag.dag_id }} has finished."),
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=6),
        callback=AsyncCallback(PostBulletinNotifier, {"text": "{{ dag_run.dag_id }} is late."}),
    ),
):
    EnrichIsbnsOperator(
        task_id="enrich",
        isbns=["978-0-14-044913-6"],
        destination="{{ params.folder }}/{{ run_id }}/books.jsonl",
        on_failure_callback=PostBulletinNotifier(
            text="{{ ti.task_id }} failed: {{ exception or 'no error is known' }}"
        ),
    )
