"""Captures and readings of a real cluster under real load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger
from tests.airflow_names import TaskDeferred
from tests.cluster.known_load import expressions
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.known_load import KnownLoad
    from tests.cluster.nodes import Cluster

# A machine that does other things beside the load leaves the nodes less than they would take.
BUSY = 5.0
WAITING = {
    "when_cpu_above": BUSY,
    "sustained_for": 1,
    "poll_interval": 0.5,
    "wait_timeout": 240,
    "captures": 2,
    "every": 0.5,
    "interval": "50ms",
    "threads": 5,
}


def operator(destination: Path, **arguments: Any) -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(
        task_id="capture", destination=str(destination), cluster_conn_id="test_cluster", **arguments
    )


@pytest.fixture(scope="class")
def load(known: KnownLoad) -> Iterator[None]:
    """Keep a node busy for all tests of a class."""
    clauses = known.clauses(0.3)
    works = [known.search("search", lambda: expressions(clauses), threads=2), known.indexing("index")]
    with known.doing(*works):
        known.wait_until_listed([work.name for work in works])
        yield


@pytest.mark.kinds("has_known_load")
@pytest.mark.usefixtures("connection", "load")
class TestUnderLoad:
    def test_a_capture_has_every_node_and_its_threads(self, cluster: Cluster, tmp_path: Path) -> None:
        summary = wait_for(
            "a capture with a thread that searches",
            lambda: operator(tmp_path / "hot.txt", threads=5).execute({}),
            lambda taken: any("[search]" in thread["thread"] for thread in taken["hottest"]),
            within=240,
        )

        assert sorted(node["node"] for node in summary["nodes"]) == sorted(cluster.node_names)
        assert summary["missing"] == []
        assert summary["unparsed"] == 0
        assert summary["hottest"][0]["percent"] > 0
        text = (tmp_path / "hot.txt").read_bytes()
        assert len(text) == summary["bytes"]
        report = parse(text.decode())
        assert report.render().encode() == text
        written = json.loads((tmp_path / "hot.json").read_bytes())
        assert written.pop("capture")["reason"] == "at_once"
        assert written.pop("kinds")
        statistics = written.pop("statistics")
        assert sorted(node["node"] for node in statistics) == sorted(cluster.node_names)
        assert all(node["heap"]["used_percent"] > 0 for node in statistics)
        shown = [thread.pop("kinds") for node in written["nodes"] for thread in node["threads"]]
        assert any(shown)
        assert written == report.to_dict()

    @pytest.mark.parametrize("kind", ["cpu", "wait", "block"])
    def test_every_type_can_be_sampled(self, cluster: Cluster, tmp_path: Path, kind: str) -> None:
        path = tmp_path / f"{kind}.txt"

        summary = operator(path, type=kind, threads=9999, snapshots=2, ignore_idle_threads=False).execute({})

        assert len(summary["nodes"]) == len(cluster.node_names)
        assert summary["unparsed"] == 0
        assert f" {kind} usage by thread '" in path.read_text()

    def test_the_sensor_sees_the_load(self, cluster: Cluster) -> None:
        sensor = ClusterCpuSensor(
            task_id="wait",
            threshold=BUSY,
            sustained_for=1,
            reading_interval=0.5,
            poke_interval=0.5,
            timeout=240,
            cluster_conn_id="test_cluster",
            deferrable=False,
        )

        hot = sensor.execute({})

        assert {node["name"] for node in hot} <= set(cluster.node_names)
        assert all(node["percent"] >= BUSY for node in hot)

    async def test_a_capture_at_detection_in_the_triggerer(self, cluster: Cluster, tmp_path: Path) -> None:
        deferring = operator(tmp_path / "hot.txt", deferrable=True, **WAITING)
        with pytest.raises(TaskDeferred) as deferred:
            deferring.execute({})
        _, arguments = deferred.value.trigger.serialize()
        trigger = CaptureHotThreadsTrigger(**arguments)

        event = await asyncio.wait_for(anext(aiter(trigger.run())), 240)

        summary = deferring.execute_complete({}, event.payload)
        assert [len(capture["nodes"]) > 0 for capture in [summary, *summary["later_captures"]]] == [True, True]
        assert {node["node"] for node in summary["nodes"]} <= set(cluster.node_names)
        assert summary["missing"] == summary["failures"] == []
        assert summary["timed_out"] is False
        for number in (1, 2):
            text = (tmp_path / f"hot.{number}.txt").read_text()
            assert parse(text).render() == text
            assert not parse(text).unparsed
        assert "Hot threads" in (tmp_path / "hot.html").read_text()
