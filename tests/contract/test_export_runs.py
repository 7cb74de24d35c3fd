"""Exports through Airflow, in a worker and in the triggerer: the same file, result and asset event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from airflow.models.asset import AssetEvent
from airflow.sdk import DAG, Asset
from airflow.utils.session import create_session

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.contract.dag_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer

FORMS = {"worker": False, "triggerer": True}


@pytest.mark.long
@pytest.mark.usefixtures("airflow_db")
def test_both_forms_leave_the_same(sandbox: SandboxServer, tmp_path: Path) -> None:
    with DAG("exports_in_both_forms", schedule=None) as dag:
        for name, deferrable in FORMS.items():
            ExportSubscriptionsOperator(
                task_id=name,
                mine=True,
                destination=f"{tmp_path}/{{{{ task.task_id }}}}.csv",
                if_changed="{{ 'yes' }}",
                deferrable=deferrable,
                outlets=[Asset(f"exported_by_{name}")],
            )
    first, second = run(dag), run(dag)

    assert (first.state, second.state) == ("success", "success")
    assert (tmp_path / "worker.csv").read_bytes() == (tmp_path / "triggerer.csv").read_bytes()
    for ended, changed in ((first, True), (second, False)):
        values = [{**ended.values[name], "path": ""} for name in FORMS]
        assert values[0] == values[1]
        assert (values[0]["rows"], values[0]["changed"]) == (120, changed)
        # dag.test() waits for nothing before a deferred task goes on.
        assert ended.values["triggerer"]["path"] == str(tmp_path / "triggerer.csv")
    with create_session() as session:
        events = [event.extra for event in session.query(AssetEvent).filter_by(source_dag_id=dag.dag_id)]
    assert len(events) == 4
    assert all(extra["complete"] is True for extra in events)
    assert len(sandbox.state.requests) == 4 * 3
