"""What a real Airflow knows of what tasks have read and written, waits in the triggerer included."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.system.connections import SECRETS
from tests.system.running import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.system.running import Ended, Runs, WatchedAirflow

DAGS = ("system_lineage",)
USERINFO = "hunter2-the-secret"


@pytest.fixture(scope="module")
def run(runs: Runs) -> Ended:
    """Wait for what each task does when Airflow already knows how it ended: its links, then its event."""
    run = runs.ended("system_lineage")
    last = {"enrich": "COMPLETE", "export": "COMPLETE", "capture": "COMPLETE", "fail": "FAIL"}

    def have_told() -> bool:
        return all(kind in openlineage_events(run, task) for task, kind in last.items())

    wait_for(have_told, "OpenLineage has the end of each task")
    return run


@pytest.fixture(scope="module")
def folder(output: Path) -> Path:
    return output / "lineage"


def openlineage_events(run: Ended, task: str) -> dict[str, dict[str, Any]]:
    """Return what OpenLineage's console transport wrote into a task's log: the last event of each kind."""
    events = [json.loads(text) for text in re.findall(r'\{"eventTime".*\}', run.log(task))]
    return {event["eventType"]: event for event in events}


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(dataset["namespace"], dataset["name"]) for dataset in datasets]


def test_openlineage_learns_of_an_enrichment_in_the_triggerer(run: Ended, folder: Path) -> None:
    assert run.states == {
        "give_list": "success",
        "enrich": "success",
        "export": "success",
        "capture": "success",
        "fail": "failed",
    }
    event = openlineage_events(run, "enrich")["COMPLETE"]
    assert names(event["inputs"]) == [
        ("file", f"{folder}/list.csv"),
        ("mediaops-books://mediaops_books_default", "books"),
    ]
    assert names(event["outputs"]) == [("file", f"{folder}/books.parquet")]
    [output] = event["outputs"]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (3, (folder / "books.parquet").stat().st_size)
    # Another worker than the one that has read the list knows its columns.
    fields = [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]]
    assert fields[-1] == ("source_price", "string")


def test_openlineage_learns_of_an_export_and_a_capture(run: Ended, folder: Path) -> None:
    export = openlineage_events(run, "export")["COMPLETE"]
    assert names(export["inputs"]) == [("mediaops-video://mediaops_video_default", "subscriptions/mine")]
    assert names(export["outputs"]) == [("file", f"{folder}/export.csv")]
    rows = export["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"]
    assert rows == run.value("export")["rows"] > 0
    capture = openlineage_events(run, "capture")["COMPLETE"]
    assert names(capture["inputs"]) == [("mediaops-cluster://mediaops_cluster_default", "hot_threads")]
    assert ("file", f"{folder}/hot.txt") in names(capture["outputs"])
    assert openlineage_events(run, "fail")["FAIL"]["outputs"] == []


def test_asset_events_say_what_was_written(run: Ended, airflow: WatchedAirflow, folder: Path) -> None:
    events = airflow.asset_events(run.dag_id, run.run_id)
    books = events["system_books"]
    assert books == events[f"file://{folder}/books.parquet"]
    assert (books["path"], books["rows"], books["found"], books["invalid"]) == (f"{folder}/books.parquet", 3, 2, 1)
    assert books["complete"] is True
    assert events["system_subscriptions"]["bytes"] == (folder / "export.csv").stat().st_size


def test_the_web_interface_has_the_links(run: Ended, airflow: WatchedAirflow) -> None:
    links = {task: airflow.links(run.dag_id, run.run_id, task) for task in ("enrich", "export", "capture", "fail")}
    task = f"{airflow.url}/dags/system_lineage/runs/{quote(run.run_id, safe='')}/tasks"
    assert links == {
        "enrich": {"Dataset": f"{task}/enrich/asset_events"},
        "export": {"Dataset": f"{task}/export/asset_events"},
        "capture": {"Hot threads report": f"{task}/capture/plugin/mediaops-hot-threads"},
        "fail": {"Hot threads report": None},
    }


def test_no_secret_of_a_connection_is_in_any_of_it(run: Ended, airflow: WatchedAirflow) -> None:
    shown = [
        airflow.asset_events(run.dag_id, run.run_id),
        *(airflow.links(run.dag_id, run.run_id, task) for task in ("enrich", "export", "capture")),
        *(openlineage_events(run, task) for task in ("enrich", "export", "capture", "fail")),
    ]
    text = json.dumps(shown)
    assert [secret for secret in (*SECRETS, USERINFO) if secret in text] == []
