"""The example DAGs, each run to its end against the sandbox, without a secret left anywhere."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox.books import plans
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from airflow_provider_mediaops.sandbox.video import tokens
from tests.contract import dag_runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.contract.dag_runs import Run

pytestmark = pytest.mark.long

SECRETS = (tokens.BEARER_TOKEN, cluster.PASSWORD, plans.PRO.key)
TEXT_OF_THE_BULLETIN = r"The catalogue was refreshed on 20\d\d-\d\d-\d\d\."


@dataclass(frozen=True)
class Examples:
    """Runs the example DAGs, with their files below a folder."""

    folder: Path
    output: Path

    def run(self, name: str) -> Run:
        """Run one as most runs of it are: by hand, without a logical date, with values from the form."""
        dag = dag_runs.dags_of(self.folder / f"example_{name}.py")[f"mediaops_{name}"]
        run = dag_runs.run(dag, logical_date=None, run_conf={"folder": self.output.as_uri(), "sustained_for": 1})
        assert run.logical_date is None
        # The instances of a mapped task are `task[0]`, `task[1]`, …
        assert {name.partition("[")[0] for name in run.tasks} == set(dag.task_ids)
        assert set(run.tasks.values()) == {"success"}
        assert run.state == "success"
        return run

    def written(self, run: Run, folder: str = "") -> dict[str, str]:
        """Return the visible files that a run has written, by their names."""
        return {file.name: file.read_text() for file in (self.output / (folder or run.run_id)).glob("[!.]*")}


@pytest.fixture
def examples(example_dags_folder: Path, tmp_path: Path, sandbox: SandboxServer, no_secret_is_left: None) -> Examples:
    del no_secret_is_left
    sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))
    return Examples(example_dags_folder, tmp_path)


@pytest.fixture
def no_secret_is_left(
    sandbox: SandboxServer, tmp_path: Path, airflow_db: Path, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Look in the end for the sandbox's secrets: in the log, in the files and in all of Airflow's database."""
    yield
    output = capfd.readouterr()
    with closing(sqlite3.connect(airflow_db)) as database:
        # XComs, rendered fields, serialized DAGs, trigger rows, task states, the audit log: all tables.
        rows = list(database.iterdump())
    for table in ("xcom", "rendered_task_instance_fields", "serialized_dag"):
        assert any(row.startswith(f'INSERT INTO "{table}"') for row in rows)
    left = [output.out, output.err, *rows, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())]
    assert len(sandbox.state.requests) > 0
    assert not [text[:200] for text in left if any(secret in text for secret in SECRETS)]


def test_posting_a_bulletin(examples: Examples, sandbox: SandboxServer) -> None:
    run = examples.run("post_bulletin")
    (posted,) = sandbox.state.bulletins
    assert run.values["post"] == posted
    assert re.fullmatch(TEXT_OF_THE_BULLETIN, posted["snippet"]["description"])


def test_exporting_subscriptions(examples: Examples) -> None:
    run = examples.run("export_subscriptions")
    files = examples.written(run, f"{run.run_after:%Y-%m-%d}")
    records = [json.loads(line) for line in files["subscriptions.jsonl"].splitlines()]
    table = list(csv.DictReader(files["subscriptions.csv"].splitlines()))
    assert len(records) == len(table) == run.values["export_records"]["rows"] > 0
    assert set(run.values["wait_for_a_subscription"]) == {"id", "title"}
    assert run.values["wait_for_a_subscription"]["id"] in {record["id"] for record in records}


def test_exporting_channels(examples: Examples) -> None:
    first, second = examples.run("export_channels"), examples.run("export_channels")
    rows = {f"export[{number}]": rows for number, rows in enumerate((120, 7, 0))}
    for run, changed in ((first, True), (second, False)):
        assert {name: value["rows"] for name, value in run.values.items()} == rows
        assert {value["changed"] for value in run.values.values()} == {changed}
    assert {file.name: len(file.read_text().splitlines()) for file in examples.output.glob("[!.]*.jsonl")} == {
        "UCsandbox-mine.jsonl": 120,
        "UCsandbox-few.jsonl": 7,
        "UCsandbox-none.jsonl": 0,
    }


def test_capturing_hot_threads(examples: Examples) -> None:
    run = examples.run("capture_hot_threads")
    files = examples.written(run)
    assert files["hot_threads.1.txt"].startswith("::: {")
    assert json.loads(files["hot_threads.3.json"])["nodes"]
    assert "hot_threads.html" in files
    assert run.values["capture"]["cpu"][0]["percent"] >= 85
    assert run.values["capture"]["hottest"]
    assert run.values["capture"]["groups"][0]["opaque_id"] == "report:nightly-margin"
    behind_it = "report:nightly-margin (indices:data/read/search on sandbox-events) used"
    assert files["hot_threads.html"].count(behind_it) == 3


def test_capturing_where_no_event_says_which_nodes_run_hot(examples: Examples) -> None:
    run = examples.run("hot_nodes")
    assert run.values["hot_nodes"] == "_all"
    assert examples.written(run)["hot_threads.txt"].count("::: {") == 3


def test_joining_the_services(examples: Examples, sandbox: SandboxServer) -> None:
    run = examples.run("cpu_bulletin")
    (posted,) = sandbox.state.bulletins
    hottest = run.values["capture"]["hottest"][0]["thread"]
    kind = run.values["capture"]["kinds"][0]
    assert posted["snippet"]["description"] == (
        f"The search cluster is slow: sandbox-2 is at 97.0 % CPU. Hottest thread: {hottest}. "
        f"Hottest work: {kind['label']}, {kind['share_percent']} % of the CPU of these threads."
    )


def test_enriching_isbns(examples: Examples) -> None:
    run = examples.run("enrich_isbns")
    rows = [json.loads(line) for line in examples.written(run)["books.jsonl"].splitlines()]
    assert [row["status"] for row in rows] == ["found", "found", "not_found", "found", "invalid"]
    assert run.values["enrich"]["rows"] == 5
    assert run.values["wait_for_the_record"]


def test_every_example_is_run_here(example_dags_folder: Path) -> None:
    names = {file.stem.removeprefix("example_") for file in example_dags_folder.glob("*.py")}
    assert names == {
        "capture_hot_threads",
        "cpu_bulletin",
        "enrich_isbns",
        "export_channels",
        "export_subscriptions",
        "hot_nodes",
        "post_bulletin",
    }
