"""A DAG of the sensor and the operators of the video platform."""

from airflow.sdk import DAG, Asset

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

with DAG(
    "subscriptions",
    schedule="@daily",
    default_args={"retries": 3},
    params={"folder": "s3://aws_default@exports"},
):
    wait = SubscriptionSensor(task_id="wait", mine=True, deferrable=True)
    export = ExportSubscriptionsOperator(
        task_id="export",
        mine=True,
        part="id,snippet",
        destination="{{ params.folder }}/{{ run_id }}/subscriptions.parquet",
        require_complete=True,
        outlets=[Asset("subscriptions")],
    )
    post = PostBulletinOperator(
        task_id="post", text="We follow {{ ti.xcom_pull(task_ids='export')['rows'] }} channels now."
    )
    wait >> export >> post
