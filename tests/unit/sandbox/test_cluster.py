"""The cluster's operations: with which parameters, what CPU they show, and which tasks use it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.cluster_nodes import CpuPin
from tests.unit.sandbox.conftest import OPERATOR, Sandbox

if TYPE_CHECKING:
    import httpx


async def ask(sandbox: Sandbox, path: str, **query: Any) -> httpx.Response:
    return await sandbox.get(f"/cluster{path}", params=query or None, auth=OPERATOR)


def error_of(reply: httpx.Response) -> tuple[int, str, str]:
    body = reply.json()
    assert body["status"] == reply.status_code
    assert body["error"]["root_cause"] == [{name: body["error"][name] for name in ("type", "reason")}]
    assert body["error"].keys() == {"root_cause", "type", "reason"}
    return reply.status_code, body["error"]["type"], body["error"]["reason"]


async def cpu(sandbox: Sandbox) -> dict[str, tuple[int, int]]:
    nodes = (await ask(sandbox, "/_nodes/stats/os,process")).json()["nodes"].values()
    return {node["name"]: (node["os"]["cpu"]["percent"], node["process"]["cpu"]["percent"]) for node in nodes}


async def test_a_sampling_longer_than_the_timeout_fails(sandbox: Sandbox) -> None:
    reply = await ask(sandbox, "/_nodes/sandbox-2/hot_threads", interval="2s", timeout="1500ms")

    status, type_, reason = error_of(reply)
    assert (status, type_) == (503, "receive_timeout_transport_exception")
    assert "sandbox-2" in reason
    assert "[1500ms]" in reason
    assert sandbox.clock.naps == [1.5]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        *((f"hot_threads?interval={time}", "interval: ") for time in ("500", "5w", "-5s", "1.5s", "0ms")),
        ("hot_threads?ignore_idle_threads=True", "ignore_idle_threads: "),
        ("hot_threads?type=gpu", "type: "),
        ("hot_threads?Interval=1s", "request contains unrecognized parameter: [Interval]"),
        ("stats/os,fs", "[fs]"),
        ("stats/os?level=planet", "level: "),
    ],
)
async def test_a_wrong_or_unknown_parameter_is_refused(sandbox: Sandbox, request_: str, words: str) -> None:
    status, type_, reason = error_of(await ask(sandbox, f"/_nodes/{request_}"))

    assert (status, type_) == (400, "illegal_argument_exception")
    assert words in reason


@pytest.mark.parametrize("cycle", [40, 10])
async def test_one_node_spikes_once_a_cycle_and_the_others_stay_calm(cycle: int) -> None:
    sandbox, readings = Sandbox(cpu_cycle=cycle), []
    for _ in range(80):
        readings.append(await cpu(sandbox))
        sandbox.clock.seconds += cycle / 80

    hot = [reading["sandbox-2"][0] > 90 for reading in readings]
    assert 20 <= sum(hot) <= 24
    assert sum(before != after for before, after in itertools.pairwise(hot)) == 2
    assert not hot[0]
    assert max(reading[name][0] for reading in readings for name in ("sandbox-1", "sandbox-3")) < 50
    assert all(0 <= figure <= 100 for reading in readings for pair in reading.values() for figure in pair)


async def test_the_cpu_of_the_hottest_thread_is_that_of_a_search(sandbox: Sandbox) -> None:
    async def search_cpu() -> int:
        node = (await ask(sandbox, "/_tasks", detailed="true", nodes="sandbox-2")).json()["nodes"]
        (tasks,) = [each["tasks"].values() for each in node.values()]
        (search,) = [task for task in tasks if "read/search" in task["action"]]
        return int(search["resource_stats"]["total"]["cpu_time_in_nanos"])

    sandbox.state.cluster.pin(CpuPin(node=None, percent=80))
    before = await search_cpu()
    sandbox.clock.seconds += 0.5

    assert await search_cpu() - before == pytest.approx(400e6, abs=1e5)
    report = (await ask(sandbox, "/_nodes/sandbox-2/hot_threads")).text
    assert "80.0% (400ms out of 500ms) cpu usage by thread 'opensearch[sandbox-2][search][T#5]'" in report
