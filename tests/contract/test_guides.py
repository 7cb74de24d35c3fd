"""The guides name each argument and each field of a result, and their tables of columns and rows are the code's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import get_type_hints

from airflow_provider_mediaops import results
from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED
from airflow_provider_mediaops.video.export import SUBSCRIPTIONS
from scripts import generated_docs
from tests.contract.page_tables import table

DOCS = Path(__file__).parents[2] / "docs"
SNIPPETS = DOCS / "snippets"
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


@pytest.mark.parametrize(("name", "view"), [("export_subscriptions", SUBSCRIPTIONS), ("isbn_lists", ENRICHED)])
def test_the_table_of_columns_is_that_of_the_files(name: str, view: Any) -> None:
    rows = shown(page(name), "| column | type | from |")
    types = {column: row["type"] for row in rows for column in named(row["column"]) if "<" not in column}

    assert types == {column: generated_docs.type_in_words(kind) for column, kind in view.columns.items()}


@pytest.mark.parametrize(
    ("name", "head", "snippet"),
    [
        ("post_bulletin", "| field | type | meaning |", "bulletin_result"),
        ("isbn_lists", "| field of a row | type | meaning |", "enrichment_row"),
        ("book_sensor", "| field | type | meaning |", "book_sensor_result"),
    ],
)
def test_the_table_of_a_record_has_the_fields_of_the_one_that_is_shown(name: str, head: str, snippet: str) -> None:
    record = json.loads((SNIPPETS / f"{snippet}.json").read_text(encoding="utf-8"))
    rows = table(page(name)[page(name).index(head) :])

    assert {field for row in rows for field in named(next(iter(row.values())))} == record.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_a_guide_begins_with_an_example(name: str) -> None:
    text = page(name)

    assert CLASSES[name].rpartition(".")[2] in text.partition("```python")[0]
    assert "```python" in text.partition("\n## ")[0]
