"""What node statistics say, whatever version wrote them, and which of the nodes a list of nodes means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
from airflow_provider_mediaops.cluster.query import node_list
from airflow_provider_mediaops.cluster.selection import is_plain, narrowed

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
def test_node_is_meant_by_its_names_and_by_patterns(selector: str, meant: bool) -> None:  # noqa: FBT001
    node = only_node(name="node-1", host="es1.example", ip="10.0.0.1:9300")
    assert node.is_meant_by(selector) is meant


def test_entry_that_means_no_node_is_unknown() -> None:
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
def test_any_object_is_read_and_no_cpu_is_below_zero(body: dict[str, Any]) -> None:
    for node in NodeStats.read(body).nodes:
        assert node.percent is None or node.percent >= 0


NODES = (
    NodeCpu("id_1", name="data-1", host="one.example", percent=1.0),
    NodeCpu("id_2", name="data-2", host="two.example", percent=2.0),
    NodeCpu("id_3", name="Master", host="one.example", percent=3.0),
    # Its name is the id of another node, and holds what is special elsewhere.
    NodeCpu("id_4", name="id_1", host=None, percent=4.0),
    NodeCpu("id_5", name="od[d]?.+", host=None, percent=5.0),
    NodeCpu("id_6", name=None, host=None, percent=6.0),
)
STATS = NodeStats(NODES, cluster_name="docs")


@pytest.mark.parametrize(
    "selection", [None, "data-1", "data-1,data-2", "data-*", "*", "*-1", "node.1", "a1", "10x", "id_1,*"]
)
def test_list_of_names_ids_and_patterns_is_plain(selection: str | None) -> None:
    assert is_plain(node_list(selection))


@pytest.mark.parametrize(
    "selection", ["_local", "_all", "_master", "zone:a", "data-1,data:false", "10.0.0.1", "10.0.*", "1", "::1", "**"]
)
def test_list_that_only_the_cluster_resolves_is_not_plain(selection: str) -> None:
    assert not is_plain(node_list(selection))


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (None, "id_1 id_2 id_3 id_4 id_5 id_6"),
        ("data-1", "id_1"),
        ("data-2,id_6", "id_2 id_6"),
        ("data-2,data-2,id_2", "id_2"),
        # An id goes before a name.
        ("id_1", "id_1"),
        ("one.example", "id_1 id_3"),
        ("data-*", "id_1 id_2"),
        ("*.example", "id_1 id_2 id_3"),
        ("*", "id_1 id_2 id_3 id_4 id_5 id_6"),
        ("d*t*-2,Ma*", "id_2 id_3"),
        # Nothing but a star is special.
        ("od[d]?.+", "id_5"),
        ("od[d]*", "id_5"),
    ],
)
def test_selection_leaves_the_nodes_that_are_meant(selection: str | None, ids: str) -> None:
    found = narrowed(STATS, node_list(selection))
    assert found is not None
    assert [node.node_id for node in found.nodes] == ids.split()
    assert found.cluster_name == "docs"


@pytest.mark.parametrize("selection", ["nobody", "data-1,nobody", "master", "data-?", "data-[12]", "x*", "DATA-*"])
def test_selection_with_an_entry_that_means_no_node_is_left_to_the_cluster(selection: str) -> None:
    assert narrowed(STATS, node_list(selection)) is None


def test_selection_by_a_pattern_is_left_to_the_cluster_where_a_node_failed() -> None:
    failing = NodeStats(NODES, failures=("node id_9: it is slow",), failed=1)
    by_name = narrowed(failing, ("data-1",))
    assert by_name == NodeStats(NODES[:1])
    assert narrowed(failing, ("data-*",)) is None
    assert narrowed(failing, None) is failing
