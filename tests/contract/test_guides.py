"""The DAGs that the guides and docs/taskflow.md show: each runs to its end in Airflow, and does what the page says."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import requests_mock as mocking
from airflow.models import dagrun
from airflow.models.asset import AssetEvent
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from sqlalchemy import select

from airflow_provider_mediaops.sandbox.cluster_nodes import CpuPin
from tests.contract import dag_runs
from tests.unit.video_platform import connection, page
from tests.unit.workbooks import workbook

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.contract.dag_runs import Run

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets"
pytestmark = [pytest.mark.usefixtures("airflow_db", "sandbox")]


def run(name: str, dag_id: str = "", **params: Any) -> Run:
    return dag_runs.run_file(SNIPPETS / f"{name}.py", dag_id, **params)


def posted(sandbox: SandboxServer) -> list[str]:
    return [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins]


@pytest.mark.long
class TestSensorsAndNotifiers:
    @pytest.fixture(autouse=True)
    def hot_node(self, sandbox: SandboxServer) -> None:
        sandbox.state.cluster.pin(CpuPin(percent=20))
        sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))

    def test_wait_for_high_cpu(self, sandbox: SandboxServer) -> None:
        assert run("cpu_sensor", sustained_for=1).state == "success"
        assert posted(sandbox) == ["Slow at the moment: sandbox-2."]

    def test_wait_for_a_subscription(self, sandbox: SandboxServer) -> None:
        ended = run("subscription_sensor", channel="UCtopic-000115")
        assert posted(sandbox) == [f"We follow {ended.values['wait']['title']} now."]

    def test_wait_for_a_record(self, sandbox: SandboxServer) -> None:
        assert run("book_sensor").state == "success"
        assert posted(sandbox) == ["New: Crime and Punishment (Penguin Classics)."]

    def test_post_when_it_ends(self, sandbox: SandboxServer, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for folder in (tmp_path, tmp_path / "file"):
            [dag] = dag_runs.dags_of(SNIPPETS / "bulletin_notifier.py").values()
            # On Airflow 3.1, `dag.test()` cannot start a run with it; a scheduler would check it.
            dag.deadline = None
            dag_runs.run(dag, logical_date=None, run_conf={"folder": folder.as_uri()})

        finished, failed = posted(sandbox)
        assert finished == "post_when_it_ends has finished."
        # Airflow 3.1 tells a callback in `dag.test()` no error.
        assert failed.startswith("enrich failed: ")

    def test_capture_when_it_fails(self, tmp_path: Path) -> None:
        ended = run("capture_notifier", folder=tmp_path.as_uri())
        assert ended.state == "failed"
        assert sorted(file.suffix for file in (tmp_path / ended.run_id).iterdir()) == [".html", ".txt"]


# Records of the sandbox; the last one has lost its zeros.
CRIME, PROGRAMMING, CALENDAR, SHORT = "9780140449136", "9780131103627", "9780306406157", "306406152"
#: The list of each DAG, as a text or as the rows of a workbook; and the books that are looked up, row by row.
LISTS: dict[str, tuple[str, str | list[list[Any]], list[str | None]]] = {
    "enrich": ("isbns.txt", f"{CRIME}\n0-306-40615-2\n", [CRIME, CALENDAR]),
    "goodreads": (
        "goodreads_library_export.csv",
        f'Book Id,Title,ISBN,ISBN13,My Rating\n1,"A, B",="",="{CRIME}",4\n2,=1+1,="0306406152",="",0\n3,C,="",="",5\n',
        [CRIME, CALENDAR, None],
    ),
    "library_system": (
        "report.csv",
        f'biblionumber,020$a\n1,"{CRIME} (pbk.) : $9.99 | {PROGRAMMING} (hardback)"\n2,$a {CALENDAR}\n',
        [CRIME, PROGRAMMING, CALENDAR],
    ),
    "excel": ("stock.xlsx", [["Title", "ISBN"], ["A", int(CRIME)], ["B", int(SHORT)]], [CRIME, CALENDAR]),
    "spark": ("day=1/part-00000.csv", f'title,isbn\n"He said \\"hi\\"",{CRIME}\nB,{CALENDAR}\n', [CRIME, CALENDAR]),
    "query": ("unused", "", [CRIME, CALENDAR]),
}


def written(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a dataset."""
    if file.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
        return rows
    text = file.read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines())) if file.suffix == ".csv" else [*map(json.loads, text.splitlines())]


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("name", LISTS)
def test_list_of_each_kind_has_its_books_looked_up(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, content, books = LISTS[name]
    source = tmp_path / file
    source.parent.mkdir(exist_ok=True)
    if isinstance(content, str):
        source.write_text(content, encoding="utf-8")
    else:
        workbook(source, {"Stock": content})
    monkeypatch.setattr(SQLExecuteQueryOperator, "execute", lambda *_, **__: [[CRIME], [CALENDAR]])

    ended = run(f"lists/{name}", folder=str(tmp_path))

    rows = written(Path(ended.values["enrich"]["path"]))
    assert [row["isbn13"] or None for row in rows] == books
    assert {row["status"] for row in rows if row["isbn13"]} <= {"found", "not_found"}
    assert ended.state == "success"


@pytest.mark.long
class TestTaskflow:
    def test_hooks_in_tasks(self, sandbox: SandboxServer) -> None:
        sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))
        ended = run("taskflow/hooks", "with_hooks")

        assert ended.state == "success"
        assert len(ended.values["followed"]) == 120
        assert all(ended.values["titles"].values())
        assert posted(sandbox) == [f"120 channels, 2 books, and {ended.values['busiest_thread']} is busy."]

    def test_isbns_of_a_task_and_the_dataset_downstream(self, tmp_path: Path) -> None:
        ended = run("taskflow/results", "results_downstream", folder=tmp_path.as_uri())

        assert ended.state == "success"
        # The two rows of one book cost one request; each counts.
        assert sum(ended.values["by_publisher"].values()) == 3

    def test_mapped_exports(self, tmp_path: Path) -> None:
        ended = run("taskflow/mapped", "mapped_exports", folder=tmp_path.as_uri())

        assert ended.state == "success"
        assert ended.values["total"] == 127
        files = (tmp_path / ended.run_id).glob("[!.]*")
        assert sorted(file.name for file in files) == ["UCsandbox-few.jsonl", "UCsandbox-mine.jsonl"]

    def test_a_whole_export_is_announced(self, sandbox: SandboxServer, tmp_path: Path) -> None:
        ended = run("taskflow/branches", "branches", folder=tmp_path.as_uri())

        assert (ended.state, ended.tasks["report_gap"]) == ("success", "skipped")
        assert posted(sandbox) == ["We follow 120 channels now."]
        # One book has no record.
        assert ended.values["order_records"].startswith("1 of 3 books of ")

    def test_an_export_that_is_cut_short_is_reported(
        self, sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The pages of the listing lead in a circle."""
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection("https://video.test"))
        with mocking.Mocker(real_http=True) as platform:
            pages = [{"json": page(number, next_token="t1")} for number in (1, 2)]
            platform.get("https://video.test/v3/subscriptions", pages)
            ended = run("taskflow/branches", "branches", folder=tmp_path.as_uri())

        assert (ended.state, ended.tasks["announce"]) == ("success", "skipped")
        assert not sandbox.state.bulletins
        assert ended.values["report_gap"].startswith("Only 2 subscriptions are in ")

    def test_a_dag_that_an_export_starts(
        self, sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exported = run("taskflow/assets", "export_subscriptions", folder=tmp_path.as_uri())
        make = dagrun.get_or_create_dagrun

        def with_events(*args: Any, session: Any, **how: Any) -> Any:
            """Give the run the events of the export, as the scheduler does when it makes the run of an asset."""
            made = make(*args, session=session, **how)
            events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == exported.run_id))
            made.consumed_asset_events.extend(events)
            session.commit()
            return made

        monkeypatch.setattr(dagrun, "get_or_create_dagrun", with_events)
        announced = run("taskflow/assets", "announce_subscriptions", folder=tmp_path.as_uri())

        assert [exported.state, announced.state] == ["success", "success"]
        assert announced.values["is_complete"] is True
        assert posted(sandbox) == ["Our list of channels is up to date."]
