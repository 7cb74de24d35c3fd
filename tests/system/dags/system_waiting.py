"""
One wait in each form and under each rule, ended by its time limit or by a refusal, and one that is interrupted.

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
RULES: dict[str, dict[str, Any]] = {"plain": {}, "soft_fail": {"soft_fail": True}, "never_fail": {"never_fail": True}}
NEVER = 100  # no node of the sandbox is ever that busy

with DAG(dag_id="system_waiting", schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=10)}):
    for form, how in FORMS.items():
        for rule, then in RULES.items():
            timed_out, refused = f"timed_out_{rule}_{form}", f"refused_{rule}_{form}"
            ClusterCpuSensor(
                task_id=timed_out, nodes=["sandbox-3", timed_out], threshold=NEVER, timeout=4, **how, **then
            )
            refused_at_second_look = {**how, **then, "poke_interval": 5}
            ClusterCpuSensor(
                task_id=refused, nodes=["sandbox-3", refused], threshold=NEVER, timeout=1800, **refused_at_second_look
            )
        interrupted = f"interrupted_{form}"
        ClusterCpuSensor(
            task_id=interrupted,
            nodes=["sandbox-1", interrupted],
            threshold=1,
            timeout=1800,
            cluster_conn_id="cluster_one_attempt",
            **how,
        )
