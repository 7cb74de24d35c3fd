"""Exports that say what has changed, of runs of their own, and the listings that they read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import BASE
from tests.unit.video.listings import Listings
from tests.unit.video_platform import connection

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

NOTHING = {"added": 0, "removed": 0, "changed_records": 0, "recovered": 0, "kept": 0}


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker) -> Listings:
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection(BASE))
    listings = Listings()
    requests_mock.get(f"{BASE}/v3/subscriptions", json=listings.answer)
    return listings


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return log_lines(monkeypatch, ExportSubscriptionsOperator)


def task(folder: object, name: str = "subs.jsonl", **arguments: Any) -> ExportSubscriptionsOperator:
    usual: dict[str, Any] = {"mine": True, "changes": f"{folder}/subs.changes.jsonl"}
    return ExportSubscriptionsOperator(task_id="export", destination=f"{folder}/{name}", **(usual | arguments))


def export(folder: object, name: str = "subs.jsonl", run: str = "", **arguments: Any) -> dict[str, Any]:
    """Export as a run of its own, unless it has a name."""
    run = run or f"run-{next(_runs)}"
    instance = SimpleNamespace(dag_id="dag", run_id=run, task_id="export", map_index=-1, max_tries=0)
    operator = task(folder, name, **arguments)
    context: Any = {"ti": instance}
    return operator.execute(context)


_runs = iter(range(10_000))


def changes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "subs.changes.jsonl").read_bytes().split(b"\n")[:-1]]


def said(folder: Path) -> list[tuple[str, str]]:
    return [(row["change"], row["id"]) for row in changes(folder)]


def counted(summary: dict[str, Any]) -> dict[str, int]:
    return {name: summary[name] for name in NOTHING}
