"""Capture hot threads every ten minutes and at spikes; on Monday, make a page of the week and post its headline."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator

PARAMS = {"folder": "s3://aws_default@reports/hot_threads", "when_cpu_above": 85, "sustained_for": 60}
AT = "{{ dag_run.run_after | ds }}/{{ dag_run.run_after | ts_nodash }}"

with DAG(dag_id="hot_threads_every_ten_minutes", schedule="*/10 * * * *", params=PARAMS):
    CaptureHotThreadsOperator(
        task_id="capture",
        destination=f"{{{{ params.folder }}}}/captures/{AT}.txt",
        formats="txt,json",
    )

# At most one spike an hour: a week at high CPU is not to fill the bucket.
with DAG(dag_id="hot_threads_at_spikes", schedule="@hourly", max_active_runs=1, params=PARAMS):
    CaptureHotThreadsOperator(
        task_id="capture",
        destination=f"{{{{ params.folder }}}}/captures/{AT}.spike.txt",
        when_cpu_above="{{ params.when_cpu_above }}",
        sustained_for="{{ params.sustained_for }}",
        wait_timeout=timedelta(minutes=59),
        formats="txt,json",
        deferrable=True,
    )

with DAG(dag_id="hot_threads_week", schedule="0 7 * * MON", default_args={"retries": 3}, params=PARAMS):
    digest = HotThreadsDigestOperator(
        task_id="digest",
        source="{{ params.folder }}/captures/",
        since="{{ dag_run.run_after - macros.timedelta(days=7) }}",
        until="{{ dag_run.run_after }}",
        destination="{{ params.folder }}/weeks/{{ dag_run.run_after | ds }}.html",
        multiple_outputs=True,
    )
    PostBulletinOperator(task_id="post", text=digest.output["headline"])
