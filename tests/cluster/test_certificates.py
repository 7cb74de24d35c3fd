"""Certificates of the servers that speak TLS: which are trusted, and what is said of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from airflow_provider_mediaops.exceptions import ConnectionFailedError, InvalidConnectionError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.certificates import make_certificate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.nodes import Cluster

pytestmark = pytest.mark.kinds("secured")


def error_of(connection: str, expected: type[Exception], patch: pytest.MonkeyPatch) -> str:
    """Return the message of the error."""
    patch.setenv("AIRFLOW_CONN_TEST_CLUSTER", connection)
    with SearchClusterHook("test_cluster") as hook, pytest.raises(expected) as raised:
        hook.cpu()
    return str(raised.value)


def test_the_cluster_s_own_authority_is_trusted(cluster: Cluster, connection: str) -> None:
    with SearchClusterHook(connection) as hook:
        assert {node.name for node in hook.cpu()} == set(cluster.node_names)
        assert hook.hot_threads(interval="10ms").startswith("::: {")


def test_no_authority_and_another_are_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(make_certificate("another authority").pem)
    for authority in ("", str(other)):
        message = error_of(cluster.connection(ca_cert=authority), InvalidConnectionError, monkeypatch)
        assert "Check the host, ca_cert and verify in the connection" in message


def test_another_name_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = f"https://localhost:{urlsplit(cluster.url).port}"
    message = error_of(cluster.connection(by_name), InvalidConnectionError, monkeypatch)
    assert "Check the host, ca_cert and verify in the connection" in message


# OpenSearch does not start with one.
@pytest.mark.kinds("is_elasticsearch")
def test_an_expired_certificate_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    message = error_of(cluster.connection(cluster.nodes[-1].url), InvalidConnectionError, monkeypatch)
    assert "certificate has expired" in message


def test_checking_can_be_turned_off(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", cluster.connection(ca_cert="", verify=False))
    with SearchClusterHook("test_cluster") as hook, pytest.warns(Warning, match="certificate"):
        assert hook.cpu()


def test_plain_http_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cluster.url.replace("https", "http")
    message = error_of(cluster.connection(plain, max_attempts=1), ConnectionFailedError, monkeypatch)
    assert "scheme (http or https)" in message
