"""What the suite stands on: a real cluster's own answers, asked for with plain requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import requests

from tests.cluster.load import running_load
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.load import Load
    from tests.cluster.nodes import Cluster

HEADER = re.compile(r"^::: \{(.+?)\}\{.+\}$", re.MULTILINE)
SUB_HEADER = re.compile(
    r"^   Hot threads at \S+Z, interval=(.+), busiestThreads=(\d+), ignoreIdleThreads=(\w+):$", re.MULTILINE
)
# Newer Elasticsearch servers, which MEDIAOPS_TEST_CLUSTER may name, add the part in square brackets.
THREAD = re.compile(
    r"^ +\d+\.\d% (?:\[cpu=.+\] )?\(\S+ out of (\S+)\) (cpu|wait|block) usage by thread '(.+)'$", re.MULTILINE
)
SHARED = re.compile(r"^     \d+/\d+ snapshots sharing following (\d+) elements$")
FRAME = re.compile(r"^       \S.*\(.*\)$")
BUSY = 10
"""Share of the machine's CPU in percent above which a node is busy, and below which it is at rest."""


def get(cluster: Cluster, path: str, **parameters: str) -> requests.Response:
    return requests.get(f"{cluster.url}{path}", params=parameters, timeout=60)


def hot_threads(cluster: Cluster, nodes: str | None = None, **parameters: str) -> str:
    part = "" if nodes is None else f"/{quote(nodes, safe='')}"
    reply = get(cluster, f"/_nodes{part}/hot_threads", **parameters)
    reply.raise_for_status()
    assert reply.headers["Content-Type"].startswith("text/plain")
    return reply.content.decode()


def statistics(cluster: Cluster) -> dict[str, Any]:
    """Give each node's statistics by its id."""
    reply = get(cluster, "/_nodes/stats/os,process")
    reply.raise_for_status()
    nodes: dict[str, Any] = reply.json()["nodes"]
    return nodes


def busiest(cluster: Cluster) -> int:
    """Give the highest share of the machine's CPU that a node takes."""
    return max(int(node["process"]["cpu"]["percent"]) for node in statistics(cluster).values())


def stacks(text: str) -> list[tuple[int, int]]:
    """Give for each group of snapshots how many frames it announces, and how many follow."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        if group := SHARED.match(line):
            after = lines[number:]
            follow = next((n for n, frame in enumerate(after) if not FRAME.match(frame)), len(after))
            found.append((int(group[1]), follow))
    return found


class TestUnderLoad:
    def test_a_report_has_threads_with_their_stacks(self, opensearch: Cluster, load: Load) -> None:
        text = wait_for(
            "a thread that searches",
            lambda: hot_threads(opensearch),
            lambda text: any("[search]" in name for _, _, name in THREAD.findall(text)),
            within=240,
        )
        load.check()
        assert sorted(HEADER.findall(text)) == sorted(opensearch.node_names)
        assert SUB_HEADER.findall(text) == [("500ms", "3", "true")] * len(opensearch.node_names)
        assert {(interval, kind) for interval, kind, _ in THREAD.findall(text)} == {("500ms", "cpu")}
        assert len(THREAD.findall(text)) <= 3 * len(opensearch.node_names)
        announced_and_found = stacks(text)
        assert announced_and_found
        assert all(announced == found for announced, found in announced_and_found)

    @pytest.mark.parametrize("kind", ["wait", "block"])
    def test_a_report_tells_its_kind(self, opensearch: Cluster, load: Load, kind: str) -> None:
        asked = {"type": kind, "threads": "9999", "interval": "100ms", "ignore_idle_threads": "false"}
        text = hot_threads(opensearch, **asked)
        load.check()
        assert {(interval, told) for interval, told, _ in THREAD.findall(text)} == {("100ms", kind)}
        assert ("100ms", "9999", "false") in SUB_HEADER.findall(text)

    def test_the_cpu_of_a_node_is_high(self, opensearch: Cluster, load: Load) -> None:
        wait_for("a busy node", lambda: busiest(opensearch), lambda cpu: cpu >= BUSY, within=240)
        load.check()


def test_the_cpu_of_all_nodes_falls_after_load(opensearch: Cluster) -> None:
    with running_load(opensearch.url) as load:
        wait_for("a busy node", lambda: busiest(opensearch), lambda cpu: cpu >= BUSY, within=240)
    assert min(load.done.values()) >= 1
    wait_for("nodes at rest", lambda: busiest(opensearch), lambda cpu: cpu < BUSY, within=240)


def test_load_ends_without_being_told(opensearch: Cluster) -> None:
    with running_load(opensearch.url, at_most=2) as load:
        wait_for("no thread at work", load.working, lambda working: not working, within=240)
    assert min(load.done.values()) >= 1


def test_statistics_name_every_node_and_its_cpu(opensearch: Cluster) -> None:
    nodes = statistics(opensearch).values()
    assert sorted(node["name"] for node in nodes) == sorted(opensearch.node_names)
    for node in nodes:
        assert 0 <= node["os"]["cpu"]["percent"] <= 100
        assert 0 <= node["process"]["cpu"]["percent"] <= 100


def test_nodes_are_chosen_by_name_and_by_id(opensearch: Cluster) -> None:
    key, node = next(iter(statistics(opensearch).items()))
    assert HEADER.findall(hot_threads(opensearch, node["name"], interval="10ms")) == [node["name"]]
    assert HEADER.findall(hot_threads(opensearch, key, interval="10ms")) == [node["name"]]
    assert HEADER.findall(hot_threads(opensearch, f"{key},nobody", interval="10ms")) == [node["name"]]


def test_an_unknown_node_gives_an_empty_body(opensearch: Cluster) -> None:
    assert hot_threads(opensearch, "nobody") == ""


def test_nodes_that_do_not_answer_in_time_are_left_out(opensearch: Cluster) -> None:
    assert hot_threads(opensearch, timeout="1ms") == ""


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("no_such_parameter", "1"), ("interval", "5"), ("snapshots", "many"), ("threads", "1.5")],
)
def test_a_refusal_is_json_that_names_the_parameter(opensearch: Cluster, parameter: str, value: str) -> None:
    reply = get(opensearch, "/_nodes/hot_threads", **{parameter: value})
    assert reply.status_code == 400
    assert reply.headers["Content-Type"].startswith("application/json")
    body = reply.json()
    assert body["status"] == 400
    assert body["error"]["type"] == "illegal_argument_exception"
    assert parameter in body["error"]["reason"]
