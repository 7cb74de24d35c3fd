"""The DAG of the guide: a page about the hot threads of each week."""

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator

with DAG("hot_threads_of_the_week", schedule="0 7 * * MON", default_args={"retries": 3}):
    HotThreadsDigestOperator(
        task_id="digest",
        source="s3://aws_default@reports/hot_threads/",
        since="{{ dag_run.run_after - macros.timedelta(days=7) }}",
        until="{{ dag_run.run_after }}",
        destination="s3://aws_default@reports/weeks/{{ dag_run.run_after | ds }}.html",
    )
