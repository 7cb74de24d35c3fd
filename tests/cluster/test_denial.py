"""What a user without the rights is told. OpenSearch from Maven has no security plugin: a proxy keeps its rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, PermissionDeniedError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.proxy import User, running_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.nodes import Cluster

PASSWORD = "a password of these tests"
USERS = {
    "admin": User(PASSWORD, ""),
    "reporter": User(PASSWORD, "hot_threads"),
    "reader": User(PASSWORD, "stats/os,process"),
}


@pytest.fixture
def connect(opensearch: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    with running_proxy(opensearch.url, USERS) as proxy:

        def connection(login: str, password: str) -> str:
            fields = {
                "conn_type": "mediaops_cluster",
                "host": proxy.url,
                "login": login,
                "password": password,
                "extra": {"auth": "basic"},
            }
            monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", json.dumps(fields))
            return "test_cluster"

        yield connection


def test_a_login_with_all_rights_reads_everything(connect: Callable[[str, str], str], opensearch: Cluster) -> None:
    with SearchClusterHook(connect("admin", PASSWORD)) as hook:
        assert {node.name for node in hook.cpu()} == set(opensearch.node_names)
        assert hook.hot_threads(interval="10ms").startswith("::: {")


def test_a_wrong_password_is_told_as_such(connect: Callable[[str, str], str]) -> None:
    with (
        SearchClusterHook(connect("admin", "wrong")) as hook,
        pytest.raises(AuthenticationError, match="login and password") as raised,
    ):
        hook.hot_threads()
    assert "wrong" not in str(raised.value)


def test_a_missing_right_is_named(connect: Callable[[str, str], str]) -> None:
    with (
        SearchClusterHook(connect("reader", PASSWORD)) as hook,
        pytest.raises(PermissionDeniedError, match="cluster:monitor/nodes/hot_threads") as raised,
    ):
        hook.hot_threads()
    assert raised.value.status == 403


def test_a_capture_needs_no_right_to_the_statistics(connect: Callable[[str, str], str], tmp_path: Path) -> None:
    operator = CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(tmp_path / "hot.txt"),
        interval="10ms",
        cluster_conn_id=connect("reporter", PASSWORD),
    )
    summary = operator.execute({})
    assert summary["cpu"] is None
    assert (tmp_path / "hot.txt").read_text().startswith("::: {")
