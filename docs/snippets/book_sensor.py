from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.sensors.books import BookSensor

with DAG("new_book", schedule=None, default_args={"retries": 3}, params={"isbn": "978-0-14-044913-6"}):
    wait = BookSensor(
        task_id="wait",
        isbn="{{ params.isbn }}",
        poke_interval=600,
        timeout=7 * 24 * 3600,
        deferrable=True,
    )
    post = PostBulletinOperator(
        task_id="post",
        text="{% set book = ti.xcom_pull(task_ids='wait') %}New: {{ book.title }} ({{ book.publisher }}).",
    )
    wait >> post
