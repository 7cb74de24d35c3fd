"""
Capture the hot threads of a search cluster when the CPU of a node stays high.

Needs the connection ``mediaops_cluster_default``, with the privilege ``monitor``.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

OUTPUT = os.environ.get("MEDIAOPS_OUTPUT", "file:///tmp/mediaops")

with DAG(dag_id="mediaops_capture_hot_threads", schedule=None, catchup=False, tags=["mediaops"], doc_md=__doc__):
    high_cpu = ClusterCpuSensor(
        task_id="wait_for_high_cpu",
        threshold=85,
        sustained_for=2,
        poke_interval=1,
        timeout=300,
        deferrable=True,
    )
    capture = CaptureHotThreadsOperator(
        task_id="capture",
        destination=f"{OUTPUT}/{{{{ run_id }}}}/hot_threads.txt",  # and hot_threads.json beside it
        interval="200ms",
        snapshots=10,
        threads=5,
    )
    high_cpu >> capture
