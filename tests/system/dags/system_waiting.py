"""
Waits in each form that are ended by their time limit or by a refusal, and one that is interrupted.

Each sensor looks at a real node and at one that bears its own name, which makes it known in the sandbox's log.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

# A task that is to go on within two seconds or so after it was deferred or rescheduled may be failed by Airflow 3.3,
# which then takes the late news of its pause for the end of what it has just begun (apache/airflow#71580). It is tried
# again, after longer than any pause that the tests measure.
FORMS: dict[str, dict[str, Any]] = {
    "poke": {"mode": "poke", "deferrable": False, "poke_interval": 1},
    "reschedule": {"mode": "reschedule", "deferrable": False, "poke_interval": 5},
    "deferred": {"deferrable": True, "poke_interval": 1},
}
NEVER = 100  # no node of the sandbox is ever that busy

with DAG(dag_id="system_waiting", schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=10)}):
    for form, how in FORMS.items():
        waits: dict[str, dict[str, Any]] = {
            "timed_out": {"threshold": NEVER, "timeout": 4},
            "timed_out_softly": {"threshold": NEVER, "timeout": 4, "soft_fail": True},
            # At its second look.
            "refused": {"threshold": NEVER, "timeout": 1800, "poke_interval": 5},
            "interrupted": {"threshold": 1, "timeout": 1800, "cluster_conn_id": "cluster_one_attempt"},
        }
        for what, arguments in waits.items():
            name = f"{what}_{form}"
            ClusterCpuSensor(task_id=name, nodes=["sandbox-3", name], **{**how, **arguments})
