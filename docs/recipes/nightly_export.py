"""Export the subscriptions each night, and list what came and went since the export before."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, ObjectStoragePath, task

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

with DAG(
    dag_id="nightly_export",
    schedule="0 2 * * *",
    max_active_runs=1,  # two runs of one day write the same file
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    params={"folder": "s3://aws_default@exports/subscriptions"},
):
    export = ExportSubscriptionsOperator(
        task_id="export",
        destination="{{ params.folder }}/{{ dag_run.run_after | ds }}/subscriptions.jsonl",
        mine=True,
        order="alphabetical",
        require_complete=True,  # else what a short listing lacks would count as gone
    )

    @task
    def what_changed(result: dict[str, Any]) -> dict[str, int]:
        """Write changes.json beside the export: the channels that came and went since the export before."""
        file = ObjectStoragePath(result["path"])
        now, before = channels(file), {}
        for folder in sorted(file.parent.parent.iterdir(), key=lambda folder: folder.name, reverse=True):
            if folder.name < file.parent.name and (folder / file.name).exists():
                before = channels(folder / file.name)
                break
        changes = {
            "added": {channel: now[channel] for channel in now.keys() - before.keys()},
            "removed": {channel: before[channel] for channel in before.keys() - now.keys()},
        }
        (file.parent / "changes.json").write_text(json.dumps(changes, ensure_ascii=False, indent=1))
        return {name: len(entries) for name, entries in changes.items()}

    def channels(file: ObjectStoragePath) -> dict[str, str]:
        """Return the titles of the channels in an export, by their ids."""
        snippets = [json.loads(line)["snippet"] for line in file.read_text().splitlines()]
        return {snippet["resourceId"]["channelId"]: snippet["title"] for snippet in snippets}

    what_changed(export.output)
