"""Tasks that end by an error, each with retries left and a long delay before them."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]

with DAG(
    dag_id="system_endings",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(hours=1)},
):
    EnrichIsbnsOperator(
        task_id="inactive_key",
        isbns=["9780140449136"],
        destination=f"{OUTPUT}/inactive_key.jsonl",
        books_conn_id="books_inactive_key",
    )
    PostBulletinOperator(task_id="missing_scope", text="Not allowed.", video_conn_id="video_read_only")
    CaptureHotThreadsOperator(
        task_id="bad_argument",
        interval="{{ dag_run.conf.get('interval', 'half a second') }}",
        destination=f"{OUTPUT}/bad_argument.txt",
    )
    PostBulletinOperator(task_id="no_connection", text="Nowhere to go.", video_conn_id="video_nowhere")
    CaptureHotThreadsOperator(
        task_id="asked_to_wait",
        nodes=["sandbox-1", "asked_to_wait"],
        interval="100ms",
        destination=f"{OUTPUT}/asked_to_wait.txt",
        cluster_conn_id="cluster_impatient",
        # Shorter than what the service asks for.
        retry_delay=timedelta(seconds=1),
    )
