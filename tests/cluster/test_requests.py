"""The requests of the hook to each server: texts, lists of nodes, and the parameters that it refuses."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from elasticsearch import Elasticsearch
from opensearchpy import OpenSearch

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.query import is_plain, node_list
from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    InvalidArgumentError,
    InvalidReplyError,
    NotFoundError,
)
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.cluster.proxy import running_proxy

if TYPE_CHECKING:
    from tests.cluster.nodes import Cluster

HEADER = re.compile(r"^::: \{(.+?)\}", re.MULTILINE)
# By which lists of nodes each node is meant; {id} is the second node's.
FIRST, SECOND = "node-1", "node 2"
NODE_LISTS = {
    FIRST: [FIRST],
    SECOND: [SECOND],
    "{id}": [SECOND],
    f"{FIRST},{{id}}": [FIRST, SECOND],
    f"{FIRST},nobody": [FIRST],
    "node*": [FIRST, SECOND],
    "*2": [SECOND],
    "_all": [FIRST, SECOND],
    "_local": [FIRST],
    "_master": [FIRST],
    "127.0.0.1": [FIRST, SECOND],
    "zone:south": [SECOND],
    "data:true": [FIRST, SECOND],
    "_all,data:false": [],
    "_all,ingest:false": [SECOND],
    "nobody": [],
    "NODE-1": [],
}
CALLS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "all that they know": {"interval": "50ms", "snapshots": 3, "threads": 9999, "ignore_idle_threads": False},
}


@pytest.mark.parametrize("arguments", CALLS.values(), ids=list(CALLS))
def test_the_clients_of_both_products_return_the_same_text_of_all_nodes_and_of_one(
    cluster: Cluster, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_proxy(cluster) as proxy:
        fields = {"conn_type": "mediaops_cluster", "host": proxy.url, "extra": {"auth": "none"}}
        monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", json.dumps(fields))
        for node in (None, cluster.node_names[0]):
            with SearchClusterHook("test_cluster") as hook:
                text = hook.hot_threads(node, **arguments)
            assert text.startswith("::: {")
            # An answer is repeated only if the same is asked in the same words.
            with OpenSearch(proxy.url) as opensearch, Elasticsearch(proxy.url) as elasticsearch:
                assert text == opensearch.nodes.hot_threads(node_id=node, **arguments)
                assert text == str(elasticsearch.nodes.hot_threads(node_id=node, **arguments))


def test_a_list_of_nodes_means_the_nodes_that_the_documentation_says(cluster: Cluster, connection: str) -> None:
    if not cluster.nodes:
        pytest.skip("The nodes of a cluster that was started elsewhere have other names.")
    with SearchClusterHook(connection) as hook:
        [second] = hook.cpu(SECOND)
        for entry, names in NODE_LISTS.items():
            nodes = entry.format(id=second.node_id)
            if names:
                assert sorted(node.name or "" for node in hook.cpu(nodes)) == sorted(names), nodes
                text = hook.hot_threads(nodes, interval="10ms", snapshots=1)
                assert sorted(HEADER.findall(text)) == sorted(names), nodes
                continue
            for ask in (hook.cpu, hook.hot_threads):
                with pytest.raises(NotFoundError, match=re.escape(repr(nodes.split(",")[-1]))):
                    ask(nodes)


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
        picked = everything.narrowed(node_list(nodes))
        assert ids(picked) == ids(read(cluster, nodes)), nodes
    for nodes in unmeant:
        assert ids(everything.narrowed(node_list(nodes))) == set(), nodes
        assert ids(read(cluster, nodes)) == set(), nodes


def ids(stats: NodeStats) -> set[str]:
    return {node.node_id for node in stats.nodes}


@pytest.mark.parametrize("path", ["/_nodes/hot_threads", f"/_nodes/{FIRST}/hot_threads"])
def test_a_time_limit_below_the_sampling_never_gives_a_report_and_is_refused(
    cluster: Cluster, connection: str, path: str
) -> None:
    for timeout in ("0s", "1ms"):
        assert cluster.get(path, timeout=timeout).content == b"", timeout
    message = "timeout=1ms is shorter than the sampling, .* Raise timeout"
    with SearchClusterHook(connection) as hook, pytest.raises(InvalidArgumentError, match=message):
        hook.hot_threads(timeout="1ms")


def test_a_parameter_that_the_server_does_not_know_is_to_be_left_out(connection: str) -> None:
    # None of them knows master_timeout here: the default is not sent, any other figure is refused.
    message = "answered .* with 400 .* does not know master_timeout: leave it out"
    with SearchClusterHook(connection) as hook, pytest.raises(BadRequestError, match=message):
        hook.hot_threads(master_timeout="31s")


@pytest.mark.parametrize("prefix", ["/wrong", "/wrong/path", "/_nodes"])
def test_a_wrong_path_in_the_base_address_is_named(
    cluster: Cluster, connection: str, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", cluster.connection(f"{cluster.url}{prefix}"))
    with SearchClusterHook(connection) as hook:
        for ask in (hook.cpu, hook.hot_threads):
            # Some of these paths are those of other requests.
            with pytest.raises((BadRequestError, NotFoundError, InvalidReplyError), match="base address in the conn"):
                ask()
