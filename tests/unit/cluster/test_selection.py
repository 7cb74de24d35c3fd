"""Which nodes of a reading of all nodes a list of nodes means."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
from airflow_provider_mediaops.cluster.query import node_list
from airflow_provider_mediaops.cluster.selection import is_plain, narrowed

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
def test_names_ids_and_patterns_are_plain(selection: str | None) -> None:
    assert is_plain(node_list(selection))


@pytest.mark.parametrize(
    "selection", ["_local", "_all", "_master", "zone:a", "data-1,data:false", "10.0.0.1", "10.0.*", "1", "::1", "**"]
)
def test_what_only_the_cluster_resolves_is_not(selection: str) -> None:
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
def test_the_nodes_that_are_meant_are_left(selection: str | None, ids: str) -> None:
    found = narrowed(STATS, node_list(selection))
    assert found is not None
    assert [node.node_id for node in found.nodes] == ids.split()
    assert found.cluster_name == "docs"


@pytest.mark.parametrize("selection", ["nobody", "data-1,nobody", "master", "data-?", "data-[12]", "x*", "DATA-*"])
def test_an_entry_that_means_no_node_is_left_to_the_cluster(selection: str) -> None:
    assert narrowed(STATS, node_list(selection)) is None


def test_a_node_that_failed_may_be_meant_by_a_pattern_only() -> None:
    failing = NodeStats(NODES, failures=("node id_9: it is slow",), failed=1)
    by_name = narrowed(failing, ("data-1",))
    assert by_name == NodeStats(NODES[:1])
    assert narrowed(failing, ("data-*",)) is None
    assert narrowed(failing, None) is failing
