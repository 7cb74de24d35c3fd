from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

with DAG("new_subscription", schedule=None, default_args={"retries": 3}, params={"channel": "UCexample"}):
    wait = SubscriptionSensor(
        task_id="wait",
        mine=True,
        for_channel_ids="{{ params.channel }}",
        poke_interval=300,
        timeout=24 * 3600,
        deferrable=True,
    )
    post = PostBulletinOperator(task_id="post", text="We follow {{ ti.xcom_pull(task_ids='wait').title }} now.")
    wait >> post
