"""Post a bulletin once a person has approved it, in Airflow's own page; post nothing if nobody answers."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator

with DAG(
    dag_id="approved_bulletin",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"folder": "s3://aws_default@exports/approved"},
):
    export = ExportSubscriptionsOperator(
        task_id="export", destination="{{ params.folder }}/{{ run_id }}.csv", mine=True, csv_formulas="escape"
    )
    approve = ApprovalOperator(
        task_id="approve",
        subject="Post this bulletin?",
        body="We follow {{ ti.xcom_pull(task_ids='export').rows }} channels now.",
        defaults="Reject",  # the answer if nobody gives one within a day
        execution_timeout=timedelta(days=1),
    )
    post = PostBulletinOperator(
        task_id="post", text="We follow {{ ti.xcom_pull(task_ids='export').rows }} channels now."
    )
    export >> approve >> post
