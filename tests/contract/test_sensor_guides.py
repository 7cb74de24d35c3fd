"""The DAGs that the pages of sensors and notifiers show do what the pages say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from tests.contract import dag_runs

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.contract.dag_runs import Run

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture(autouse=True)
def hot_node(sandbox: SandboxServer) -> None:
    sandbox.state.cluster.pin(CpuPin(percent=20))
    sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))


def run(name: str, **params: Any) -> Run:
    return dag_runs.run_file(SNIPPETS / f"{name}.py", **params)


def posted(sandbox: SandboxServer) -> list[str]:
    return [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins]


def test_wait_for_high_cpu(sandbox: SandboxServer) -> None:
    assert run("cpu_sensor", sustained_for=1).state == "success"
    assert posted(sandbox) == ["Slow at the moment: sandbox-2."]


def test_wait_for_a_subscription(sandbox: SandboxServer) -> None:
    ended = run("subscription_sensor", channel="UCtopic-000115")

    assert posted(sandbox) == [f"We follow {ended.values['wait']['title']} now."]


def test_wait_for_a_record(sandbox: SandboxServer) -> None:
    assert run("book_sensor").state == "success"
    assert posted(sandbox) == ["New: Crime and Punishment (Penguin Classics)."]


def test_post_when_it_ends(sandbox: SandboxServer, tmp_path: Path) -> None:
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


def test_capture_when_it_fails(tmp_path: Path) -> None:
    ended = run("capture_notifier", folder=tmp_path.as_uri())

    assert ended.state == "failed"
    assert sorted(file.suffix for file in (tmp_path / ended.run_id).iterdir()) == [".html", ".txt"]
