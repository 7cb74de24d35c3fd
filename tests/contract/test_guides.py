"""The guides list each argument and each field of a result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typing_extensions import get_type_hints

from airflow_provider_mediaops import results
from scripts import generated_docs
from tests.contract.page_tables import table

DOCS = Path(__file__).parents[2] / "docs"
#: The class that each guide is about, by the comment for which the documentation lists its arguments.
CLASSES = {
    "post_bulletin": "operators.video.PostBulletinOperator",
    "export_subscriptions": "operators.video.ExportSubscriptionsOperator",
    "capture_hot_threads": "operators.cluster.CaptureHotThreadsOperator",
    "hot_threads_digest": "operators.cluster_digest.HotThreadsDigestOperator",
    "enrich_isbns": "operators.books.EnrichIsbnsOperator",
    "subscription_sensor": "sensors.video.SubscriptionSensor",
    "cpu_sensor": "sensors.cluster.ClusterCpuSensor",
    "book_sensor": "sensors.books.BookSensor",
    "bulletin_notifier": "notifications.video.PostBulletinNotifier",
    "capture_notifier": "notifications.cluster.CaptureHotThreadsNotifier",
    "high_cpu_trigger": "triggers.cluster.HighCpuTrigger",
}
#: The types of results and of their parts, with the guide that lists their fields.
TYPES = {
    "ExportSummary": "export_subscriptions",
    "CaptureSummary": "capture_hot_threads",
    "NodeReading": "capture_hot_threads",
    "HotThreadSummary": "capture_hot_threads",
    "KindOfWorkSummary": "capture_hot_threads",
    "TaskGroupSummary": "capture_hot_threads",
    "HotThreadsDigest": "hot_threads_digest",
    "RecurringFrame": "hot_threads_digest",
    "RecurringTasks": "hot_threads_digest",
    "RecurringWork": "hot_threads_digest",
    "EnrichmentSummary": "enrich_isbns",
    "FoundSubscription": "subscription_sensor",
    "HotNodeReading": "cpu_sensor",
    "HotNodesEvent": "high_cpu_trigger",
}


def page(name: str) -> str:
    return (DOCS / "guides" / f"{name}.md").read_text(encoding="utf-8")


def shown(text: str, head: str) -> list[dict[str, str]]:
    """Return the rows of the table that begins with these names of columns."""
    assert head in text
    return table(text[text.index(head) :])


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("name", CLASSES)
def test_a_guide_lists_the_arguments_of_its_class_with_what_the_docstring_says(name: str) -> None:
    comment = f"<!-- parameters: {CLASSES[name]} -->"
    assert page(name).count(comment) == 1

    rows = shown(generated_docs.filled(comment), "| parameter ")
    arguments = generated_docs.parameters_of(generated_docs.class_of(CLASSES[name]))
    assert [named(row["parameter"]) for row in rows] == [[each] for each in arguments]
    assert all(row["meaning"] and row["default"] for row in rows)


def test_a_list_of_arguments_says_which_cannot_be_templated() -> None:
    lists = {name: generated_docs.filled(f"<!-- parameters: {cls} -->") for name, cls in CLASSES.items()}

    assert "\nTemplates: all but `deferrable`. " in lists["enrich_isbns"]
    assert "\nTemplates: all. " in lists["bulletin_notifier"]
    assert "Templates" not in lists["high_cpu_trigger"]


@pytest.mark.parametrize("name", TYPES)
def test_a_guide_lists_the_fields_of_its_result_with_what_the_docstring_says(name: str) -> None:
    comment = f"<!-- fields: results.{name} -->"
    assert page(TYPES[name]).count(comment) == 1

    rows = shown(generated_docs.filled(comment), "| field ")
    assert [named(row["field"]) for row in rows] == [[each] for each in get_type_hints(getattr(results, name))]
    assert all(row["type"] and row["meaning"] for row in rows)
