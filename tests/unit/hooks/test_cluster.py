"""The hook of the search cluster: its requests and results, and what its connection says of credentials and trust."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.exceptions import InvalidConnectionError, InvalidReplyError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.http.exchange import Request
from tests.unit.hooks.cluster_hook import BASE, HOT_THREADS, STATS, cpu
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, make_certificate
from tests.unit.search_cluster import http, node_id, replied, report, stats

if TYPE_CHECKING:
    import requests_mock

    from airflow_provider_mediaops.http.exchange import CallFlow, Response


pytestmark = pytest.mark.usefixtures("connect_cluster")


def test_report_is_exactly_what_the_cluster_sent(requests_mock: requests_mock.Mocker) -> None:
    body = report("Knoten-ü", "b").encode() + b"\xff\r\n"
    requests_mock.get(HOT_THREADS, content=body, headers={"Content-Type": "application/json"})
    with SearchClusterHook() as hook:
        assert hook.hot_threads().encode("utf-8", "surrogateescape") == body
        read = hook.hot_threads_report(threads=3)
    assert [node.name for node in read.nodes] == ["Knoten-ü", "b"]
    assert read.render().encode("utf-8", "surrogateescape") == body


@pytest.mark.parametrize(("measure", "expected"), [("", (12.0, "os")), ("Process", (7.0, "process"))])
def test_connection_chooses_the_measure_of_the_cpu(
    requests_mock: requests_mock.Mocker, connect_cluster: Any, measure: str, expected: tuple[float, str]
) -> None:
    connect_cluster(cpu_measure=measure)
    body = stats({"a": 12})
    body["nodes"][node_id("a")]["process"] = {"cpu": {"percent": 7}}
    requests_mock.get(STATS, json=body)
    (node,) = cpu()
    assert (node.percent, node.source) == expected


def test_failed_nodes_are_in_the_log_without_secrets_and_few_of_many(
    connect_cluster: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_cluster(login="elastic", password="s3cr3t/k3y")
    lines = log_lines(monkeypatch, SearchClusterHook)
    failures = tuple(f"refused {number} s3cr3t%2fk3y" for number in range(5_000))
    requests_mock.get(f"{BASE}/_nodes/a,c/stats/os,process", json=stats({"a": 12}, failures=failures))
    assert len(cpu(["a", "c"])) == 1
    failed, unknown = lines
    assert failed.startswith("WARNING: 5,000 nodes did not give the statistics: refused 0 ***; ")
    assert failed.endswith("refused 19 ***.")
    assert unknown == "WARNING: The search cluster knows no node c."


@pytest.mark.parametrize(("limit_mb", "is_read"), [(1, False), ("2", True)])
def test_report_beyond_the_limit_of_the_connection_is_refused(
    connect_cluster: Any, limit_mb: object, *, is_read: bool
) -> None:
    """Over a real server, for the limit holds for the bytes that are received."""
    text = "::: {a}\n" + "x" * 1024 * 1024
    with Loopback(answering(http(replied(text)))) as server, SearchClusterHook() as hook:
        connect_cluster(server.base, max_report_mb=limit_mb)
        if is_read:
            assert hook.hot_threads() == text
        else:
            with pytest.raises(InvalidReplyError, match="larger than 1,048,576 bytes"):
                hook.hot_threads()


def test_the_connection_of_a_hook_is_the_hook(connect_cluster: Any, requests_mock: requests_mock.Mocker) -> None:
    requests_mock.get(STATS, json=stats({"a": 1}))
    with SearchClusterHook() as hook:
        assert hook.get_conn().cpu()[0].percent == 1
    connect_cluster("")
    with pytest.raises(InvalidConnectionError, match="host"):
        SearchClusterHook().get_conn()


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
    requests_mock: requests_mock.Mocker, connect_cluster: Any, fields: dict[str, Any], header: bytes | None
) -> None:
    connect_cluster(**fields)
    requests_mock.get(STATS, json=stats({"a": 1}))
    cpu()
    request = requests_mock.request_history[-1]
    assert request.headers.get("Authorization") == (header.decode() if header else None)


def test_check_of_the_certificate_can_be_turned_off(connect_cluster: Any, tmp_path: Path) -> None:
    with Loopback(answering(http(replied(stats({"a": 1})))), make_certificate(tmp_path)) as server:
        connect_cluster(server.base, verify="false", ca_cert="/nowhere/ca.pem")
        with pytest.warns(Warning, match="certificate"):
            assert cpu()


def test_event_loop_sends_while_a_thread_masks_the_secrets_of_an_edited_connection(
    requests_mock: requests_mock.Mocker, connect_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a triggerer, the answer that the thread waits for comes on the event loop."""
    requests_mock.get(STATS, json=stats({"a": 91}))
    masking, answered = threading.Event(), threading.Event()

    def mask(_: str) -> None:
        masking.set()
        assert answered.wait(60), "the event loop has stood still"

    def reply() -> CallFlow[Response]:
        response: Response = yield Request("GET", "/_nodes/stats/os,process", base=BASE)
        return response

    async def edit() -> int:
        hook = SearchClusterHook()
        await hook.arun(hook.asking(node_stats(None)))
        monkeypatch.setattr(SearchClusterHook, "_mask", staticmethod(mask))
        connect_cluster(headers={"X-Api-Key": "a new secret"})
        hook.read_connection_first()
        reading = asyncio.ensure_future(hook.arun(hook.reading(lambda ask: ask(node_stats(None)), time.monotonic)))
        await asyncio.get_running_loop().run_in_executor(None, masking.wait, 60)
        status = (await hook.arun(reply())).status
        answered.set()
        await reading
        hook.close()
        return status

    assert asyncio.run(asyncio.wait_for(edit(), 120)) == 200
