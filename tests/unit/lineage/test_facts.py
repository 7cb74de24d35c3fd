"""What the event of an asset says about the result of a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_mediaops.lineage.facts import capture_facts, enrichment_facts, export_facts

SNIPPETS = Path(__file__).parents[3] / "docs" / "snippets"


def shown(name: str) -> Any:
    """Return a result as the documentation shows it."""
    return json.loads((SNIPPETS / name).read_text(encoding="utf-8"))


def test_of_an_export() -> None:
    summary = {
        "path": "s3://conn@bucket/subs.csv",
        "rows": 120,
        "bytes": 4096,
        "pages": 3,
        "duplicates": 1,
        "restarts": 0,
        "complete": False,
        "resumed": True,
    }
    facts = {"path": "s3://bucket/subs.csv", "rows": 120, "bytes": 4096, "pages": 3, "duplicates": 1, "complete": False}
    assert export_facts(summary) == facts
    assert export_facts({**summary, "changed": False}) == {**facts, "changed": False}


def test_of_an_enrichment() -> None:
    summary = shown("enrichment_result.json")
    statuses = ("found", "not_found", "missing", "invalid", "failed", "not_asked")
    counts = ("rows", *statuses, "reused", "stale", "refresh_failed", "requests")
    facts = {name: summary[name] for name in ("path", "bytes", *counts)}
    assert enrichment_facts(summary) == {**facts, "complete": True}
    assert enrichment_facts({**summary, "failed": 1})["complete"] is False
    assert enrichment_facts({**summary, "not_asked": 1})["complete"] is False


def test_of_a_capture() -> None:
    facts = capture_facts(shown("capture_result.json"))
    assert facts == {
        "path": "s3://reports/2026-11-22/hot_threads.txt",
        "paths": {
            suffix: f"s3://reports/2026-11-22/hot_threads.{suffix}" for suffix in ("txt", "json", "folded", "html")
        },
        "taken": "2026-11-22T09:31:05.371+00:00",
        "bytes": 5603,
        "timed_out": False,
        "nodes": 1,
        "missing": 0,
        "captures": 1,
        "failures": 0,
        "complete": True,
        "hottest": {"node": "sandbox-2", "percent": 97.0, "thread": "opensearch[sandbox-2][search][T#5]"},
    }


def test_a_capture_counts_what_its_lists_leave_out() -> None:
    result = shown("capture_result.json")
    left_out = {"nodes": 150, "missing": 2, "later_captures": 7}
    facts = capture_facts({**result, "missing": ["a"], "left_out": left_out, "failure_count": 4})
    assert (facts["nodes"], facts["missing"], facts["captures"], facts["failures"]) == (151, 3, 8, 4)
    assert facts["complete"] is False
    assert capture_facts({**result, "unparsed": 1})["complete"] is False


def test_a_capture_without_text_or_heat_says_so() -> None:
    facts = capture_facts({**shown("capture_result.json"), "paths": {"html": "/r/hot.html"}, "hottest": []})
    assert (facts["path"], facts["hottest"]) == ("/r/hot.html", None)
