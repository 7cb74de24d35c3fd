"""The DAGs of docs/taskflow.md: each runs to its end in Airflow, and does what the page says."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests_mock as mocking
from airflow.models.asset import AssetEvent
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from pydantic import TypeAdapter
from sqlalchemy import select

from airflow_provider_mediaops.results import EnrichmentSummary, ExportSummary
from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from scripts import shown_code
from tests.contract import dag_runs
from tests.unit.video_platform import connection, page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.contract.dag_runs import Run

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets" / "taskflow"
pytestmark = pytest.mark.usefixtures("airflow_db")
RAN: set[str] = set()


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def run_file(name: str, dag_id: str) -> Run:
        dag = dag_runs.dags_of(SNIPPETS / f"{name}.py")[dag_id]
        return dag_runs.run(dag, logical_date=None, run_conf={"folder": tmp_path.as_uri()})

    return run_file


def test_hooks_in_tasks(sandbox: SandboxServer, run: Any) -> None:
    sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))
    ended = run("hooks", "with_hooks")

    assert ended.state == "success"
    (posted,) = sandbox.state.bulletins
    assert len(ended.values["followed"]) == 120
    assert all(ended.values["titles"].values())
    assert "sandbox-2" in ended.values["busiest_thread"]
    assert posted["id"] == ended.values["post"]
    assert posted["snippet"]["description"] == f"120 channels, 2 books, and {ended.values['busiest_thread']} is busy."


@pytest.mark.usefixtures("sandbox")
def test_isbns_of_a_task_and_the_dataset_downstream(run: Any) -> None:
    ended = run("results", "results_downstream")

    assert ended.state == "success"
    # The two rows of one book cost one request; each counts.
    TypeAdapter(EnrichmentSummary).validate_python(ended.values["enrich"], strict=True)
    assert (ended.values["enrich"]["rows"], ended.values["enrich"]["found"]) == (3, 3)
    assert sum(ended.values["by_publisher"].values()) == 3


@pytest.mark.usefixtures("sandbox")
def test_mapped_exports(run: Any, tmp_path: Path) -> None:
    ended = run("mapped", "mapped_exports")

    assert ended.state == "success"
    for index in range(2):
        TypeAdapter(ExportSummary).validate_python(ended.values[f"export[{index}]"], strict=True)
    assert ended.values["total"] == 127
    assert {file.name for file in (tmp_path / ended.run_id).glob("[!.]*")} == {
        "UCsandbox-mine.jsonl",
        "UCsandbox-few.jsonl",
    }


def test_a_whole_export_is_announced(sandbox: SandboxServer, run: Any) -> None:
    ended = run("branches", "branches")

    assert ended.state == "success"
    assert ended.tasks["report_gap"] == "skipped"
    assert [each["snippet"]["description"] for each in sandbox.state.bulletins] == ["We follow 120 channels now."]
    # One book has no record.
    assert ended.values["order_records"].startswith("1 of 3 books of ")


def test_an_export_that_is_cut_short_is_reported(
    sandbox: SandboxServer, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages of the listing lead in a circle."""
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection("https://video.test/v3"))
    with mocking.Mocker(real_http=True) as platform:
        platform.get(
            "https://video.test/v3/subscriptions",
            [{"json": page(1, next_token="t1")}, {"json": page(2, next_token="t1")}],
        )
        ended = run("branches", "branches")

    assert ended.state == "success"
    assert ended.tasks["announce"] == "skipped"
    assert not sandbox.state.bulletins
    assert ended.values["report_gap"].startswith("Only 2 subscriptions are in ")


@pytest.fixture
def answering() -> Iterator[Any]:
    """Answer the request for approval in Airflow's database, as its page does."""
    stop, threads = threading.Event(), []

    def answer(dag_id: str, option: str, remark: str) -> None:
        def wait() -> None:
            from airflow.api_fastapi.app import create_app
            from fastapi.testclient import TestClient

            while not stop.is_set():
                with create_session() as session:
                    query = select(TaskInstance).join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
                    found = [row for row in session.scalars(query) if row.dag_id == dag_id]
                    if found:
                        run_id, task_id = found[0].run_id, found[0].task_id
                        break
                time.sleep(0.2)
            else:
                return
            ...

        thread = threading.Thread(target=wait)
        thread.start()
        threads.append(thread)

    yield answer
    stop.set()
    for thread in threads:
        thread.join(60)
