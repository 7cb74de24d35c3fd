"""The example DAGs on the real scheduler and triggerer."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Runs, WatchedAirflow

EXAMPLES = Path(__file__).parents[2] / "example_dags"
DAGS = tuple(f"mediaops_{file.stem.removeprefix('example_')}" for file in sorted(EXAMPLES.glob("example_*.py")))
# Everything a task returns stands in Airflow's metadata database.
LARGEST_XCOM = 16_384


@pytest.mark.parametrize("dag_id", DAGS)
def test_an_example_succeeds_without_a_logical_date(runs: Runs, airflow: WatchedAirflow, dag_id: str) -> None:
    run = runs.ended(dag_id)
    assert airflow.logical_date(dag_id, run.run_id) is None
    assert set(run.states.values()) == {"success"}


@pytest.mark.parametrize("dag_id", DAGS)
def test_result_of_an_example_is_small(runs: Runs, dag_id: str) -> None:
    run = runs.ended(dag_id)
    assert all(len(json.dumps(run.value(task_id))) < LARGEST_XCOM for task_id in run.tasks)


def test_all_subscriptions_are_exported(runs: Runs, output: Path) -> None:
    run = runs.ended("mediaops_export_subscriptions")
    [folder] = (output / run.dag_id).glob("20*-*-*")
    summary = run.value("export_records")
    assert (summary["rows"], summary["pages"], summary["duplicates"]) == (1234, 25, 0)
    assert summary["bytes"] == (folder / "subscriptions.jsonl").stat().st_size
    records = [json.loads(line) for line in (folder / "subscriptions.jsonl").read_text().splitlines()]
    assert len({record["id"] for record in records}) == len(records) == 1234
    with (folder / "subscriptions.csv").open(newline="") as table:
        assert {row["id"] for row in csv.DictReader(table)} == {record["id"] for record in records}


def test_hot_threads_are_captured(runs: Runs, output: Path) -> None:
    run = runs.ended("mediaops_capture_hot_threads")
    folder = output / run.dag_id / run.run_id
    assert [cpu["node"] for cpu in run.value("capture")["cpu"]] == ["sandbox-2"]
    result = run.value("capture")
    assert [taken["unparsed"] for taken in [result, *result["later_captures"]]] == [0, 0, 0]
    for number in (1, 2, 3):
        assert (folder / f"hot_threads.{number}.txt").read_text().count("::: {") == 1
        assert len(json.loads((folder / f"hot_threads.{number}.json").read_text())["nodes"]) == 1
    assert "report:nightly-margin (indices:data/read/search on" in (folder / "hot_threads.html").read_text()


def test_a_run_that_no_event_started_captures_all_nodes(runs: Runs, output: Path) -> None:
    run = runs.ended("mediaops_hot_nodes")
    assert (output / run.dag_id / run.run_id / "hot_threads.txt").read_text().count("::: {") == 3


def test_bulletins_are_posted(runs: Runs, sandbox: SandboxServer) -> None:
    runs_that_post = [runs.ended(dag_id) for dag_id in ("mediaops_post_bulletin", "mediaops_cpu_bulletin")]
    for run in runs_that_post:
        posted = [bulletin for bulletin in sandbox.state.bulletins if bulletin["id"] == run.value("post")["id"]]
        assert [bulletin["snippet"]["description"] for bulletin in posted] == [
            run.value("post")["snippet"]["description"]
        ]
    texts = [run.value("post")["snippet"]["description"] for run in runs_that_post]
    assert re.fullmatch(r"The catalogue was refreshed on 20\d\d-\d\d-\d\d\.", texts[0])
    assert re.match(r"The search cluster is slow: sandbox-2 is at [89]\d\.0 % CPU\. Hottest thread: ", texts[1])
    assert runs_that_post[1].value("capture")["hottest"][0]["thread"] in texts[1]


def test_each_isbn_has_its_row(runs: Runs, output: Path) -> None:
    run = runs.ended("mediaops_enrich_isbns")
    rows = [json.loads(line) for line in (output / run.dag_id / run.run_id / "books.jsonl").read_text().splitlines()]
    assert [(row["isbn13"], row["status"]) for row in rows] == [
        ("9780140449136", "found"),
        ("9780306406157", "found"),
        ("9780439064873", "not_found"),
        ("9780000000019", "found"),
        (None, "invalid"),
    ]
