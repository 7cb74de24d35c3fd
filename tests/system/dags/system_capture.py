"""
Captures at detection in the triggerer: of a spike, and at the time limit.

Each task looks at a real node and at one that bears its own name, which makes it known in the sandbox's log. It has a
connection of its own, because those that share one share their readings, too.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
NEVER = 100  # no node of the sandbox is ever that busy
TASKS: dict[str, dict[str, Any]] = {
    "spike": {"when_cpu_above": 90, "sustained_for": 2, "captures": 2, "every": 1, "wait_timeout": 1800},
    "limit": {"when_cpu_above": NEVER, "wait_timeout": 40, "on_timeout": "capture"},
}

with DAG(dag_id="system_capture", schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)}):
    for name, arguments in TASKS.items():
        CaptureHotThreadsOperator(
            task_id=name,
            destination=f"{OUTPUT}/capture/{{{{ ti.task_id }}}}.txt",
            nodes=["sandbox-1", name],
            cluster_conn_id=f"capture_{name}",
            poll_interval=1,
            interval="100ms",
            deferrable=True,
            **arguments,
        )
