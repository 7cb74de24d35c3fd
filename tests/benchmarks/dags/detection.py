"""Three ways from a high CPU to the hot threads: in the same step, and a sensor before a task in two forms."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

FOLDER = os.environ.get("MEDIAOPS_OUTPUT", "/tmp")  # noqa: S108 a place to point to while the file is only parsed
THRESHOLD = float(os.environ.get("MEDIAOPS_THRESHOLD", "85"))
POLL = 1.0
# The run is told which cluster to watch.
CLUSTER = "{{ dag_run.conf['cluster'] }}"
CAPTURE: dict[str, Any] = {
    "destination": f"{FOLDER}/{CLUSTER}.txt",
    "formats": ["txt"],
    "interval": "10ms",
    "snapshots": 1,
    "cluster_conn_id": CLUSTER,
}

with DAG("capture", schedule=None):
    CaptureHotThreadsOperator(
        task_id="wait", when_cpu_above=THRESHOLD, poll_interval=POLL, wait_timeout=300, deferrable=True, **CAPTURE
    )

for name, deferrable in (("poking_sensor", False), ("deferrable_sensor", True)):
    with DAG(name, schedule=None):
        wait = ClusterCpuSensor(
            task_id="wait",
            threshold=THRESHOLD,
            poke_interval=POLL,
            timeout=300,
            deferrable=deferrable,
            cluster_conn_id=CLUSTER,
        )
        wait >> CaptureHotThreadsOperator(task_id="capture", **CAPTURE)
