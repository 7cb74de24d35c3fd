"""The DAGs of docs/taskflow.md: each runs to its end in Airflow, and does what the page says."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import requests_mock as mocking
from airflow.models import dagrun
from airflow.models.asset import AssetEvent
from pydantic import TypeAdapter
from sqlalchemy import select

from airflow_provider_mediaops.results import EnrichmentSummary, ExportSummary
from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from scripts import shown_code
from tests.contract import dag_runs
from tests.unit.video_platform import connection, page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.contract.dag_runs import Run

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets" / "taskflow"
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    return lambda name, dag_id: dag_runs.run_file(SNIPPETS / f"{name}.py", dag_id, folder=tmp_path.as_uri())


def assert_has_type(type: Any, value: Any) -> None:
    # Names that the type does not have would be dropped.
    assert TypeAdapter(type).validate_python(value, strict=True) == value


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


@contextmanager
def _circle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the service cut its listing short: the pages lead in a circle."""
    with monkeypatch.context() as patch, mocking.Mocker(real_http=True) as platform:
        patch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection("https://video.test"))
        platform.get(
            "https://video.test/v3/subscriptions",
            [{"json": page(1, next_token="t1")}, {"json": page(2, next_token="t1")}],
        )
        yield


@pytest.mark.usefixtures("sandbox")
def test_isbns_of_a_task_and_the_dataset_downstream(run: Any) -> None:
    ended = run("results", "results_downstream")

    assert ended.state == "success"
    # The two rows of one book cost one request; each counts.
    assert_has_type(EnrichmentSummary, ended.values["enrich"])
    assert (ended.values["enrich"]["rows"], ended.values["enrich"]["found"]) == (3, 3)
    assert sum(ended.values["by_publisher"].values()) == 3


@pytest.mark.usefixtures("sandbox")
def test_mapped_exports(run: Any, tmp_path: Path) -> None:
    ended = run("mapped", "mapped_exports")

    assert ended.state == "success"
    for index in range(2):
        assert_has_type(ExportSummary, ended.values[f"export[{index}]"])
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
    with _circle(monkeypatch):
        ended = run("branches", "branches")

    assert ended.state == "success"
    assert ended.tasks["announce"] == "skipped"
    assert not sandbox.state.bulletins
    assert ended.values["report_gap"].startswith("Only 2 subscriptions are in ")


def test_a_dag_asks_for_an_approval_before_it_posts() -> None:
    """It is answered on a real scheduler, in tests/system: the recipe of that name has the same tasks."""
    dag = dag_runs.dags_of(SNIPPETS / "approval.py")["approved_bulletin"]
    assert [sorted(dag.get_task(name).downstream_task_ids) for name in ("draft", "approve")] == [["approve"], ["post"]]


@pytest.fixture
def triggered(monkeypatch: pytest.MonkeyPatch, run: Any) -> Callable[[Run, str, str], Run]:
    """Runs a DAG with the asset events of a run, as the scheduler does when it makes the run of an asset."""
    make = dagrun.get_or_create_dagrun

    def run_with_events(source: Run, name: str, dag_id: str) -> Run:
        def with_events(*args: Any, session: Any, **how: Any) -> Any:
            made = make(*args, session=session, **how)
            events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == source.run_id))
            made.consumed_asset_events.extend(events)
            session.commit()
            return made

        monkeypatch.setattr(dagrun, "get_or_create_dagrun", with_events)
        ended: Run = run(name, dag_id)
        return ended

    return run_with_events


def test_a_dag_that_an_export_starts(sandbox: SandboxServer, run: Any, triggered: Any) -> None:
    exported = run("assets", "export_subscriptions")
    announced = triggered(exported, "assets", "announce_subscriptions")

    assert [exported.state, announced.state] == ["success", "success"]
    assert announced.values["is_complete"] is True
    assert [each["snippet"]["description"] for each in sandbox.state.bulletins] == [
        "Our list of channels is up to date."
    ]


def test_an_incomplete_export_is_not_announced(
    sandbox: SandboxServer, run: Any, triggered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _circle(monkeypatch):
        exported = run("assets", "export_subscriptions")
    announced = triggered(exported, "assets", "announce_subscriptions")

    assert [exported.state, announced.state] == ["success", "success"]
    assert announced.tasks["post"] == "skipped"
    assert not sandbox.state.bulletins


def test_a_run_by_hand_has_no_event(sandbox: SandboxServer, run: Any) -> None:
    announced = run("assets", "announce_subscriptions")

    assert announced.state == "success"
    assert len(sandbox.state.bulletins) == 1


def test_a_dag_waits_for_the_asset_that_the_other_writes() -> None:
    dags = dag_runs.dags_of(SNIPPETS / "assets.py")

    written = dags["export_subscriptions"].get_task("export").outlets
    assert [asset.name for asset in written] == [
        asset.name for asset in cast("Any", dags["announce_subscriptions"].schedule)
    ]


def test_every_dag_is_shown_and_run() -> None:
    page = (ROOT / "docs" / "taskflow.md").read_text(encoding="utf-8")

    files = {path.stem for path in SNIPPETS.glob("*.py")}
    assert {f"docs/snippets/taskflow/{name}.py" for name in files} == set(shown_code.files_of(page))
    assert files - {"approval"} == set(re.findall(r'run\("(\w+)"', Path(__file__).read_text(encoding="utf-8")))
