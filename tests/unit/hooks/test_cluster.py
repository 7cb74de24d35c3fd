"""The hook of the search cluster, in its two forms: the requests, the results, the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import hot_threads, node_stats
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.exceptions import (
    InvalidConnectionError,
    InvalidReplyError,
    NotFoundError,
)
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.unit.hooks.cluster_hook import BASE, HOT_THREADS, STATS, cpu
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import COUNTERS, http, node_id, replied, report, stats

if TYPE_CHECKING:
    import requests_mock


@pytest.mark.usefixtures("connect_cluster")
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
        request = requests_mock.request_history[-1]
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
        self, requests_mock: requests_mock.Mocker, connect_cluster: Any
    ) -> None:
        connect_cluster(timeout="3, 60")
        requests_mock.get(HOT_THREADS, text=report("a"))
        with SearchClusterHook() as hook:
            hook.hot_threads(interval="10s", snapshots=30)
        request = requests_mock.request_history[-1]
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


@pytest.mark.usefixtures("connect_cluster")
class TestCpu:
    def test_each_node_has_its_cpu_and_unknown_is_none(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(STATS, json=stats({"a": 12, "b": None}))
        assert [(node.name, node.percent) for node in cpu()] == [("a", 12.0), ("b", None)]

    @pytest.mark.parametrize(("measure", "expected"), [("", (12.0, "os")), ("Process", (7.0, "process"))])
    def test_the_connection_chooses_the_measure(
        self, requests_mock: requests_mock.Mocker, connect_cluster: Any, measure: str, expected: tuple[float, str]
    ) -> None:
        connect_cluster(cpu_measure=measure)
        body = stats({"a": 12})
        body["nodes"][node_id("a")]["process"] = {"cpu": {"percent": 7}}
        requests_mock.get(STATS, json=body)
        (node,) = cpu()
        assert (node.percent, node.source) == expected

    def test_nodes_that_failed_or_do_not_exist_are_in_the_log(
        self, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, SearchClusterHook)
        requests_mock.get(f"{BASE}/_nodes/a,c/stats/os,process", json=stats({"a": 12}, failures=("Failed node [b]",)))
        assert len(cpu(["a", "c"])) == 1
        assert lines == [
            "WARNING: 1 node did not give the statistics: Failed node [b].",
            "WARNING: The search cluster knows no node c.",
        ]


@pytest.mark.usefixtures("connect_cluster")
def test_a_capture_holds_both(requests_mock: requests_mock.Mocker) -> None:
    requests_mock.get(STATS, json=stats({"a": 91}))
    requests_mock.get(HOT_THREADS, text=report("a"))
    requests_mock.get(COUNTERS, json={"nodes": {"a": {"thread_pool": {"search": {"queue": 7}}}}})
    with SearchClusterHook() as hook:
        taken = hook.capture(threads=5)
    assert taken.text == report("a")
    assert taken.summary()["cpu"] == [{"node": "a", "percent": 91.0, "source": "os"}]
    (statistics,) = taken.statistics or ()
    assert statistics["pools"] == [{"pool": "search", "active": 0, "queue": 7, "rejected": 0}]
    assert requests_mock.request_history[1].qs == {"threads": ["5"]}


class TestOnTheEventLoop:
    async def test_call_flows_share_one_session(self, connect_cluster: Any) -> None:
        replies = [replied(report("a")), replied(stats({"a": 7}))]
        with Loopback(answering(*map(http, replies))) as server:
            connect_cluster(server.base)
            with SearchClusterHook() as hook:
                text = await hook.arun(hook.asking(hot_threads(HotThreadsQuery(snapshots=2))))
                (node,) = (await hook.arun(hook.asking(node_stats(None)))).nodes
            assert server.accepted == 1
        assert text == report("a")
        assert (node.name, node.percent) == ("a", 7.0)


class TestFailures:
    def test_a_node_that_failed_tells_no_secret(
        self, connect_cluster: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect_cluster(login="elastic", password="s3cr3t/k3y")
        lines = log_lines(monkeypatch, SearchClusterHook)
        requests_mock.get(STATS, json=stats({"a": 1}, failures=("refused s3cr3t%2fk3y",)))
        cpu()
        assert len(lines) == 1
        assert "refused ***" in lines[0]

    def test_no_number_of_failures_fills_the_log(
        self, connect_cluster: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect_cluster(login="elastic", password="s3cr3t/k3y")
        lines = log_lines(monkeypatch, SearchClusterHook)
        requests_mock.get(STATS, json=stats({"a": 1}, failures=tuple(f"refused {number}" for number in range(5_000))))
        cpu()
        (line,) = lines
        assert line.startswith("WARNING: 5,000 nodes did not give the statistics: refused 0; ")
        assert line.endswith("refused 19; 4980 more.")


class TestSize:
    """Real servers, for the limit holds for the bytes that are received."""

    @pytest.fixture
    def server(self) -> Any:
        with Loopback(answering(http(replied("::: {a}\n" + "x" * 1024 * 1024)))) as server:
            yield server

    def test_a_report_beyond_the_connection_s_limit_is_refused(self, server: Loopback, connect_cluster: Any) -> None:
        connect_cluster(server.base, max_report_mb=1)
        with SearchClusterHook() as hook, pytest.raises(InvalidReplyError, match="larger than 1,048,576 bytes"):
            hook.hot_threads()

    def test_a_report_within_the_connection_s_limit_is_read(self, server: Loopback, connect_cluster: Any) -> None:
        connect_cluster(server.base, max_report_mb="2")
        with SearchClusterHook() as hook:
            assert len(hook.capture().text) > 1024 * 1024


class TestSession:
    @pytest.fixture
    def server(self) -> Any:
        with Loopback(answering(http(replied(stats({"a": 1}))))) as server:
            yield server

    def test_the_connection_of_a_hook_is_the_hook(self, server: Loopback, connect_cluster: Any) -> None:
        connect_cluster(server.base)
        with SearchClusterHook() as hook:
            assert hook.get_conn().cpu()[0].percent == 1
        connect_cluster("")
        with pytest.raises(InvalidConnectionError, match="host"):
            SearchClusterHook().get_conn()
