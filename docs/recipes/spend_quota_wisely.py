"""Begin only when enough of the day's quota is left for the whole list; wait for the next day otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, PokeReturnValue, task

from airflow_provider_mediaops.exceptions import QuotaExceededError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

with DAG(
    dag_id="spend_quota_wisely",
    schedule="@daily",
    max_active_runs=1,
    default_args={"retries": 5, "retry_delay": timedelta(minutes=30)},
    params={
        "source": "s3://aws_default@catalogue/new_today.csv",
        "folder": "s3://aws_default@catalogue/enriched",
        "keep": 1000,  # requests that others need
        "needed": 5000,
        "wait": 86400,
    },
):

    @task.sensor(poke_interval=1800, timeout=86400, mode="reschedule", soft_fail=True)
    def quota_is_left(params: dict[str, Any]) -> PokeReturnValue:
        """Wait, in no worker slot, until the key has the requests; each look costs one."""
        try:
            with BookDatabaseHook() as hook:
                usage = hook.key_usage()
        except QuotaExceededError:
            return PokeReturnValue(is_done=False)
        # None: this service does not say what is left. Then the list is begun, and a retry resumes it.
        enough = usage is None or usage.left >= params["needed"] + params["keep"]
        return PokeReturnValue(is_done=enough, xcom_value=usage and usage.left)

    enrich = EnrichIsbnsOperator(
        task_id="enrich",
        source="{{ params.source }}",
        destination="{{ params.folder }}/{{ run_id }}.jsonl",
        deferrable=True,
    )
    quota_is_left() >> enrich
