"""A node that dies while it is asked: the others are captured, and it is named."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.nodes import Cluster, Node

# The first call samples for so long that the second, which queues behind it on each node, comes in time.
INTERVALS = {"by_another": "10s", "by_itself": "2s"}


def parts_of(victim: Node, cluster: Cluster) -> int:
    """Return how many calls a node takes part in."""
    reply = cluster.get("/_tasks", actions="cluster:monitor/nodes/hot_threads[n]")
    reply.raise_for_status()
    return sum(len(node["tasks"]) for node in reply.json()["nodes"].values() if node["name"] == victim.name)


def capture(destination: Path, name: str) -> dict[str, Any]:
    operator = CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(destination),
        interval=INTERVALS[name],
        snapshots=1,
        timeout="60s",
        cluster_conn_id=name,
    )
    summary: dict[str, Any] = operator.execute({})
    return summary


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_node_that_dies_in_mid_call_is_named_and_the_others_are_captured(
    cluster: Cluster, victim: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = cluster.nodes[0]
    # One call comes by way of the other node; one by way of the node itself, and then fails over.
    hosts = {"by_another": manager.url, "by_itself": f"{victim.url},{manager.url}"}
    captures: dict[str, Future[dict[str, Any]]] = {}
    with ThreadPoolExecutor(len(hosts)) as pool:
        for name, host in hosts.items():
            # The certificate that it shows to clients may have expired.
            checked = name == "by_another" and cluster.authority is not None
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", cluster.connection(host, verify=checked))
            captures[name] = pool.submit(capture, tmp_path / f"{name}.txt", name)
            wait_for(
                f"the node's part of {' and '.join(captures)}",
                lambda: parts_of(victim, cluster),
                lambda parts: parts == len(captures) or any(taken.done() for taken in captures.values()),
                within=120,
            )
        victim.kill()

    for name, taken in captures.items():
        assert taken.result()["missing"] == [victim.name]
        assert [node.name for node in parse((tmp_path / f"{name}.txt").read_text()).nodes] == [manager.name]
