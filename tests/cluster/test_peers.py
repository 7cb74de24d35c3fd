"""The clients that people use today read the same text in the same reply of a real cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from elasticsearch import Elasticsearch
from opensearchpy import OpenSearch

from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.cluster.proxy import running_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.nodes import Cluster
    from tests.cluster.proxy import Proxy

CALLS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "all that they know": {
        "interval": "50ms",
        "snapshots": 3,
        "threads": 9999,
        "ignore_idle_threads": False,
    },
}


@pytest.fixture
def proxy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with running_proxy(cluster, same_for_all=True) as running:
        fields = {"conn_type": "mediaops_cluster", "host": running.url, "extra": {"auth": "none"}}
        monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", json.dumps(fields))
        yield running


def ours(nodes: str | None, arguments: dict[str, Any]) -> str:
    with SearchClusterHook("test_cluster") as hook:
        return hook.hot_threads(nodes, **arguments)


@pytest.mark.parametrize("arguments", CALLS.values(), ids=list(CALLS))
def test_opensearch_py_returns_the_same_text(proxy: Proxy, arguments: dict[str, Any]) -> None:
    text = ours(None, arguments)
    with OpenSearch(proxy.url) as peer:
        theirs = peer.nodes.hot_threads(**arguments)
    assert text == theirs
    assert text.startswith("::: {")


@pytest.mark.parametrize("arguments", CALLS.values(), ids=list(CALLS))
def test_elasticsearch_py_returns_the_same_text_where_it_takes_the_server_for_its_own(
    proxy: Proxy, arguments: dict[str, Any]
) -> None:
    text = ours(None, arguments)
    with Elasticsearch(proxy.url) as peer:
        theirs = peer.nodes.hot_threads(**arguments)
    assert text == str(theirs)


def test_a_node_is_asked_for_as_they_ask_for_it(proxy: Proxy, cluster: Cluster) -> None:
    node = cluster.node_names[0]
    text = ours(node, {"interval": "50ms"})
    with OpenSearch(proxy.url) as peer:
        assert text == peer.nodes.hot_threads(node_id=node, interval="50ms")
    with Elasticsearch(proxy.url) as other:
        assert text == str(other.nodes.hot_threads(node_id=node, interval="50ms"))
    assert len(set(proxy.asked)) == 1
