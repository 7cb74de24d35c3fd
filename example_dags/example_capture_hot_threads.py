"""
Capture the hot threads of a search cluster the moment the CPU of a node stays high.

Needs the connection ``mediaops_cluster_default``, with the privilege ``monitor``.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

OUTPUT = os.environ.get("MEDIAOPS_OUTPUT", "file:///tmp/mediaops")

with DAG(dag_id="mediaops_capture_hot_threads", schedule=None, catchup=False, tags=["mediaops"], doc_md=__doc__):
    CaptureHotThreadsOperator(
        task_id="capture",
        destination=f"{OUTPUT}/{{{{ run_id }}}}/hot_threads.txt",  # hot_threads.1.txt, …, and hot_threads.html for all
        when_cpu_above=85,
        sustained_for=2,
        poll_interval=1,
        wait_timeout=300,
        captures=2,
        every=1,
        interval="200ms",
        threads=5,
        deferrable=True,  # wait, and capture, in the triggerer
    )
