"""Connections of the search cluster: credentials, certificates, and the answers of the Test button."""

from __future__ import annotations

import base64
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.unit.hooks.cluster_hook import BASE, PROBE, PROBED_THREADS, STATS
from tests.unit.loopback import Loopback, answering, make_certificate
from tests.unit.search_cluster import error, http, replied, report, stats

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
        with SearchClusterHook() as hook:
            hook.cpu()
        request = requests_mock.last_request
        assert request is not None
        assert request.headers.get("Authorization") == (header.decode() if header else None)

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"password": "secret-1"}, "auth"),
            ({"auth": "kerberos"}, "auth"),
            ({"login": "elastic"}, "password"),
            ({"auth": "api_key"}, "password"),
            ({"auth": "api_key", "password": '{"id": "secret-1"}'}, "password"),
            ({"auth": "api_key", "password": '{"id": "secret-1", '}, "password"),
            ({"auth": "bearer", "login": "x"}, "password"),
            ({"auth": "basic", "password": "secret-1"}, "login"),
            ({"verify": "perhaps"}, "verify"),
            ({"ca_cert": "/nowhere/ca.pem"}, "ca_cert"),
            ({"ca_cert": __file__}, "ca_cert"),
            ({"timeout": "soon"}, "timeout"),
            ({"cpu_measure": "container"}, "cpu_measure"),
            ({"max_report_mb": 0}, "max_report_mb"),
            ({"max_report_mb": 1.5}, "max_report_mb"),
            ({"max_report_mb": 4097}, "max_report_mb"),
            ({"host": "ftp://cluster.example"}, "host"),
            ({"host": ""}, "host"),
        ],
    )
    def test_a_field_that_cannot_be_used_is_named(
        self, connect_cluster: Any, fields: dict[str, Any], field: str
    ) -> None:
        connect_cluster(**fields)
        with pytest.raises(InvalidConnectionError, match=f"field '{field}'") as caught, SearchClusterHook() as hook:
            hook.cpu()
        assert "secret-1" not in str(caught.value)


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


class TestTestConnection:
    def test_a_base_address_with_the_path_of_the_nodes_in_it(
        self, connect_cluster: Any, requests_mock: requests_mock.Mocker
    ) -> None:
        connect_cluster(f"{BASE}/_nodes")
        body = {"error": "no handler found for uri [/_nodes/_nodes/_local/stats/os,process] and method [GET]"}
        requests_mock.get(f"{BASE}/_nodes/_nodes/_local/stats/os,process", status_code=400, json=body)
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert "answered GET /_nodes/_nodes/_local/stats/os,process with 400" in said
        assert "The base address in the connection ends in /_nodes, which is added to it: take /_nodes off." in said

    def test_a_working_connection(self, requests_mock: requests_mock.Mocker, connect_cluster: Any) -> None:
        connect_cluster(login="elastic", password="secret-1")
        requests_mock.get(PROBE, json=stats({"a": 1}))
        requests_mock.get(PROBED_THREADS, text=report("a"))
        worked, said = SearchClusterHook().test_connection()
        assert worked
        assert said == (
            "The search cluster 'docs' answers, accepts the credentials and lets them read the statistics and the hot "
            "threads of its nodes."
        )

    def test_a_measure_of_the_cpu_that_the_node_does_not_give_is_named(
        self, requests_mock: requests_mock.Mocker, connect_cluster: Any
    ) -> None:
        connect_cluster(login="elastic", password="secret-1", cpu_measure="cgroup")
        requests_mock.get(PROBE, json=stats({"a": 1}))
        requests_mock.get(PROBED_THREADS, text=report("a"))
        worked, said = SearchClusterHook().test_connection()
        assert worked
        assert "the node that answered does not give its CPU by cpu_measure=cgroup" in said

    def test_a_missing_privilege_is_named(self, connect_cluster: Any, requests_mock: requests_mock.Mocker) -> None:
        connect_cluster(login="elastic", password="secret-1", max_attempts=5)
        requests_mock.get(PROBE, json=stats({"a": 1}))
        reason = "action [cluster:monitor/nodes/hot_threads] is unauthorized for user [elastic] with effective roles []"
        requests_mock.get(PROBED_THREADS, status_code=403, json=error(403, "security_exception", reason))
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert said.startswith("The connection's user may not read hot threads (cluster:monitor/nodes/hot_threads)")
        assert "This is Elasticsearch: give the connection's user or API key a role with the cluster privilege" in said
        assert requests_mock.call_count == 2

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (
                {"status_code": 401, "json": error(401, "security_exception", "unable to authenticate")},
                ["401", "unable to authenticate", "login and password"],
            ),
            ({"status_code": 404, "text": "not here"}, ["404", "base address"]),
            ({"text": "<html>Sign in</html>"}, ["a web page", "base address"]),
            ({"status_code": 302, "headers": {"Location": "https://sso.example/"}}, ["redirects", "sso.example"]),
            ({"exc": requests.exceptions.SSLError}, ["scheme"]),
            ({"exc": requests.exceptions.ConnectTimeout}, ["host and port"]),
        ],
    )
    def test_fault_of_a_connection_is_said_in_a_sentence_without_a_secret(
        self, requests_mock: requests_mock.Mocker, connect_cluster: Any, reply: dict[str, Any], words: list[str]
    ) -> None:
        connect_cluster(login="elastic", password="secret-1", max_attempts=5)
        requests_mock.get(PROBE, **reply)
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert all(word in said for word in words), said
        assert "secret-1" not in said
        assert requests_mock.call_count == 1

    @pytest.mark.usefixtures("supervisor")
    def test_a_connection_that_does_not_exist(self) -> None:
        worked, said = SearchClusterHook("mediaops_cluster_nowhere").test_connection()
        assert not worked
        assert "mediaops_cluster_nowhere" in said

    def test_a_clusters_name_of_any_length_makes_a_short_sentence(
        self, connect_cluster: Any, requests_mock: requests_mock.Mocker
    ) -> None:
        connect_cluster(login="elastic", password="s3cr3t/k3y")
        body = {**stats({"a": 1}), "cluster_name": f"s3cr3t&#47;k3y <b>{'x' * 5_000_000}"}
        requests_mock.get(PROBE, json=body)
        requests_mock.get(PROBED_THREADS, text=report("a"))
        worked, said = SearchClusterHook().test_connection()
        assert worked
        assert said.startswith("The search cluster '*** <b>xxx")
        assert len(said) <= 1_000
