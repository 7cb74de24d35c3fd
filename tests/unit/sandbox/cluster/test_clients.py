"""The products' own clients talk to the sandbox in their dialect, with all that they can ask."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import elasticsearch
import opensearchpy
import pytest

from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from tests.unit.sandbox.credentials import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

GUEST = (cluster.GUEST_LOGIN, cluster.GUEST_PASSWORD)
# What both clients can ask of hot threads and of statistics, and what only Elasticsearch's can.
HOT_THREADS: dict[str, Any] = {
    "interval": "10ms",
    "snapshots": 2,
    "threads": 9999,
    "ignore_idle_threads": False,
    "pretty": True,
    "human": True,
    "error_trace": True,
    "filter_path": "x",
}
STATISTICS: dict[str, Any] = {
    "completion_fields": "title",
    "fielddata_fields": "title",
    "fields": "title",
    "groups": True,
    "include_segment_file_sizes": True,
    "level": "indices",
    "pretty": True,
    "human": True,
    "error_trace": True,
    "filter_path": "nodes.*.os.cpu.percent",
}
# For opensearch-py, timeout is the time that the client itself waits.
ELASTICSEARCH_HOT_THREADS = {"type": "wait", "sort": "cpu", "timeout": "30s"}
ELASTICSEARCH_STATISTICS = {"include_unloaded_segments": True, "timeout": "30s"}
# The last two lead to figures of indices, which the sandbox has not, and to a refusal, also by real servers.
NOT_ASKED = {"node_id", "metric", "index_metric", "types"}


@pytest.fixture(scope="module")
def opensearch_url() -> Iterator[str]:
    with SandboxServer(settings=Settings(cluster_dialect="opensearch-2")) as server:
        yield f"{server.url}/cluster"


@pytest.fixture(scope="module")
def elasticsearch_url() -> Iterator[str]:
    with SandboxServer(settings=Settings(cluster_dialect="elasticsearch-9")) as server:
        yield f"{server.url}/cluster"


@pytest.fixture
def opensearch(opensearch_url: str) -> Iterator[opensearchpy.OpenSearch]:
    with opensearchpy.OpenSearch(opensearch_url, http_auth=OPERATOR, timeout=240) as client:
        yield client


@pytest.fixture
def elastic(elasticsearch_url: str) -> Iterator[elasticsearch.Elasticsearch]:
    with elasticsearch.Elasticsearch(elasticsearch_url, basic_auth=OPERATOR, request_timeout=240) as client:
        yield client


def test_opensearch_py_asks_who_it_is(opensearch: opensearchpy.OpenSearch) -> None:
    assert opensearch.ping()
    assert opensearch.info()["version"]["distribution"] == "opensearch"


def test_elasticsearch_py_takes_it_for_its_own_server(elastic: elasticsearch.Elasticsearch) -> None:
    assert elastic.ping()
    assert elastic.info()["version"]["number"] == "9.1.0"


def test_opensearch_py_reads_hot_threads(opensearch: opensearchpy.OpenSearch) -> None:
    everything = opensearch.nodes.hot_threads(**HOT_THREADS)
    one = opensearch.nodes.hot_threads(node_id=["sandbox-1", "nobody"], doc_type="block")

    assert everything.count("::: {") == 3
    assert "busiestThreads=9999, ignoreIdleThreads=false" in everything
    assert " block usage by thread 'opensearch[sandbox-1]" in one
    assert one.count("::: {") == 1


def test_elasticsearch_py_reads_hot_threads_with_every_parameter(elastic: elasticsearch.Elasticsearch) -> None:
    asked = {**HOT_THREADS, **ELASTICSEARCH_HOT_THREADS}
    assert set(inspect.signature(elastic.nodes.hot_threads).parameters) <= {*asked, *NOT_ASKED}

    text = str(elastic.nodes.hot_threads(node_id=["sandbox-1", "zone:south"], **asked))
    assert text.count("::: {") == 3
    assert " wait usage by thread 'elasticsearch[sandbox-3]" in text
    assert "memory allocated by thread" in str(elastic.nodes.hot_threads(type="mem", interval="10ms"))


def test_opensearch_py_reads_statistics_with_every_parameter(opensearch: opensearchpy.OpenSearch) -> None:
    percents = opensearch.nodes.stats(**STATISTICS)["nodes"].values()

    assert [list(node) for node in percents] == [["os"]] * 3
    assert opensearch.nodes.stats(node_id="sandbox-2", metric=["os", "process"])["_nodes"]["total"] == 1


def test_elasticsearch_py_reads_statistics_with_every_parameter(elastic: elasticsearch.Elasticsearch) -> None:
    asked = {**STATISTICS, **ELASTICSEARCH_STATISTICS}
    assert set(inspect.signature(elastic.nodes.stats).parameters) <= {*asked, *NOT_ASKED}

    percents = elastic.nodes.stats(**asked)["nodes"].values()
    assert [list(node) for node in percents] == [["os"]] * 3
    assert elastic.nodes.stats(node_id="sandbox-2", metric=["os", "process"])["_nodes"]["total"] == 1


def test_both_return_an_empty_report_of_what_the_nodes_cannot_do(
    opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch
) -> None:
    assert opensearch.nodes.hot_threads(threads=-1) == ""
    assert opensearch.nodes.hot_threads(doc_type="bogus") == ""
    assert str(elastic.nodes.hot_threads(timeout="1ms")) == ""


def test_a_refused_parameter_is_an_error_in_both(
    opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch
) -> None:
    words = r"contains unrecognized parameter: \[master_timeout\]"
    with pytest.raises(opensearchpy.RequestError, match=words):
        opensearch.nodes.hot_threads(params={"master_timeout": "30s"})
    with pytest.raises(elasticsearch.BadRequestError, match=words):
        elastic.perform_request("GET", "/_nodes/hot_threads?master_timeout=30s", headers={"Accept": "text/plain"})


def test_opensearch_py_raises_for_a_wrong_password_and_a_missing_privilege(opensearch_url: str) -> None:
    with opensearchpy.OpenSearch(opensearch_url, http_auth=(cluster.LOGIN, "wrong")) as client:
        assert not client.ping()
        with pytest.raises(opensearchpy.AuthenticationException, match="Unauthorized"):
            client.info()
    with (
        opensearchpy.OpenSearch(opensearch_url, http_auth=GUEST) as client,
        pytest.raises(opensearchpy.AuthorizationException, match="cluster:monitor/nodes/hot_threads"),
    ):
        client.nodes.hot_threads()


def test_elasticsearch_py_raises_for_a_wrong_password_and_a_missing_privilege(elasticsearch_url: str) -> None:
    with elasticsearch.Elasticsearch(elasticsearch_url, basic_auth=(cluster.LOGIN, "wrong")) as client:
        assert not client.ping()
        with pytest.raises(elasticsearch.AuthenticationException, match="unable to authenticate user"):
            client.info()
    with (
        elasticsearch.Elasticsearch(elasticsearch_url, basic_auth=GUEST) as client,
        pytest.raises(elasticsearch.AuthorizationException, match="cluster:monitor/nodes/hot_threads"),
    ):
        client.nodes.hot_threads()


@pytest.mark.parametrize("credential", [{"api_key": cluster.API_KEY}, {"bearer_auth": cluster.BEARER_TOKEN}])
def test_elasticsearch_py_may_bring_a_key_or_a_token(elasticsearch_url: str, credential: dict[str, Any]) -> None:
    with elasticsearch.Elasticsearch(elasticsearch_url, **credential) as client:
        assert client.ping()


def test_elasticsearch_py_does_not_take_opensearch_for_its_own(opensearch_url: str) -> None:
    with (
        elasticsearch.Elasticsearch(opensearch_url, basic_auth=OPERATOR) as client,
        pytest.raises(elasticsearch.UnsupportedProductError),
    ):
        client.info()
