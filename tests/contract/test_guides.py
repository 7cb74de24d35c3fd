"""The guides list each argument of the public classes and each field of a result, which the docstrings describe."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_mediaops import notifications, results
from scripts import generated_docs
from tests.contract.tasks import TASKS

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_guides_list_the_arguments_of_each_class_and_the_fields_of_each_result() -> None:
    """The lists are made when the pages are built, which fails if a docstring leaves one out."""
    text = "".join(page.read_text(encoding="utf-8") for page in GUIDES.glob("*.md"))
    classes = re.findall(r"^<!-- parameters: (\S+) -->$", text, re.MULTILINE)
    fields = re.findall(r"^<!-- fields: results\.(\w+) -->$", text, re.MULTILINE)

    named = [name.rpartition(".")[2] for name in classes]
    assert sorted(named) == sorted([*(task.kind.__name__ for task in TASKS), *notifications.__all__, "HighCpuTrigger"])
    assert {"ExportSummary", "CaptureSummary", "HotThreadsDigest", "EnrichmentSummary"} <= set(fields)
    assert {"FoundSubscription", "HotNodeReading", "HotNodesEvent"} <= set(fields)
    assert [name for name in fields if fields.count(name) > 1 or not hasattr(results, name)] == []


def test_a_list_of_arguments_says_which_cannot_be_templated() -> None:
    names = (
        "operators.books.EnrichIsbnsOperator",
        "notifications.PostBulletinNotifier",
        "triggers.cluster.HighCpuTrigger",
    )
    enrich, notifier, trigger = (generated_docs.filled(f"<!-- parameters: {name} -->") for name in names)

    assert "\nTemplates: all but `deferrable`. " in enrich
    assert "\nTemplates: all. " in notifier
    assert "Templates" not in trigger
