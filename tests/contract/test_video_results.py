"""The results that docs/guides/export_subscriptions.md shows are those of the DAG that it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.utils.session import create_session
from sqlalchemy import select

from tests.contract import dag_runs

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

DOCS = Path(__file__).parents[2] / "docs"


def shape(value: Any) -> Any:
    """Give the fields of a value, and the kind of each."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.usefixtures("airflow_db")
def test_the_results_of_the_tasks_are_those_that_are_shown(sandbox: SandboxServer, tmp_path: Path) -> None:
    page = (DOCS / "guides" / "export_subscriptions.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    shown = {task: result for block in blocks for task, result in json.loads(block).items()}
    [dag] = dag_runs.dags_of(DOCS / "snippets" / "subscriptions.py").values()

    run = dag_runs.run(dag, logical_date=None, run_conf={"folder": tmp_path.as_uri()})

    assert run.state == "success"
    with create_session() as session:
        assert [event.extra for event in session.scalars(select(AssetEvent))] == [{"complete": True}]
    assert shape(run.values) == shape(shown)
    # What one task returned was used by the next.
    assert [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins] == [
        f"We follow {run.values['export']['rows']} channels now."
    ]
