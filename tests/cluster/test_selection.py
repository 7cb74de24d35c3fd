"""A list of nodes means the same here as in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.query import node_list
from airflow_provider_mediaops.cluster.selection import is_plain, narrowed

if TYPE_CHECKING:
    from tests.cluster.nodes import Cluster


def read(cluster: Cluster, nodes: str | None) -> NodeStats:
    reply = cluster.get(node_stats(nodes).request.path)
    reply.raise_for_status()
    return NodeStats.read(reply.json())


def test_nodes_picked_from_all_are_those_that_the_cluster_would_have_sent(cluster: Cluster) -> None:
    everything = read(cluster, None)
    first, last = everything.nodes[0], everything.nodes[-1]
    name, node_id, host = str(first.name), first.node_id, str(first.host)
    half = len(name) // 2
    patterns = [f"{name[:half]}*", f"*{name[half:]}", f"*{name[half]}*", f"{name[0]}*{name[-1]}", f"{name}*", "*"]
    # Only a star is special, case counts, and an id has no patterns.
    unmeant = [f"{name[:-1]}?", f"{name[:-1]}[{name[-1]}]", name.swapcase(), f"{name.swapcase()[:half]}*"]
    unmeant += [f"{node_id[:5]}*", f"{name}.", "nobody", "nobody*"]
    lists = [name, node_id, f"{name},{last.node_id}", f"{name},{name}", f"{node_id},{name[:half]}*", *patterns]
    lists += [host] if is_plain((host,)) else []
    for nodes in lists:
        # Ids are random. One that begins with an underscore, as "_local" does, the cluster resolves.
        drawn_like_a_keyword = any(entry.startswith("_") for entry in nodes.split(","))
        assert is_plain(node_list(nodes)) is not drawn_like_a_keyword, nodes
        picked = narrowed(everything, node_list(nodes))
        assert picked is not None, nodes
        assert ids(picked) == ids(read(cluster, nodes)), nodes
    for nodes in unmeant:
        assert narrowed(everything, node_list(nodes)) is None, nodes
        assert ids(read(cluster, nodes)) == set(), nodes


def ids(stats: NodeStats) -> set[str]:
    return {node.node_id for node in stats.nodes}
