"""Export the channels that a task returns, each by a task of its own, and add up what they wrote."""

from __future__ import annotations

from airflow.sdk import dag, task

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.results import ExportSummary


@task
def channels() -> list[str]:
    """Return the channels of interest."""
    return ["UCsandbox-mine", "UCsandbox-few"]


@task
def total(summaries: list[ExportSummary]) -> int:
    """Add up the subscriptions of all channels."""
    return sum(summary["rows"] for summary in summaries)


@dag(schedule=None, default_args={"retries": 3}, params={"folder": "s3://aws_default@exports"})
def mapped_exports() -> None:
    """Export each channel to a file of its own."""
    export = ExportSubscriptionsOperator.partial(
        task_id="export",
        destination="{{ params.folder }}/{{ run_id }}/{{ task.channel_id }}.jsonl",
    ).expand(channel_id=channels())
    total(export.output)


mapped_exports()
