"""Post one bulletin a day, however many runs, retries and backfills there are."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.notifications import PostBulletinNotifier
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator

JOURNAL = "{{ params.folder }}/journal"

with DAG(
    dag_id="bulletin_of_the_day",
    schedule="0 */6 * * *",  # the later runs of a day do not repeat the bulletin of the first
    default_args={
        "retries": 3,
        "retry_delay": timedelta(minutes=20),  # another run that is posting is done by then
        # One for all tasks that fail on that day.
        "on_failure_callback": PostBulletinNotifier(
            text="The catalogue is late today.",
            journal=JOURNAL,
            once_per="late {{ dag_run.run_after | ds }}",
        ),
    },
    params={"folder": "s3://aws_default@exports/of_the_day"},
):
    export = ExportSubscriptionsOperator(
        task_id="export",
        destination="{{ params.folder }}/{{ run_id }}.jsonl",
        mine=True,
    )
    post = PostBulletinOperator(
        task_id="post",
        text="{{ ti.xcom_pull(task_ids='export').rows }} channels on {{ dag_run.run_after | ds }}.",
        journal=JOURNAL,
        # Another DAG that posts this bulletin writes the same.
        once_per="catalogue {{ dag_run.run_after | ds }}",
    )
    export >> post
