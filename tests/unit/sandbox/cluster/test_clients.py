"""The products' own clients talk to the sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import elasticsearch
import opensearchpy
import pytest

from airflow_provider_mediaops.sandbox import cluster
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.unit.sandbox.credentials import OPERATOR

GUEST = (cluster.GUEST_LOGIN, cluster.GUEST_PASSWORD)
# All that the document of the operation has; for opensearch-py, timeout is the time that the client itself waits, and
# neither client knows master_timeout.
HOT_THREADS: dict[str, Any] = {"interval": "10ms", "snapshots": 2, "threads": 9999, "ignore_idle_threads": False}
ONE = "sandbox-1,nobody"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with SandboxServer() as server:
        yield f"{server.url}/cluster"


@pytest.fixture
def opensearch(url: str) -> Iterator[opensearchpy.OpenSearch]:
    with opensearchpy.OpenSearch(url, http_auth=OPERATOR, timeout=240) as client:
        yield client


@pytest.fixture
def elastic(url: str) -> Iterator[elasticsearch.Elasticsearch]:
    with elasticsearch.Elasticsearch(url, basic_auth=OPERATOR, request_timeout=240) as client:
        yield client


def test_both_ask_who_it_is(opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch) -> None:
    assert opensearch.ping()
    assert elastic.ping()
    assert opensearch.info() == elastic.info().body
    assert opensearch.info()["version"]["distribution"] == "opensearch"


def test_both_read_hot_threads(opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch) -> None:
    blocked = opensearch.nodes.hot_threads(node_id=ONE, doc_type="block", params={"master_timeout": "30s"})
    waiting = str(elastic.nodes.hot_threads(node_id=ONE, type="wait", timeout="30s"))

    for everything in (opensearch.nodes.hot_threads(**HOT_THREADS), str(elastic.nodes.hot_threads(**HOT_THREADS))):
        assert everything.count("::: {") == 3
        assert "busiestThreads=9999, ignoreIdleThreads=false" in everything
    assert blocked.count(" block usage by thread 'opensearch[sandbox-1]") == 3
    assert waiting.count(" wait usage by thread 'opensearch[sandbox-1]") == 3


def test_both_read_statistics(opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch) -> None:
    asked: dict[str, Any] = {"metric": ["os", "process"], "filter_path": "nodes.*.os.cpu.percent"}

    for found in (opensearch.nodes.stats(**asked), elastic.nodes.stats(**asked)):
        assert [list(node) for node in found["nodes"].values()] == [["os"]] * 3
    assert opensearch.nodes.stats(node_id=ONE, metric="os")["_nodes"]["total"] == 1
    assert elastic.nodes.stats(node_id=ONE, metric="os", timeout="30s")["_nodes"]["total"] == 1


# Elasticsearch calls its list of tasks a preview.
@pytest.mark.filterwarnings("ignore::elasticsearch.exceptions.GeneralAvailabilityWarning")
def test_both_read_running_tasks(opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch) -> None:
    asked: dict[str, Any] = {"nodes": "sandbox-2", "actions": "*search*", "detailed": True}

    for found in (opensearch.tasks.list(**asked), elastic.tasks.list(**asked)):
        (node,) = found["nodes"].values()
        (task,) = node["tasks"].values()
        assert task["action"] == "indices:data/read/search[phase/query]"
        assert "description" in task


def test_a_wrong_value_is_an_error_in_both(
    opensearch: opensearchpy.OpenSearch, elastic: elasticsearch.Elasticsearch
) -> None:
    with pytest.raises(opensearchpy.RequestError, match="threads: Input should be"):
        opensearch.nodes.hot_threads(threads=-1)
    with pytest.raises(elasticsearch.BadRequestError, match="threads: Input should be"):
        elastic.nodes.hot_threads(threads=-1)


def test_both_raise_for_a_wrong_password_and_a_missing_privilege(url: str) -> None:
    wrong = (cluster.LOGIN, "wrong")
    for client, guest, product in (
        (opensearchpy.OpenSearch(url, http_auth=wrong), opensearchpy.OpenSearch(url, http_auth=GUEST), opensearchpy),
        (
            elasticsearch.Elasticsearch(url, basic_auth=wrong),
            elasticsearch.Elasticsearch(url, basic_auth=GUEST),
            elasticsearch,
        ),
    ):
        errors: Any = product
        with client, guest:
            assert not client.ping()
            with pytest.raises(errors.AuthenticationException, match="unable to authenticate"):
                client.info()
            with pytest.raises(errors.AuthorizationException, match="cluster:monitor/nodes/hot_threads"):
                guest.nodes.hot_threads()


@pytest.mark.parametrize("credential", [{"api_key": cluster.API_KEY}, {"bearer_auth": cluster.BEARER_TOKEN}])
def test_elasticsearch_py_may_bring_a_key_or_a_token(url: str, credential: dict[str, Any]) -> None:
    with elasticsearch.Elasticsearch(url, **credential) as client:
        assert client.ping()
