"""Watch a rolling restart: capture each node that runs hot on its way, and say when all are back and calm."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, PokeReturnValue, task

from airflow_provider_mediaops.exceptions import NotFoundError, TemporaryError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

NODES = ["data-1", "data-2", "data-3"]

with DAG(
    dag_id="rolling_restart",
    schedule=None,  # started by whatever restarts the nodes
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "folder": "s3://aws_default@reports/restarts",
        "nodes": NODES,
        "sustained_for": 60,
        "wait_timeout": 7200,
        "calm_below": 50,
    },
):

    @task
    def nodes(params: dict[str, Any]) -> list[str]:
        """Return the nodes of this restart: those of the run's configuration."""
        return list(params["nodes"])

    # A node that leaves while its task waits does not end the wait.
    capture = CaptureHotThreadsOperator.partial(
        task_id="capture",
        destination="{{ params.folder }}/{{ run_id }}/{{ task.nodes }}.txt",
        when_cpu_above=85,
        sustained_for="{{ params.sustained_for }}",
        poll_interval=10,
        wait_timeout="{{ params.wait_timeout }}",
        on_timeout="skip",
        deferrable=True,
    ).expand(nodes=nodes())

    @task.sensor(poke_interval=30, timeout=7200, mode="reschedule", trigger_rule="all_done")
    def all_calm(params: dict[str, Any]) -> PokeReturnValue:
        """Wait until every node is there and below `calm_below` percent."""
        try:
            with SearchClusterHook() as hook:
                cpu = {node.name: node.percent for node in hook.cpu(params["nodes"])}
        except (NotFoundError, TemporaryError):
            return PokeReturnValue(is_done=False)  # none of them is up, or the cluster elects a manager
        # A node that is missing, or does not say its CPU, is not calm.
        calm = [percent is not None and percent < params["calm_below"] for percent in map(cpu.get, params["nodes"])]
        return PokeReturnValue(is_done=all(calm), xcom_value=cpu)

    capture >> all_calm()
