"""
Capture the hot threads of a search cluster the moment the CPU of a node stays high.

Needs the connection ``mediaops_cluster_default``, with the privilege ``monitor``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

with DAG(
    dag_id="mediaops_capture_hot_threads",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    # The form that starts a run offers these.
    params={"folder": "s3://aws_default@reports/hot_threads", "sustained_for": 60},
    tags=["mediaops"],
    doc_md=__doc__,
):
    CaptureHotThreadsOperator(
        task_id="capture",
        destination="{{ params.folder }}/{{ run_id }}/hot_threads.txt",  # and .html, .json, .folded
        when_cpu_above=85,
        sustained_for="{{ params.sustained_for }}",  # seconds
        poll_interval=10,
        wait_timeout=timedelta(hours=12),
        captures=3,  # ten seconds apart; the page compares them
        threads=5,
        running_tasks=True,  # and who was behind them
        deferrable=True,  # in the triggerer: no worker slot is held
    )
