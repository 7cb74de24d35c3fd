"""
Capture the hot threads of a search cluster when its CPU is high, then post a bulletin that names the hottest node.

Needs the connections ``mediaops_cluster_default`` and ``mediaops_video_default``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator

with DAG(
    dag_id="mediaops_cpu_bulletin",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"folder": "s3://aws_default@reports/cpu_bulletin", "sustained_for": 60},
    tags=["mediaops"],
    doc_md=__doc__,
):
    # One task waits and captures. A capture after a sensor would come too late: the scheduler
    # starts the second task seconds after the first, and the spike may be over by then.
    capture = CaptureHotThreadsOperator(
        task_id="capture",
        destination="{{ params.folder }}/{{ run_id }}/hot_threads.txt",
        when_cpu_above=85,
        sustained_for="{{ params.sustained_for }}",  # seconds
        poll_interval=10,
        wait_timeout=timedelta(hours=12),  # no spike until then: both tasks are skipped
        running_tasks=True,
        deferrable=True,
    )
    post = PostBulletinOperator(
        task_id="post",
        text=(
            "{% set capture = ti.xcom_pull(task_ids='capture') %}"
            "The search cluster is slow: "
            "{{ capture.cpu[0].node }} is at {{ capture.cpu[0].percent }} % CPU. "
            "Hottest thread: {{ capture.hottest[0].thread if capture.hottest else 'none' }}. "
            "{% for kind in capture.kinds[:1] %}"
            "Hottest work: {{ kind.label }}, {{ kind.share_percent }} % of the CPU of these threads."
            "{% endfor %}"
        ),
    )
    capture >> post
