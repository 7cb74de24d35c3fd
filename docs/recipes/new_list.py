"""Enrich a list as soon as another DAG has written it: the asset's event says which file it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, Metadata, ObjectStoragePath, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

NEW_LIST = Asset("new-list-of-isbns")

with DAG(dag_id="write_list", schedule=None, params={"folder": "s3://aws_default@lists"}):

    @task(outlets=[NEW_LIST])
    def write_list(params: dict[str, Any], run_id: str) -> Any:
        """Write a list, and tell those who wait for one where it is."""
        path = ObjectStoragePath(f"{params['folder']}/{run_id}.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("isbn,shelf\n9780140449136,A1\n9780306406157,B2\n")
        yield Metadata(NEW_LIST, {"path": str(path)})

    write_list()

with DAG(
    dag_id="enrich_new_list",
    schedule=[NEW_LIST],
    default_args={"retries": 5, "retry_delay": timedelta(minutes=5)},
):

    @task
    def lists(triggering_asset_events: Any = None) -> list[str]:
        """Return the files of the events: one run may serve several. A run started by hand has none."""
        return sorted({event.extra["path"] for event in triggering_asset_events[NEW_LIST]})

    EnrichIsbnsOperator.partial(
        task_id="enrich",
        destination="{{ task.source | replace('.csv', '.jsonl') }}",
        deferrable=True,
    ).expand(source=lists())
