"""Connections of the search cluster: credentials and certificates."""

from __future__ import annotations

import base64
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.unit.hooks.cluster_hook import STATS, cpu
from tests.unit.loopback import Loopback, answering, make_certificate
from tests.unit.search_cluster import http, replied, report, stats

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock


class TestCredentials:
    @pytest.mark.parametrize(
        ("fields", "header"),
        [
            ({"login": "elastic", "password": "pass:word"}, b"Basic " + base64.b64encode(b"elastic:pass:word")),
            ({"login": "e", "password": "p", "auth": "basic"}, b"Basic " + base64.b64encode(b"e:p")),
            ({"password": "QUJDREVG", "auth": "api_key"}, b"ApiKey QUJDREVG"),
            ({"password": "an-id:a-secret", "auth": "api_key"}, b"ApiKey YW4taWQ6YS1zZWNyZXQ="),
            ({"password": "ApiKey YW4taWQ6YS1zZWNyZXQ=", "auth": "api_key"}, b"ApiKey YW4taWQ6YS1zZWNyZXQ="),
            (
                {"password": '{"id": "an-id", "name": "airflow",\n "api_key": "a-secret"}', "auth": "api_key"},
                b"ApiKey YW4taWQ6YS1zZWNyZXQ=",
            ),
            ({"password": '\n{"id": "i", "encoded": "QUJDREVG"}\n', "auth": "api_key"}, b"ApiKey QUJDREVG"),
            ({"password": "essu_cloud-key", "auth": "api_key"}, b"ApiKey essu_cloud-key"),
            ({"password": "bearer abc.def.ghi", "auth": "bearer"}, b"Bearer abc.def.ghi"),
            ({"password": "token-1", "auth": "bearer"}, b"Bearer token-1"),
            ({"login": "e", "password": "p", "auth": "none"}, None),
            ({}, None),
        ],
    )
    def test_each_kind_of_authentication_sends_its_header(
        self, requests_mock: requests_mock.Mocker, connect_cluster: Any, fields: dict[str, Any], header: bytes | None
    ) -> None:
        connect_cluster(**fields)
        requests_mock.get(STATS, json=stats({"a": 1}))
        cpu()
        request = requests_mock.request_history[-1]
        assert request.headers.get("Authorization") == (header.decode() if header else None)


class TestTrust:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Any:
        replies = (http(replied(stats({"a": 1}))), http(replied(report("a"))))
        with Loopback(answering(*replies), make_certificate(tmp_path)) as server:
            yield server

    def test_the_given_authority_is_trusted(self, server: Loopback, connect_cluster: Any, tmp_path: Path) -> None:
        connect_cluster(server.base, ca_cert=str(tmp_path / "loopback.pem"))
        assert SearchClusterHook().test_connection()[0]

    def test_checking_can_be_turned_off(self, server: Loopback, connect_cluster: Any) -> None:
        connect_cluster(server.base, verify="false", ca_cert="/nowhere/ca.pem")
        with pytest.warns(Warning, match="certificate"):
            assert SearchClusterHook().test_connection()[0]

    async def test_authority_is_loaded_in_no_event_loop(
        self, connect_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Loading takes tens of milliseconds."""
        certificate = make_certificate(tmp_path)
        loading: list[threading.Thread] = []
        load = ssl.create_default_context

        def note(**paths: Any) -> ssl.SSLContext:
            loading.append(threading.current_thread())
            return load(**paths)

        monkeypatch.setattr(ssl, "create_default_context", note)
        with Loopback(answering(http(replied(stats({"a": 1})))), certificate) as server:
            connect_cluster(server.base, ca_cert=str(tmp_path / "loopback.pem"))
            with SearchClusterHook() as hook:
                await hook.arun((await hook.aservice()).client.ask(node_stats(None)))
        assert loading
        assert threading.current_thread() not in loading
