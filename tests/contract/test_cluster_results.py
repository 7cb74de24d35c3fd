"""The results of the search cluster's tasks and its events, as the guide shows them."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import BaseHook, Connection

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"


@pytest.fixture(autouse=True)
def hot_node(sandbox: SandboxServer) -> None:
    sandbox.state.cluster.pin(CpuPin(node="sandbox-1", percent=21))
    sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))
    sandbox.state.cluster.pin(CpuPin(node="sandbox-3", percent=6))


def is_like(shown: Any, real: Any) -> bool:
    """Return whether two values have the same names, types and lengths; all numbers are of one type."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return list(shown) == list(real) and all(is_like(shown[name], real[name]) for name in shown)
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) == len(real) and all(map(is_like, shown, real))
    if isinstance(shown, float) and isinstance(real, int):
        return not isinstance(real, bool)
    return type(shown) is type(real)


def assert_is_shown(name: str, real: Any) -> None:
    shown = json.loads((SNIPPETS / f"{name}.json").read_text())
    assert is_like(shown, real), f"{name}.json should be like this:\n{json.dumps(real, indent=2)}"


def test_the_result_of_a_capture_is_the_one_that_is_shown(tmp_path: Path) -> None:
    operator = CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(tmp_path / "hot_threads.txt"),
        when_cpu_above=85,
        threads=2,
        interval="10ms",
        deferrable=False,
    )
    result = operator.execute({})

    assert_is_shown("capture_result", json.loads(json.dumps(result)))
    assert {node["node"] for node in result["cpu"]} == {"sandbox-2"}


def test_the_result_of_the_sensor_is_the_one_that_is_shown() -> None:
    sensor = ClusterCpuSensor(task_id="wait", threshold=85, poke_interval=1)
    sensor_result = sensor.execute({})

    assert_is_shown("cpu_sensor_result", json.loads(json.dumps(sensor_result)))


def test_the_payload_of_an_event_is_the_one_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(conn_id: str) -> Connection:
        # Airflow 3.1 asks the triggerer's supervisor, and there is none here.
        return Connection.from_json(os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"], conn_id=conn_id)

    async def first() -> Any:
        async with aclosing(HighCpuTrigger(sustained_for=0, poll_interval=1).run()) as events:  # type: ignore[type-var]
            return (await anext(events)).payload

    monkeypatch.setattr(BaseHook, "aget_connection", staticmethod(fetch))
    payload = asyncio.run(asyncio.wait_for(first(), 240))

    assert_is_shown("hot_nodes_event", payload)
    assert [node["name"] for node in payload["nodes"]] == ["sandbox-2"]
