"""The operator, the sensor and the trigger on a real cluster under real load."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.exceptions import BadRequestError, NotFoundError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.load import Load
    from tests.cluster.nodes import Cluster

# A machine that does other things beside the load leaves the nodes less than they would take.
BUSY = 5.0


@pytest.fixture
def connection(opensearch: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    fields = {"conn_type": "mediaops_cluster", "host": opensearch.url, "extra": {"auth": "none"}}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", json.dumps(fields))
    return "test_cluster"


def capture(destination: Path, **arguments: Any) -> dict[str, Any]:
    operator = CaptureHotThreadsOperator(
        task_id="capture", destination=str(destination), cluster_conn_id="test_cluster", **arguments
    )
    summary: dict[str, Any] = operator.execute({})
    return summary


@pytest.mark.usefixtures("connection")
class TestUnderLoad:
    def test_a_capture_holds_every_node_and_what_it_does(self, opensearch: Cluster, load: Load, tmp_path: Path) -> None:
        summary = wait_for(
            "a capture with a hot thread",
            lambda: capture(tmp_path / "hot.txt", interval="200ms", threads=5),
            lambda taken: bool(taken["hottest"]),
            within=240,
        )

        assert load.working()
        assert sorted(node["node"] for node in summary["nodes"]) == sorted(opensearch.node_names)
        assert summary["missing"] == []
        assert summary["unparsed"] == 0
        assert summary["hottest"][0]["percent"] > 0
        text = (tmp_path / "hot.txt").read_bytes()
        assert len(text) == summary["bytes"]
        assert text.startswith(b"::: {")
        report = parse(text.decode())
        assert report.render().encode() == text
        assert json.loads((tmp_path / "hot.json").read_bytes()) == report.to_dict()

    def test_a_capture_is_limited_to_the_nodes_asked_for(self, opensearch: Cluster, tmp_path: Path) -> None:
        first = opensearch.node_names[0]

        summary = capture(tmp_path / "one.txt", nodes=[first], interval="50ms", snapshots=2)

        assert [node["node"] for node in summary["nodes"]] == [first]

    @pytest.mark.parametrize("kind", ["cpu", "wait", "block"])
    def test_every_type_can_be_sampled(self, opensearch: Cluster, tmp_path: Path, kind: str) -> None:
        summary = capture(tmp_path / f"{kind}.txt", type=kind, interval="50ms", snapshots=2, ignore_idle_threads=False)

        assert len(summary["nodes"]) == len(opensearch.node_names)
        assert summary["unparsed"] == 0

    @pytest.mark.usefixtures("load")
    def test_the_sensor_sees_the_load(self, opensearch: Cluster) -> None:
        sensor = ClusterCpuSensor(
            task_id="wait",
            threshold=BUSY,
            sustained_for=1,
            reading_interval=0.5,
            poke_interval=0.5,
            timeout=240,
            deferrable=False,
            cluster_conn_id="test_cluster",
        )

        hot = sensor.execute({})

        assert {node["name"] for node in hot} <= set(opensearch.node_names)
        assert all(node["percent"] >= BUSY for node in hot)

    @pytest.mark.usefixtures("load")
    async def test_its_trigger_sees_the_load(self, opensearch: Cluster) -> None:
        sensor = ClusterCpuSensor(
            task_id="wait", threshold=BUSY, poke_interval=0.5, timeout=240, cluster_conn_id="test_cluster"
        )

        event = await asyncio.wait_for(anext(aiter(sensor.make_trigger().run())), 240)

        hot = sensor.execute_complete({}, event.payload)
        assert {node["name"] for node in hot} <= set(opensearch.node_names)


def test_the_hook_reads_what_a_plain_client_reads(opensearch: Cluster, connection: str) -> None:
    with SearchClusterHook(connection) as hook:
        cpu = hook.cpu()
        text = hook.hot_threads(threads=1, interval="50ms", snapshots=1)

    plain = requests.get(f"{opensearch.url}/_nodes/hot_threads", params={"threads": 1}, timeout=60)
    assert {node.name for node in cpu} == set(opensearch.node_names)
    assert all(node.percent is None or 0 <= node.percent <= 100 for node in cpu)
    # Header lines are the same but for the time; what the threads do changes from one call to the next.
    headers = [line for line in plain.text.splitlines() if line.startswith(":::")]
    assert sorted(headers) == sorted(line for line in text.splitlines() if line.startswith(":::"))


def test_nodes_that_do_not_exist_are_named(connection: str) -> None:
    with SearchClusterHook(connection) as hook, pytest.raises(NotFoundError, match="no-such-node"):
        hook.hot_threads("no-such-node")


def test_a_parameter_that_the_cluster_does_not_know_is_refused_for_good(connection: str) -> None:
    # OpenSearch has no master_timeout here: the default is not sent, any other figure is refused.
    with SearchClusterHook(connection) as hook, pytest.raises(BadRequestError, match="master_timeout"):
        hook.hot_threads(master_timeout="31s")


def test_the_connection_can_be_tested(connection: str) -> None:
    works, sentence = SearchClusterHook(connection).test_connection()

    assert works, sentence
