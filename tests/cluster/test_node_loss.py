"""Nodes that die while they are asked, shown on a cluster of its own."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.artifacts import LOWEST_JAVA
from tests.cluster.nodes import running_cluster
from tests.java_artifacts import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.nodes import Cluster, Node

# The call lasts for longer than it takes to kill a node.
INTERVAL = "4s"
KILL_AFTER = 1.5


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    try:
        with running_cluster(next(iter(LOWEST_JAVA)), size=3) as cluster:
            yield cluster
    except UnavailableError as error:
        pytest.skip(str(error))


def kill(node: Node) -> None:
    os.killpg(node.process.pid, signal.SIGKILL)


def capture_while_killing(victim: Node, destination: Path) -> dict[str, Any]:
    operator = CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(destination),
        interval=INTERVAL,
        snapshots=1,
        timeout="20s",
        cluster_conn_id="test_cluster",
    )
    killing = threading.Timer(KILL_AFTER, kill, [victim])
    killing.start()
    try:
        summary: dict[str, Any] = operator.execute({})
    finally:
        killing.cancel()
        killing.join()
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

    summary = capture_while_killing(victim, tmp_path / "hot.txt")

    assert summary["missing"] == [victim.name]
    text = (tmp_path / "hot.txt").read_text()
    assert manager.name in [node.name for node in parse(text).nodes]
    assert victim.name not in text
