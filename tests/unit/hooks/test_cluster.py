"""The hook of the search cluster: what it asks for, as whom, and what it says of a connection."""

from __future__ import annotations

import asyncio
import base64
import gc
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    InvalidReplyError,
    NotFoundError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, closed_port, make_certificate
from tests.unit.search_cluster import connection, error, http, replied, report, stats

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor

BASE = "https://cluster.example:9200"
HOT_THREADS = f"{BASE}/_nodes/hot_threads"
STATS = f"{BASE}/_nodes/stats/os,process"
PROBE = f"{BASE}/_nodes/_local/stats/os,process"
PROBED_THREADS = f"{BASE}/_nodes/_local/hot_threads"


@pytest.fixture
def connect(supervisor: Supervisor) -> Any:
    """Set the default connection."""

    def set_connection(host: str = BASE, **fields: Any) -> None:
        supervisor.connect("mediaops_cluster_default", connection(host, **fields))

    set_connection()
    return set_connection


@pytest.mark.usefixtures("connect")
class TestHotThreads:
    def test_the_text_is_exactly_what_the_cluster_sent(self, requests_mock: requests_mock.Mocker) -> None:
        body = report("Knoten-ü").encode() + b"\xff\r\n"
        requests_mock.get(HOT_THREADS, content=body, headers={"Content-Type": "application/json"})
        with SearchClusterHook() as hook:
            assert hook.hot_threads().encode("utf-8", "surrogateescape") == body

    def test_nodes_and_parameters_reach_the_cluster(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{BASE}/_nodes/a,b/hot_threads", text=report("a", "b"))
        with SearchClusterHook() as hook:
            hook.hot_threads(
                ["a", "b"],
                ignore_idle_threads=False,
                interval="1s",
                snapshots=5,
                threads=9,
                type="block",
                master_timeout="10s",
                timeout="20s",
            )
        request = requests_mock.last_request
        assert request is not None
        assert request.qs == {
            "ignore_idle_threads": ["false"],
            "interval": ["1s"],
            "snapshots": ["5"],
            "threads": ["9"],
            "type": ["block"],
            "master_timeout": ["10s"],
            "timeout": ["20s"],
        }

    def test_the_read_time_limit_is_that_of_the_query_where_the_connections_is_shorter(
        self, requests_mock: requests_mock.Mocker, connect: Any
    ) -> None:
        connect(timeout="3, 60")
        requests_mock.get(HOT_THREADS, text=report("a"))
        with SearchClusterHook() as hook:
            hook.hot_threads(interval="10s", snapshots=30)
        request = requests_mock.last_request
        assert request is not None
        limits: Any = request.timeout
        assert limits[0] == 3
        assert limits[1] > 300

    def test_a_report_gives_its_text_back(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(HOT_THREADS, text=report("a", "b"))
        with SearchClusterHook() as hook:
            read = hook.hot_threads_report(threads=3)
        assert [node.name for node in read.nodes] == ["a", "b"]
        assert read.render() == report("a", "b")

    def test_a_bad_argument_spends_no_request(self, requests_mock: requests_mock.Mocker) -> None:
        with SearchClusterHook() as hook, pytest.raises(ValueError, match="snapshots"):
            hook.hot_threads(snapshots=0)
        assert not requests_mock.called

    def test_a_node_that_does_not_exist_is_named(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{BASE}/_nodes/nobody/hot_threads", text="")
        with SearchClusterHook() as hook, pytest.raises(NotFoundError, match="'nobody'"):
            hook.hot_threads("nobody")

    def test_one_session_serves_all_calls(self, connect: Any) -> None:
        with Loopback(answering(http(replied(report("a"))))) as server:
            connect(server.base)
            with SearchClusterHook() as hook:
                for _ in range(3):
                    hook.hot_threads()
            assert server.accepted == 1


@pytest.mark.usefixtures("connect")
class TestCpu:
    def test_each_node_has_its_cpu_and_unknown_is_none(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(STATS, json=stats({"a": 12, "b": None}))
        with SearchClusterHook() as hook:
            assert [(node.name, node.percent) for node in hook.cpu()] == [("a", 12.0), ("b", None)]

    def test_nodes_that_failed_or_do_not_exist_are_in_the_log(
        self, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, SearchClusterHook)
        requests_mock.get(f"{BASE}/_nodes/a,c/stats/os,process", json=stats({"a": 12}, failures=("Failed node [b]",)))
        with SearchClusterHook() as hook:
            assert len(hook.cpu(["a", "c"])) == 1
        assert lines == [
            "WARNING: A node did not give its statistics: Failed node [b].",
            "WARNING: The search cluster knows no node c.",
        ]

    def test_another_host_takes_over(self, requests_mock: requests_mock.Mocker, connect: Any) -> None:
        connect("http://one.example:9200, http://two.example:9200", max_attempts=3)
        requests_mock.get("http://one.example:9200/_nodes/stats/os,process", exc=requests.ConnectionError)
        requests_mock.get("http://two.example:9200/_nodes/stats/os,process", json=stats({"a": 1}))
        with SearchClusterHook() as hook, pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.sleep", lambda _: None)
            hook.cpu()
            hook.cpu()
        hosts = [request.hostname for request in requests_mock.request_history]
        assert hosts == ["one.example", "two.example", "two.example"]

    def test_a_failing_cluster_is_asked_again(self, requests_mock: requests_mock.Mocker, connect: Any) -> None:
        connect(max_attempts=2)
        busy = {"status_code": 429, "json": error(429, "es_rejected_execution_exception", "queue is full")}
        requests_mock.get(STATS, [busy, {"json": stats({"a": 1})}])
        with SearchClusterHook() as hook, pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.sleep", lambda _: None)
            assert [node.name for node in hook.cpu()] == ["a"]


@pytest.mark.usefixtures("connect")
def test_a_capture_holds_both(requests_mock: requests_mock.Mocker) -> None:
    requests_mock.get(STATS, json=stats({"a": 91}))
    requests_mock.get(HOT_THREADS, text=report("a"))
    with SearchClusterHook() as hook:
        taken = hook.capture(threads=5)
    assert taken.text == report("a")
    assert taken.summary()["cpu"] == [{"node": "a", "percent": 91.0, "source": "os"}]
    request = requests_mock.last_request
    assert request is not None
    assert request.qs == {"threads": ["5"]}


class TestOnTheEventLoop:
    async def test_the_asynchronous_twins_do_the_same(self, connect: Any) -> None:
        seen: list[bytes] = []
        replies = [replied(report("a")), replied(report("a")), replied(stats({"a": 7})), replied(stats({"a": 7}))]
        serve = answering(*map(http, [*replies, replied(report("a"))]), seen=seen)
        with Loopback(serve) as server:
            connect(server.base)
            async with SearchClusterHook() as hook:
                text = await hook.ahot_threads("a", threads=4)
                read = await hook.ahot_threads_report()
                (node,) = await hook.acpu()
                taken = await hook.acapture(snapshots=2)
            assert server.accepted == 1
        assert text == read.render() == taken.text == report("a")
        assert (node.name, node.percent) == ("a", 7.0)
        assert [request.split()[1] for request in seen] == [
            b"/_nodes/a/hot_threads?threads=4",
            b"/_nodes/hot_threads",
            b"/_nodes/stats/os,process",
            b"/_nodes/stats/os,process",
            b"/_nodes/hot_threads?snapshots=2",
        ]

    async def test_errors_have_the_same_types(self, connect: Any) -> None:
        replies = [replied("Unauthorized", 401), replied("", 200), replied("", 503)]
        with Loopback(answering(*map(http, replies))) as server:
            connect(server.base)
            async with SearchClusterHook() as hook:
                with pytest.raises(AuthenticationError):
                    await hook.ahot_threads()
                with pytest.raises(NotFoundError):
                    await hook.ahot_threads("nobody")
                with pytest.raises(ServiceUnavailableError):
                    await hook.acpu()


class TestCredentials:
    @pytest.mark.parametrize(
        ("fields", "header"),
        [
            ({"login": "elastic", "password": "pass:word"}, b"Basic " + base64.b64encode(b"elastic:pass:word")),
            ({"login": "e", "password": "p", "auth": "basic"}, b"Basic " + base64.b64encode(b"e:p")),
            ({"password": "QUJDREVG", "auth": "api_key"}, b"ApiKey QUJDREVG"),
            ({"password": "token-1", "auth": "bearer"}, b"Bearer token-1"),
            ({"login": "e", "password": "p", "auth": "none"}, None),
            ({}, None),
        ],
    )
    def test_each_kind_of_authentication_sends_its_header(
        self, requests_mock: requests_mock.Mocker, connect: Any, fields: dict[str, Any], header: bytes | None
    ) -> None:
        connect(**fields)
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
            ({"auth": "bearer", "login": "x"}, "password"),
            ({"auth": "basic", "password": "secret-1"}, "login"),
            ({"verify": "perhaps"}, "verify"),
            ({"ca_cert": "/nowhere/ca.pem"}, "ca_cert"),
            ({"ca_cert": __file__}, "ca_cert"),
            ({"timeout": "soon"}, "timeout"),
            ({"max_report_mb": 0}, "max_report_mb"),
            ({"max_report_mb": 1.5}, "max_report_mb"),
            ({"max_report_mb": 4097}, "max_report_mb"),
            ({"host": "ftp://cluster.example"}, "host"),
            ({"host": ""}, "host"),
        ],
    )
    def test_a_field_that_cannot_be_used_is_named(self, connect: Any, fields: dict[str, Any], field: str) -> None:
        connect(**fields)
        with pytest.raises(InvalidConnectionError, match=f"field '{field}'") as caught, SearchClusterHook() as hook:
            hook.cpu()
        assert "secret-1" not in str(caught.value)


class TestTheButton:
    def test_a_node_that_failed_tells_no_secret(
        self, connect: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect(login="elastic", password="s3cr3t/k3y")
        lines = log_lines(monkeypatch, SearchClusterHook)
        requests_mock.get(STATS, json=stats({"a": 1}, failures=("refused s3cr3t%2fk3y",)))
        with SearchClusterHook() as hook:
            hook.cpu()
        assert len(lines) == 1
        assert "refused ***" in lines[0]

    def test_no_number_of_failures_fills_the_log(
        self, connect: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect(login="elastic", password="s3cr3t/k3y")
        lines = log_lines(monkeypatch, SearchClusterHook)
        requests_mock.get(STATS, json=stats({"a": 1}, failures=tuple(f"refused {number}" for number in range(5_000))))
        with SearchClusterHook() as hook:
            hook.cpu()
        assert len(lines) == 21
        assert "4980 more" in lines[-1]

    def test_a_clusters_name_of_any_length_makes_a_short_sentence(
        self, connect: Any, requests_mock: requests_mock.Mocker
    ) -> None:
        connect(login="elastic", password="s3cr3t/k3y")
        body = {**stats({"a": 1}), "cluster_name": f"s3cr3t&#47;k3y <b>{'x' * 5_000_000}"}
        requests_mock.get(PROBE, json=body)
        requests_mock.get(PROBED_THREADS, text=report("a"))
        worked, said = SearchClusterHook().test_connection()
        assert worked
        assert said.startswith("The search cluster '*** xxx")
        assert len(said) <= 1_000


class TestSize:
    """Real servers, for the limit holds for the bytes that are received."""

    @pytest.fixture
    def server(self) -> Any:
        with Loopback(answering(http(replied("::: {a}\n" + "x" * 1024 * 1024)))) as server:
            yield server

    def test_a_report_beyond_the_connection_s_limit_is_refused(self, server: Loopback, connect: Any) -> None:
        connect(server.base, max_report_mb=1)
        with SearchClusterHook() as hook, pytest.raises(InvalidReplyError, match="larger than 1,048,576 bytes"):
            hook.hot_threads()

    async def test_a_report_within_the_connection_s_limit_is_read(self, server: Loopback, connect: Any) -> None:
        connect(server.base, max_report_mb="2")
        async with SearchClusterHook() as hook:
            assert len((await hook.acapture()).text) > 1024 * 1024


class TestTrust:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Any:
        replies = (http(replied(stats({"a": 1}))), http(replied(report("a"))))
        with Loopback(answering(*replies), make_certificate(tmp_path)) as server:
            yield server

    def test_a_certificate_of_nobody_known_is_refused(self, server: Loopback, connect: Any) -> None:
        connect(server.base)
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert "certificate" in said

    async def test_a_refused_certificate_is_tried_once(self, server: Loopback, connect: Any) -> None:
        connect(server.base, max_attempts=5)
        with SearchClusterHook() as hook, pytest.raises(InvalidConnectionError, match="ca_cert"):
            hook.cpu()
        async with SearchClusterHook() as hook:
            with pytest.raises(InvalidConnectionError, match="ca_cert"):
                await hook.acpu()
        assert server.accepted == 2

    def test_the_given_authority_is_trusted(self, server: Loopback, connect: Any, tmp_path: Path) -> None:
        connect(server.base, ca_cert=str(tmp_path / "loopback.pem"))
        assert SearchClusterHook().test_connection()[0]

    def test_checking_can_be_turned_off(self, server: Loopback, connect: Any) -> None:
        connect(server.base, verify="false", ca_cert="/nowhere/ca.pem")
        with pytest.warns(Warning, match="certificate"):
            assert SearchClusterHook().test_connection()[0]

    async def test_the_event_loop_trusts_alike(self, server: Loopback, connect: Any, tmp_path: Path) -> None:
        connect(server.base, ca_cert=str(tmp_path / "loopback.pem"))
        async with SearchClusterHook() as hook:
            assert len(await hook.acpu()) == 1

    async def test_the_authority_is_loaded_once_until_its_file_changes(
        self, connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A trigger reads its connection again at each failing reading; loading takes tens of milliseconds."""
        certificate = make_certificate(tmp_path)
        loaded: list[threading.Thread] = []
        load = ssl.create_default_context

        def note(**paths: Any) -> ssl.SSLContext:
            loaded.append(threading.current_thread())
            return load(**paths)

        monkeypatch.setattr(ssl, "create_default_context", note)
        authority = tmp_path / "authority.pem"
        authority.write_bytes((tmp_path / "loopback.pem").read_bytes())
        with Loopback(answering(http(replied(stats({"a": 1})))), certificate) as server:
            connect(server.base, ca_cert=str(authority))
            for _ in range(3):
                async with SearchClusterHook() as hook:
                    await hook.acpu()
            assert len(loaded) == 1
            assert threading.current_thread() not in loaded
            authority.write_bytes(authority.read_bytes() + b"\n")
            async with SearchClusterHook() as hook:
                await hook.acpu()
            assert len(loaded) == 2


class TestSession:
    @pytest.fixture
    def server(self) -> Any:
        with Loopback(answering(http(replied(stats({"a": 1}))))) as server:
            yield server

    # An event loop that ends before its session was closed leaves the socket to the garbage collector, which warns.
    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    def test_each_event_loop_has_its_own(self, server: Loopback, connect: Any) -> None:
        connect(server.base)
        hook = SearchClusterHook()
        assert [len(asyncio.run(hook.acpu())) for _ in range(3)] == [1, 1, 1]
        del hook
        gc.collect()

    def test_closing_on_one_event_loop_leaves_that_of_another_open(self, server: Loopback, connect: Any) -> None:
        connect(server.base)

        async def read_twice() -> None:
            await hook.acpu()
            accepted = server.accepted

            def elsewhere() -> None:
                async def read() -> None:
                    async with hook:
                        await hook.acpu()

                asyncio.run(read())

            await asyncio.to_thread(elsewhere)
            assert server.accepted == accepted + 1
            await hook.acpu()
            assert server.accepted == accepted + 1
            await hook.aclose()

        hook = SearchClusterHook()
        asyncio.run(read_twice())

    def test_the_connection_of_a_hook_is_the_hook(self, server: Loopback, connect: Any) -> None:
        connect(server.base)
        with SearchClusterHook() as hook:
            assert hook.get_conn().cpu()[0].percent == 1
        connect("")
        with pytest.raises(InvalidConnectionError, match="host"):
            SearchClusterHook().get_conn()


class TestTestConnection:
    def test_a_base_address_with_the_path_of_the_nodes_in_it(
        self, connect: Any, requests_mock: requests_mock.Mocker
    ) -> None:
        connect(f"{BASE}/_nodes")
        body = {"error": "no handler found for uri [/_nodes/_nodes/_local/stats/os,process] and method [GET]"}
        requests_mock.get(f"{BASE}/_nodes/_nodes/_local/stats/os,process", status_code=400, json=body)
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert "answered GET /_nodes/_nodes/_local/stats/os,process with 400" in said
        assert "The base address in the connection ends in /_nodes, which is added to it: take /_nodes off." in said

    def test_a_working_connection(self, requests_mock: requests_mock.Mocker, connect: Any) -> None:
        connect(login="elastic", password="secret-1")
        requests_mock.get(PROBE, json=stats({"a": 1}))
        requests_mock.get(PROBED_THREADS, text=report("a"))
        worked, said = SearchClusterHook().test_connection()
        assert worked
        assert said == (
            "The search cluster 'docs' answers, accepts the credentials and lets them read the statistics and the hot "
            "threads of its nodes."
        )

    def test_a_missing_privilege_is_named(self, connect: Any, requests_mock: requests_mock.Mocker) -> None:
        connect(login="elastic", password="secret-1", max_attempts=5)
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
    def test_what_is_wrong_is_said_in_a_sentence_without_a_secret(
        self, requests_mock: requests_mock.Mocker, connect: Any, reply: dict[str, Any], words: list[str]
    ) -> None:
        connect(login="elastic", password="secret-1", max_attempts=5)
        requests_mock.get(PROBE, **reply)
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert all(word in said for word in words), said
        assert "secret-1" not in said
        assert requests_mock.call_count == 1

    def test_a_cluster_that_is_not_there(self, connect: Any) -> None:
        connect(f"http://127.0.0.1:{closed_port()}")
        worked, said = SearchClusterHook().test_connection()
        assert not worked
        assert "host and port" in said

    @pytest.mark.usefixtures("supervisor")
    def test_a_connection_that_does_not_exist(self) -> None:
        worked, said = SearchClusterHook("mediaops_cluster_nowhere").test_connection()
        assert not worked
        assert "mediaops_cluster_nowhere" in said
