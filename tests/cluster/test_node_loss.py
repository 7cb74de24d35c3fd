"""A node that dies while it is asked: the others are captured, and it is named."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.nodes import Cluster, Node

WAIT_SECONDS = 600


class Gate:
    """Where the first request for hot threads to a node stands until it may go on."""

    def __init__(self) -> None:
        self.reached = Event()
        self.opened = Event()

    def stand(self) -> None:
        """Wait in front of the gate."""
        self.reached.set()
        assert self.opened.wait(WAIT_SECONDS)


@pytest.fixture
def gates(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Gate]:
    """Put a gate in front of each node, by its name."""
    gates = {node.name: Gate() for node in cluster.nodes}
    urls = {node.url: gates[node.name] for node in cluster.nodes}
    send = requests.Session.send

    def standing_send(
        session: requests.Session, request: requests.PreparedRequest, **options: Any
    ) -> requests.Response:
        if "hot_threads" in str(request.url):
            next(gate for url, gate in urls.items() if str(request.url).startswith(f"{url}/")).stand()
        return send(session, request, **options)

    monkeypatch.setattr(requests.Session, "send", standing_send)
    return gates


def wait_until_coordinating(node: Node, cluster: Cluster) -> None:
    """Wait until a node waits for the parts of a call that came to it. It can say so without any other node."""

    def calls() -> list[object]:
        reply = cluster.get_from(node, "/_tasks", nodes="_local", actions="cluster:monitor/nodes/hot_threads")
        reply.raise_for_status()
        return [task for listed in reply.json()["nodes"].values() for task in listed["tasks"]]

    wait_for(f"a call that {node.name} has begun", calls, bool, within=WAIT_SECONDS)


def capture(destination: Path, name: str) -> dict[str, Any]:
    operator = CaptureHotThreadsOperator(
        task_id="capture", destination=str(destination), snapshots=1, timeout="240s", cluster_conn_id=name
    )
    summary: dict[str, Any] = operator.execute({})
    return summary


def test_a_node_that_dies_in_mid_call_is_named_and_the_others_are_captured(
    cluster: Cluster, victim: Node, gates: Mapping[str, Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = cluster.nodes[0]
    # One call comes by way of the other node; one by way of the node itself, and then fails over.
    hosts = {"by_another": manager.url, "by_itself": f"{victim.url},{manager.url}"}
    captures: dict[str, Future[dict[str, Any]]] = {}
    for name, host in hosts.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", cluster.connection(host))
    with ThreadPoolExecutor(len(hosts)) as pool:
        for name in hosts:
            captures[name] = pool.submit(capture, tmp_path / f"{name}.txt", name)
        try:
            for gate in gates.values():
                assert gate.reached.wait(WAIT_SECONDS)
            # A node that waits for the part of a frozen one is in the middle of its call for as long as it takes.
            manager.freeze()
            gates[victim.name].opened.set()
            wait_until_coordinating(victim, cluster)
            # The manager's part comes now, but nobody is there to hear it.
            victim.freeze()
            manager.thaw()
            gates[manager.name].opened.set()
            wait_until_coordinating(manager, cluster)
            victim.kill()
        finally:
            for gate in gates.values():
                gate.opened.set()
            manager.thaw()

    for name, taken in captures.items():
        assert taken.result()["missing"] == [victim.name]
        assert [node.name for node in parse((tmp_path / f"{name}.txt").read_text()).nodes] == [manager.name]
