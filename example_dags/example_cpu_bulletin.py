"""
All of it joined: wait for high CPU, capture the hot threads, and post a bulletin about what was hot.

Needs the connections ``mediaops_cluster_default`` and ``mediaops_video_default``.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

OUTPUT = os.environ.get("MEDIAOPS_OUTPUT", "file:///tmp/mediaops")

with DAG(dag_id="mediaops_cpu_bulletin", schedule=None, catchup=False, tags=["mediaops"], doc_md=__doc__):
    high_cpu = ClusterCpuSensor(
        task_id="wait_for_high_cpu", threshold=85, poke_interval=1, timeout=300, deferrable=True
    )
    capture = CaptureHotThreadsOperator(
        task_id="capture", destination=f"{OUTPUT}/{{{{ run_id }}}}/hot_threads.txt", interval="200ms"
    )
    post = PostBulletinOperator(
        task_id="post",
        text=(
            "{% set report = ti.xcom_pull(task_ids='capture') %}"
            "High CPU on the search cluster. Hottest thread: "
            "{{ report.hottest[0].thread if report.hottest else 'none that could be measured' }}."
        ),
    )
    high_cpu >> capture >> post
