"""The results of the tasks of the video platform, as the guides show them, and how one task uses that of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from tests.contract import dag_runs

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"


def shown(name: str) -> Any:
    return json.loads((SNIPPETS / f"{name}.json").read_text(encoding="utf-8"))


def shape(value: Any) -> Any:
    """Return the fields of a value, and the type of each."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.usefixtures("airflow_db")
def test_the_results_of_the_tasks_are_those_that_are_shown(sandbox: SandboxServer, tmp_path: Path) -> None:
    [dag] = dag_runs.dags_of(Path(__file__).with_name("subscriptions_dag.py")).values()

    run = dag_runs.run(dag, logical_date=None, run_conf={"folder": tmp_path.as_uri()})

    assert run.state == "success"
    with create_session() as session:
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id))
        assert event.extra == {name: value for name, value in run.values["export"].items() if name in event.extra}
        assert {"path", "rows", "bytes", "complete"} <= set(event.extra)
        keys = session.scalars(select(XComModel.key).where(XComModel.run_id == run.run_id))
        # One for each task, and none for each value of a result; others are Airflow's own, for the task's links.
        assert {key for key in keys if not key.startswith("_link_")} == {"return_value"}
    assert shape(run.values["wait"]) == shape(shown("subscription_sensor_result"))
    assert shape(run.values["export"]) == shape(shown("export_result"))
    # What one task returned was used by the next.
    assert [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins] == [
        f"We follow {run.values['export']['rows']} channels now."
    ]


def test_a_bulletin_is_the_one_that_is_shown(sandbox: SandboxServer) -> None:
    text, video = "New in the catalogue", "sandbox-video-1"
    activity = PostBulletinOperator(task_id="post", text=text, video_id=video).execute({})

    assert shape(shown("bulletin_result")) == shape(activity)
    assert shown("bulletin_result")["snippet"]["description"] == activity["snippet"]["description"] == text
    assert sandbox.state.bulletins


def test_a_line_of_an_export_is_the_one_that_is_shown(sandbox: SandboxServer, tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    ExportSubscriptionsOperator(task_id="export", destination=str(file), mine=True).execute({})

    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    record = next(record for record in records if record["id"] == shown("subscription_record")["id"])
    assert shape(record) == shape(shown("subscription_record"))
    assert record["snippet"]["title"] == shown("subscription_record")["snippet"]["title"]
    assert sandbox.state.requests
