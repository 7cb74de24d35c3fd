"""Decide by the results of an export and of an enrichment what comes next."""

from __future__ import annotations

from airflow.sdk import dag, task

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.results import EnrichmentSummary, ExportSummary

ISBNS = ["978-0-14-044913-6", "0-306-40615-2", "9791090648524"]


@task.branch
def is_complete(summary: ExportSummary) -> str:
    """Choose by whether the service cut the listing short."""
    return "announce" if summary["complete"] else "report_gap"


@task
def report_gap(summary: ExportSummary) -> str:
    """Say what is missing; here one would write to the team."""
    return f"Only {summary['rows']} subscriptions are in {summary['path']}."


@task.short_circuit
def has_gaps(summary: EnrichmentSummary) -> bool:
    """Go on only if books have no record."""
    return summary["not_found"] > 0


@task
def order_records(summary: EnrichmentSummary) -> str:
    """Ask for the missing records; here one would write to the supplier."""
    return f"{summary['not_found']} of {summary['rows']} books of {summary['path']} have no record."


@dag(schedule=None, default_args={"retries": 3}, params={"folder": "s3://aws_default@exports"})
def branches() -> None:
    """Announce a whole export, report one that was cut short, and ask for missing records."""
    export = ExportSubscriptionsOperator(
        task_id="export", mine=True, destination="{{ params.folder }}/{{ run_id }}/subscriptions.jsonl"
    )
    announce = PostBulletinOperator(
        task_id="announce", text="We follow {{ ti.xcom_pull(task_ids='export')['rows'] }} channels now."
    )
    is_complete(export.output) >> [announce, report_gap(export.output)]

    enrich = EnrichIsbnsOperator(
        task_id="enrich", isbns=ISBNS, destination="{{ params.folder }}/{{ run_id }}/books.jsonl"
    )
    has_gaps(enrich.output) >> order_records(enrich.output)


branches()
