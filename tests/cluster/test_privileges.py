"""Logins and privileges on the servers that have users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.capturing import capture_with_tasks
from tests.cluster.security import (
    DOCUMENTED,
    ELASTICSEARCH_MONITOR,
    GUEST,
    HOT_THREADS_ONLY,
    OPENSEARCH_MONITOR,
    OPERATOR,
    STATS_ONLY,
    User,
)

if TYPE_CHECKING:
    from tests.cluster.kinds import Kind
    from tests.cluster.nodes import Cluster

pytestmark = pytest.mark.kinds("secured")
STATS, HOT_THREADS = "cluster:monitor/nodes/stats", "cluster:monitor/nodes/hot_threads"
MISSING = {
    STATS_ONLY: f"may not read hot threads ({HOT_THREADS})",
    HOT_THREADS_ONLY: f"may not read its nodes' statistics ({STATS})",
    GUEST: f"may read neither its nodes' statistics ({STATS}) nor hot threads ({HOT_THREADS})",
}


@pytest.fixture
def connect(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[User], str]:
    def connection(user: User) -> str:
        monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", cluster.connection(user=user))
        return "test_cluster"

    return connection


def kind_of(cluster: Cluster) -> Kind:
    assert cluster.kind is not None
    return cluster.kind


def test_a_wrong_password_is_refused(connect: Callable[[User], str]) -> None:
    hook = SearchClusterHook(connect(User(OPERATOR.name, "no-password-of-it")))
    with hook, pytest.raises(AuthenticationError, match=r"401.*login and password") as raised:
        hook.hot_threads()
    assert "no-password-of-it" not in str(raised.value)


@pytest.mark.kinds("wants_client_certificate")
def test_missing_client_certificate_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    without: dict[str, Any] = dict.fromkeys(("client_cert", "client_key", "client_key_password"), "")
    monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", cluster.connection(**without))
    works, sentence = SearchClusterHook("test_cluster").test_connection()
    assert not works
    assert "client_cert" in sentence


@pytest.mark.parametrize("user", MISSING, ids=lambda user: user.name)
def test_a_missing_privilege_is_named_in_the_terms_of_the_product(
    connect: Callable[[User], str], cluster: Cluster, user: User
) -> None:
    works, sentence = SearchClusterHook(connect(user)).test_connection()

    assert not works
    assert MISSING[user] in sentence
    if kind_of(cluster).is_elasticsearch:
        assert (
            "This is Elasticsearch: give the connection's user or API key a role with the cluster privilege monitor"
            in sentence
        )
    else:
        assert "This is OpenSearch: give the connection's user a role with the action group cluster_monitor" in sentence


def test_the_advised_privilege_suffices(connect: Callable[[User], str], cluster: Cluster) -> None:
    user = ELASTICSEARCH_MONITOR if kind_of(cluster).is_elasticsearch else OPENSEARCH_MONITOR
    with SearchClusterHook(connect(user)) as hook:
        assert hook.test_connection()[0]
        assert {node.name for node in hook.cpu()} == set(cluster.node_names)
        capture = capture_with_tasks(hook, interval="50ms")
    assert capture.text.startswith("::: {")
    assert capture.running_tasks is not None
    assert sorted(node.label for node in capture.running_tasks.nodes) == sorted(cluster.node_names)
    for node in capture.running_tasks.nodes:
        assert not [remark for remark in node.remarks if "refus" in remark]
        assert node.looks_ms


def test_the_documented_role_suffices_for_readings_captures_and_tasks_and_for_nothing_else(
    connect: Callable[[User], str], cluster: Cluster, tmp_path: Path
) -> None:
    operator = CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(tmp_path / "hot.txt"),
        interval="10ms",
        cluster_conn_id=connect(DOCUMENTED),
    )
    summary = operator.execute({})
    assert len(summary["cpu"]) == len(cluster.node_names)
    with cluster.session(DOCUMENTED) as session:
        tasks = session.get(f"{cluster.url}/_tasks", params={"detailed": "true"}, timeout=240)
        assert tasks.status_code == 200
        node = next(iter(tasks.json()["nodes"]))
        assert session.get(f"{cluster.url}/_tasks/{node}:999999999", timeout=240).status_code == 404
        for path in ("_search", "_cluster/settings", "_cat/indices"):
            assert session.get(f"{cluster.url}/{path}", timeout=240).status_code == 403
