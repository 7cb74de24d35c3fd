"""Enrichments run by Airflow: of what another task returned, here and in the triggerer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books import catalogue
from tests.contract import dag_runs

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("airflow_db")

FOUND = catalogue.KNOWN_ISBNS[1]
ROWS = [FOUND, "978-0", "9791090000018", FOUND]


class GiveIsbns(BaseOperator):
    """A task that returns a list."""

    def execute(self, context: Context) -> list[str]:
        return ROWS


@pytest.mark.parametrize("deferrable", [False, True])
def test_what_another_task_returned_is_enriched(sandbox: SandboxServer, tmp_path: Path, *, deferrable: bool) -> None:
    with DAG(f"enriches_{deferrable}", schedule=None) as dag:
        given = GiveIsbns(task_id="give")
        EnrichIsbnsOperator(
            task_id="enrich",
            isbns=given.output,
            destination=f"{tmp_path.as_uri()}/{{{{ dag.dag_id }}}}.jsonl",
            deferrable=deferrable,
        )
    run = dag_runs.run(dag)

    assert run.tasks == {"give": "success", "enrich": "success"}
    file = tmp_path / f"enriches_{deferrable}.jsonl"
    assert [json.loads(line)["status"] for line in file.read_text().splitlines()] == [
        "found",
        "invalid",
        "not_found",
        "found",
    ]
    summary = run.values["enrich"]
    assert (summary["path"], summary["rows"], summary["found"]) == (str(file), 4, 2)
    assert [path.name for path in tmp_path.iterdir() if "isbns" in path.name] == []
    asked = [request.path for request in sandbox.state.requests]
    assert len(asked) == summary["requests"] <= 3
