from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

with DAG("who_was_behind_it", schedule="@daily"):
    CaptureHotThreadsOperator(
        task_id="capture",
        destination="s3://aws_default@reports/{{ run_id }}/hot_threads.txt",
        when_cpu_above=85,
        sustained_for=30,
        wait_timeout=timedelta(hours=23),
        running_tasks=True,
        threads=8,
        deferrable=True,
    )
