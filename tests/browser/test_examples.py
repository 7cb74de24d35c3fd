"""What the example DAGs write on the real scheduler and triggerer, with connections that were made by the form."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from scripts.local_airflow import LocalAirflow
    from tests.browser.conftest import ExamplesRun


class Ended:
    """The example DAGs that have run: all have succeeded."""

    def __init__(self, airflow: LocalAirflow, examples: ExamplesRun, output: Path) -> None:
        self._airflow = airflow
        self.runs = examples.runs
        self._output = output

    def folder(self, dag_id: str) -> Path:
        """Return the folder of all runs of a DAG."""
        return self._output / dag_id

    def files(self, dag_id: str) -> Path:
        """Return the folder of the run."""
        return self.folder(dag_id) / self.runs[dag_id].run_id

    def value(self, dag_id: str, task_id: str, map_index: int = -1) -> Any:
        """Return what a task returned."""
        return self._airflow.xcom(dag_id, self.runs[dag_id].run_id, task_id, map_index=map_index)


@pytest.fixture
def ended(airflow: LocalAirflow, examples: ExamplesRun, scratch: Path) -> Ended:
    return Ended(airflow, examples, scratch / "output")


def test_all_subscriptions_are_exported(ended: Ended) -> None:
    dag_id = "mediaops_export_subscriptions"
    [folder] = ended.folder(dag_id).glob("20*-*-*")
    summary = ended.value(dag_id, "export_records")
    assert (summary["rows"], summary["pages"], summary["duplicates"]) == (1234, 25, 0)
    assert summary["bytes"] == (folder / "subscriptions.jsonl").stat().st_size
    records = [json.loads(line) for line in (folder / "subscriptions.jsonl").read_text().splitlines()]
    assert len({record["id"] for record in records}) == len(records) == 1234
    with (folder / "subscriptions.csv").open(newline="") as table:
        assert {row["id"] for row in csv.DictReader(table)} == {record["id"] for record in records}


def test_hot_threads_are_captured(ended: Ended) -> None:
    folder = ended.files("mediaops_capture_hot_threads")
    result = ended.value("mediaops_capture_hot_threads", "capture")
    assert [cpu["node"] for cpu in result["cpu"]] == ["sandbox-2"]
    assert [taken["unparsed"] for taken in [result, *result["later_captures"]]] == [0, 0, 0]
    for number in (1, 2, 3):
        assert (folder / f"hot_threads.{number}.txt").read_text().count("::: {") == 1
        assert len(json.loads((folder / f"hot_threads.{number}.json").read_text())["nodes"]) == 1
    assert "report:nightly-margin (indices:data/read/search on" in (folder / "hot_threads.html").read_text()


def test_bulletins_are_posted(ended: Ended, sandbox: SandboxServer) -> None:
    results = [ended.value(dag_id, "post") for dag_id in ("mediaops_post_bulletin", "mediaops_cpu_bulletin")]
    for result in results:
        posted = [bulletin for bulletin in sandbox.state.bulletins if bulletin["id"] == result["id"]]
        assert [bulletin["snippet"]["description"] for bulletin in posted] == [result["snippet"]["description"]]
    texts = [result["snippet"]["description"] for result in results]
    assert re.fullmatch(r"The catalogue was refreshed on 20\d\d-\d\d-\d\d\.", texts[0])
    assert re.match(r"The search cluster is slow: sandbox-2 is at [89]\d\.0 % CPU\. Hottest thread: ", texts[1])
    assert ended.value("mediaops_cpu_bulletin", "capture")["hottest"][0]["thread"] in texts[1]


def test_each_isbn_has_its_row(ended: Ended) -> None:
    dataset = ended.files("mediaops_enrich_isbns") / "books.jsonl"
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    assert [(row["isbn13"], row["status"]) for row in rows] == [
        ("9780140449136", "found"),
        ("9780306406157", "found"),
        ("9780439064873", "not_found"),
        ("9780000000019", "found"),
        (None, "invalid"),
    ]
