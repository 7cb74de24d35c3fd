"""How a DAG author tests a DAG of these operators."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.faults import StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

# In your tests, import it from your DAG file.
with DAG("books", schedule="@daily") as dag:
    EnrichIsbnsOperator(
        task_id="enrich",
        isbns=["9780140449136", "9780306406157"],
        destination="{{ params.folder }}/books.jsonl",
        params={"folder": "s3://aws_default@catalogue"},
    )


def test_the_books_are_found_in_spite_of_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the whole DAG; it needs Airflow's database (`airflow db migrate`) and its file in the DAGs folder."""
    with SandboxServer() as sandbox:
        for name, connection in sandbox.connections().items():
            monkeypatch.setenv(name, connection)
        sandbox.state.faults.arm(StatusFault(service="books", status=503))

        run = dag.test(run_conf={"folder": str(tmp_path)})

    assert str(run.state) == "success"
    books = [json.loads(line)["book"]["title"] for line in (tmp_path / "books.jsonl").read_text().splitlines()]
    assert len(books) == 2
    assert [request.status for request in sandbox.state.requests].count(503) == 1
