"""Nodes that die while they are asked, shown on a cluster of its own."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.artifacts import LOWEST_JAVA
from tests.cluster.nodes import running_cluster
from tests.cluster.waiting import wait_for
from tests.java_artifacts import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.nodes import Cluster, Node

# A node samples for so long: it is killed as soon as the cluster lists its part of the call among its tasks.
INTERVAL = "8s"
TASKS = {"actions": "cluster:monitor/nodes/hot_threads*"}


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    try:
        with running_cluster(next(iter(LOWEST_JAVA)), size=3) as cluster:
            yield cluster
    except UnavailableError as error:
        pytest.skip(str(error))


def kill_in_mid_call(victim: Node, observer: Node) -> None:
    """Kill a node once it samples its threads."""
    wait_for(
        "the victim's part of the call", lambda: busy_nodes(observer), lambda busy: victim.name in busy, within=120
    )
    os.killpg(victim.process.pid, signal.SIGKILL)


def busy_nodes(observer: Node) -> list[str]:
    reply = requests.get(f"{observer.url}/_tasks", params=TASKS, timeout=60)
    reply.raise_for_status()
    return [node["name"] for node in reply.json()["nodes"].values()]


def capture_while_killing(victim: Node, observer: Node, destination: Path) -> dict[str, Any]:
    operator = CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(destination),
        interval=INTERVAL,
        snapshots=1,
        timeout="60s",
        cluster_conn_id="test_cluster",
    )
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_in_mid_call, victim, observer)
        summary: dict[str, Any] = operator.execute({})
        killed.result()
    return summary


@pytest.mark.parametrize("asked", ["another node", "the node itself"])
def test_a_node_that_dies_in_mid_call_is_named_and_the_others_are_captured(
    three_nodes: Cluster, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, second, third = three_nodes.nodes
    victim, hosts = (third, [manager]) if asked == "another node" else (second, [second, manager])
    fields = {
        "conn_type": "mediaops_cluster",
        "host": ",".join(node.url for node in hosts),
        "extra": {"auth": "none"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", json.dumps(fields))

    summary = capture_while_killing(victim, manager, tmp_path / "hot.txt")

    assert summary["missing"] == [victim.name]
    text = (tmp_path / "hot.txt").read_text()
    assert manager.name in [node.name for node in parse(text).nodes]
    assert victim.name not in text
