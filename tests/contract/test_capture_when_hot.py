"""Capture at detection through Airflow: deferred and resumed, and ended by its time limit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from tests.contract import dag_runs

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("airflow_db")]


def test_a_spike_is_captured_in_the_triggerer_and_a_time_limit_ends_the_rest(
    sandbox: SandboxServer, tmp_path: Path
) -> None:
    sandbox.state.cluster.pin(CpuPin(percent=10))
    sandbox.state.cluster.pin(CpuPin(node="sandbox-3", percent=97))
    usual: dict[str, Any] = {"interval": "10ms", "poll_interval": 0.1, "on_timeout": "{{ params.on_timeout }}"}
    with DAG("captures", schedule=None, params={"on_timeout": "skip", "threshold": 95}) as dag:
        CaptureHotThreadsOperator(
            task_id="captured",
            destination=f"{tmp_path.as_uri()}/{{{{ ti.task_id }}}}.txt",
            when_cpu_above="{{ params.threshold }}",
            captures=2,
            every=0.2,
            deferrable=True,
            **usual,
        )
        CaptureHotThreadsOperator(
            task_id="skipped",
            destination=f"{tmp_path.as_uri()}/{{{{ ti.task_id }}}}.txt",
            when_cpu_above=100,
            wait_timeout=0.5,
            **usual,
        )
    run = dag_runs.run(dag)
    assert run.tasks == {"captured": "success", "skipped": "skipped"}
    result = run.values["captured"]
    captures = [result, *result["later_captures"]]
    assert [node["node"] for taken in captures for node in taken["nodes"]] == ["sandbox-3"] * 2
    assert (tmp_path / "captured.1.txt").read_text().startswith("::: {sandbox-3}")
    assert json.loads((tmp_path / "captured.2.json").read_text())["nodes"][0]["name"] == "sandbox-3"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"captured.{number}.{suffix}" for number in (1, 2) for suffix in ("folded", "json", "txt")),
        "captured.html",
    ]
    asked = [request.path.rpartition("/")[2] for request in list(sandbox.state.requests)]
    assert "skipped" not in run.values
    assert asked.count("hot_threads") == 2
