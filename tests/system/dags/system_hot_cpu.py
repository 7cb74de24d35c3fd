"""The wait for a node that runs hot, in each form."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

FORMS: dict[str, dict[str, Any]] = {
    "poke": {"mode": "poke", "deferrable": False, "poke_interval": 1},
    "reschedule": {"mode": "reschedule", "deferrable": False, "poke_interval": 5},
    "deferred": {"deferrable": True, "poke_interval": 1},
}

with DAG(dag_id="system_hot_cpu", schedule=None):
    for form, how in FORMS.items():
        ClusterCpuSensor(
            task_id=form,
            nodes=["sandbox-3", f"hot_{form}"],
            threshold=90,
            sustained_for=2,
            reading_interval=1,
            timeout=1800,
            **how,
        )
