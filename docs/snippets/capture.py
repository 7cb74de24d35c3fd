from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

with DAG("watch_the_cluster", schedule="@daily", default_args={"retries": 3}):
    CaptureHotThreadsOperator(
        task_id="capture",
        destination="s3://aws_default@reports/{{ dag_run.run_after | ds }}/hot_threads.txt",
        nodes="data-*",
        when_cpu_above=85,
        sustained_for=60,
        poll_interval=10,
        wait_timeout=timedelta(hours=23),
        on_timeout="skip",
        captures=3,
        every=10,
        deferrable=True,
    )
