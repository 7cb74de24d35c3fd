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
    from tests.cluster.nodes import Cluster

CALLS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "all that they know": {"interval": "50ms", "snapshots": 3, "threads": 9999, "ignore_idle_threads": False},
}


@pytest.mark.parametrize("arguments", CALLS.values(), ids=list(CALLS))
def test_the_clients_of_both_products_return_the_same_text_of_all_nodes_and_of_one(
    cluster: Cluster, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_proxy(cluster, same_for_all=True) as proxy:
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
