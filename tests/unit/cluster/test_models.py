"""What node statistics say, whatever version wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["cpu", "os", "percent", "process", "x"]), inner),
    max_leaves=8,
)


def only_node(**node: Any) -> NodeCpu:
    (found,) = NodeStats.read({"nodes": {"abc": node}}).nodes
    return found


def test_a_node_as_opensearch_describes_it() -> None:
    node = only_node(
        name="node-1",
        host="10.0.0.1",
        ip="10.0.0.1:9300",
        roles=["data", "ingest"],
        os={"cpu": {"percent": 12, "load_average": {"1m": 1.5, "5m": None, "15m": 0.5}}},
    )
    assert node.to_dict() == {
        "node_id": "abc",
        "name": "node-1",
        "host": "10.0.0.1",
        "ip": "10.0.0.1:9300",
        "roles": ["data", "ingest"],
        "percent": 12.0,
        "source": "os",
        "load_average": {"1m": 1.5, "15m": 0.5},
    }


def test_a_node_without_a_name_is_called_by_its_id() -> None:
    assert only_node().label == "abc"
    assert only_node(name="node-1").label == "node-1"


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ("abc", True),
        ("node-1", True),
        ("es1.example", True),
        ("10.0.0.1:9300", True),
        ("10.0.0.1", True),
        ("10.0.*", True),
        ("node-*", True),
        ("_local", True),
        ("rack:r1", True),
        ("node-10", False),
        ("ab*", False),
        ("", False),
    ],
)
def test_entries_of_a_list_of_nodes(selector: str, meant: bool) -> None:  # noqa: FBT001
    node = only_node(name="node-1", host="es1.example", ip="10.0.0.1:9300")
    assert node.is_meant_by(selector) is meant


def test_what_was_asked_for_and_means_no_node() -> None:
    found = NodeStats((NodeCpu("abc", name="node-1"),))
    assert found.unknown(None) == []
    assert found.unknown(("node-1", "nobody", "node-?", "data:true")) == ["nobody"]


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ({"node_id": "abc", "reason": "Failed", "caused_by": {"reason": "timed out"}}, "node abc: timed out"),
        ({"reason": "Failed node [abc]"}, "Failed node [abc]"),
        ("odd", "no reason given"),
    ],
)
def test_nodes_that_failed_are_told(failure: Any, sentence: str) -> None:
    assert NodeStats.read({"_nodes": {"failures": [failure]}}).failures == (sentence,)


@pytest.mark.parametrize(
    ("counts", "failed", "gap"),
    [
        ({"total": 2, "successful": 2, "failed": 0}, 0, ""),
        ({"failed": 1}, 1, "1 node did not give the statistics: the reply does not say why"),
        ({"failed": 3, "failures": [{"reason": "it is slow"}]}, 3, "3 nodes did not give the statistics: it is slow"),
        ({"failures": [{"reason": "it is slow"}]}, 1, "1 node did not give the statistics: it is slow"),
        ({"failed": "two"}, 0, ""),
        ({"failed": -1}, 0, ""),
        ({"failed": 1e300}, 0, ""),
    ],
)
def test_nodes_that_failed_are_counted_with_and_without_a_list(counts: Any, failed: int, gap: str) -> None:
    found = NodeStats.read({"_nodes": counts, "nodes": {}})
    assert (found.failed, found.gap) == (failed, gap)


@pytest.mark.parametrize(
    ("machine", "load"),
    [
        ({"cpu": {"load_average": {"1m": 2.5}}}, {"1m": 2.5}),
        ({"load_average": 7.6}, {"1m": 7.6}),
        ({"load_average": [7.6, 6.1, 5.0]}, {"1m": 7.6, "5m": 6.1, "15m": 5.0}),
        ({"load_average": [7.6] * 9}, {"1m": 7.6, "5m": 7.6, "15m": 7.6}),
        ({"load_average": "high"}, None),
        ({}, None),
    ],
)
def test_the_load_is_read_in_each_version(machine: Any, load: Any) -> None:
    assert only_node(os=machine).load_average == load


@given(st.dictionaries(st.sampled_from(["nodes", "_nodes", "cluster_name"]), json_values))
def test_no_object_is_too_odd_to_be_read(body: dict[str, Any]) -> None:
    for node in NodeStats.read(body).nodes:
        assert node.percent is None or node.percent >= 0
