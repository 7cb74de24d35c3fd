"""The page about metrics, and its dashboard: they name metrics that are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from airflow_provider_mediaops.metrics import METRICS, WORDS
from scripts.generated_docs import statsd_mapping

pytestmark = pytest.mark.once

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "watch_it.md").read_text(encoding="utf-8")


def test_each_alert_is_on_a_word_or_an_end_of_a_name() -> None:
    words = {one for ones in WORDS.values() for one in ones}
    rows = re.findall(r"^\| (.*?) \|", PAGE.partition("## Alerts")[2].partition("##")[0], re.MULTILINE)[2:]
    assert rows
    names = [re.sub(r"{.*?}", "*", metric.name) for metric in METRICS]
    for named in (name for row in rows for name in re.findall(r"`([^`]+)`", row)):
        start, _, last = named.rpartition(".")
        ends = [name for name in names if name.endswith((named, f"{start}.*"))] if start else []
        assert named in words or any(name.endswith(named) for name in names) or (ends and last in words), named


def test_dashboard_asks_for_metrics_and_labels_of_the_mapping() -> None:
    mapped = {one["name"]: set(one.get("labels", {})) for one in yaml.safe_load(statsd_mapping())["mappings"]}
    assert len(mapped) == len(METRICS)
    dashboard = json.loads((DOCS / "watch_it.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for target in targets for name in re.findall(r"mediaops_\w+", target["expr"])}
    assert asked == set(mapped) - {"mediaops_waits", "mediaops_video_export_pages"}
    for target in targets:
        (labels,) = {frozenset(mapped[name]) for name in re.findall(r"mediaops_\w+", target["expr"])}
        used = {label for by in re.findall(r"by \((.*?)\)", target["expr"]) for label in by.split(", ")}
        assert used <= labels
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= used
