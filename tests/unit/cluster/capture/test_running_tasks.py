"""Captures with what the nodes ran meanwhile: how they are taken, written, logged and summarized."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import CLUSTER_RULES
from airflow_provider_mediaops.cluster.capture.model import Capture, take_capture
from airflow_provider_mediaops.cluster.capture.summary import bounded
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, RunningTasks, TaskGroup
from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampler, task_sampler
from airflow_provider_mediaops.exceptions import InvalidArgumentError, ServiceUnavailableError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Beside, Blocking, Failure, Returned, TransportError, advance
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import FakeClock, replay, requests_of
from tests.unit.search_cluster import error, node_id, replied, report, stats
from tests.unit.task_replies import BULK, listed, pools, shards, task_list

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response, Step

READING, REPORT = replied(stats({"node-1": 95})), replied(report("node-1"))
POOLS, SHARDS = replied(pools()), replied(shards(orders=5))
LIST = replied(task_list(listed(1, 0, action=BULK, opaque_id="logstash")))
FORBIDDEN = replied(error(403, "security_exception", "no permissions"), 403)
QUICK = HotThreadsQuery(interval="20ms", snapshots=1)


def taken(*replies: Response | TransportError, steps: list[Step] | None = None) -> Capture:
    """Take a capture of a cluster that answers this; the looks at tasks come before the report."""
    client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1))
    sampler = TaskSampler(client.ask, FakeClock().clock)
    return replay(take_capture(client.ask, QUICK, sampler=sampler), replies, steps=steps)


class TestTaking:
    def test_the_tasks_are_listed_beside_the_report(self) -> None:
        steps: list[Step] = []
        capture = taken(READING, POOLS, LIST, SHARDS, LIST, SHARDS, LIST, REPORT, steps=steps)
        paths = [request.path for request in requests_of(steps)]
        assert paths[0].endswith("/stats/os,process")
        assert (paths.count("/_tasks"), paths[-1]) == (3, "/_nodes/hot_threads")
        assert capture.running_tasks is not None
        (node,) = capture.running_tasks.nodes
        assert (node.node_id, node.groups[0].opaque_id) == (node_id("node-1"), "logstash")
        assert capture.warnings() == []

    def test_the_report_waits_for_them_for_ten_milliseconds(self) -> None:
        client = Client(("https://cluster.example",), CLUSTER_RULES)
        taking = take_capture(client.ask, QUICK, sampler=TaskSampler(client.ask, FakeClock().clock))
        next(taking)
        step = taking.send(READING)
        assert isinstance(step, Beside)
        assert step.grace_seconds == 0.01
        taking.close()

    @pytest.mark.parametrize("refusal", [FORBIDDEN, replied("<html>", 502), TransportError(Failure.BROKEN, "broke")])
    def test_a_cluster_that_says_nothing_of_tasks_is_captured(self, refusal: Any) -> None:
        lists = 1 if refusal is FORBIDDEN else 3
        capture = taken(READING, refusal, *[refusal] * lists, REPORT)
        assert capture.text == report("node-1")
        assert capture.running_tasks is not None
        assert capture.running_tasks.nodes[0].groups == ()
        # Once in the log, and not as a remark of the capture itself, beside which the page shows them.
        assert capture.warnings() == list(capture.running_tasks.remarks)
        assert capture.all_remarks == ()

    def test_an_error_of_the_report_stays_one(self) -> None:
        down = replied(error(503, "master_not_discovered_exception", "no master"), 503)
        with pytest.raises(ServiceUnavailableError):
            taken(READING, POOLS, LIST, SHARDS, LIST, SHARDS, LIST, down)

    def test_a_defect_beside_the_report_costs_nothing(self) -> None:
        client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1))
        taking = take_capture(client.ask, QUICK, sampler=TaskSampler(client.ask, FakeClock().clock))
        next(taking)
        taking.send(READING)
        # What a driver sends if the call flow beside has raised.
        step = advance(taking, (report("node-1"), KeyError("secret")))
        while isinstance(step, Blocking):
            step = advance(taking, step.action())
        assert isinstance(step, Returned)
        capture = step.value
        assert capture.warnings() == ["The tasks were not listed to the end, because of a fault (KeyError)."]

    def test_without_tasks_there_is_nothing_to_look_with(self) -> None:
        client = Client(("https://cluster.example",), CLUSTER_RULES)
        clock = FakeClock().clock
        assert task_sampler(client.ask, clock, running_tasks=False, show_queries=False) is None
        assert task_sampler(client.ask, clock, running_tasks=True, show_queries=True) is not None
        with pytest.raises(InvalidArgumentError, match="give running_tasks=True"):
            task_sampler(client.ask, clock, running_tasks=False, show_queries=True)


def with_groups(name: str, *, nodes: int = 3) -> Capture:
    """Give a capture of nodes with many groups, each heavier than the one before."""
    named = [f"{name}{number}" for number in range(nodes)]
    groups = tuple(
        TaskGroup(action=name, opaque_id=f"{place}{name}", index=name, shape=name, running=place, cpu_ms=float(place))
        for place in range(20)
    )
    tasks = RunningTasks(nodes=tuple(NodeTasks(node_id=node, node=node, groups=groups) for node in named))
    reading = NodeStats.read(stats(dict.fromkeys(named, 95.0)))
    return Capture(report(*named), None, reading, running_tasks=tasks)


class TestSummary:
    def test_summary_has_the_five_heaviest_groups_without_their_queries(self) -> None:
        summary = with_groups("n").summary()
        assert [(group["opaque_id"], group["running"]) for group in summary["groups"]] == [
            *[("19n", 19)] * 3,
            *[("18n", 18)] * 2,
        ]
        names = {"node", "action", "opaque_id", "index", "seen", "running", "longest_ms", "cpu_share_percent"}
        assert set(summary["groups"][0]) == names

    def test_without_tasks_it_is_as_it_was(self) -> None:
        assert "groups" not in Capture(report("n")).summary()

    @pytest.mark.parametrize("name", ["n", "ü" * 300, "\U0001f600" * 300, "\0\udc80" * 300])
    def test_its_size_is_bounded_whatever_the_names_are(self, name: str) -> None:
        summary = with_groups(name, nodes=60).summary()
        assert len(json.dumps(summary)) < 16_000
        assert summary["groups"]
        series = bounded([{"paths": {}, **summary}] * 50, [])
        assert len(json.dumps(series)) < 48_000


def test_the_tasks_come_before_the_nodes_in_the_json_file() -> None:
    capture = with_groups("n")
    written = json.loads(capture.content("json"))
    assert list(written) == ["capture", "running_tasks", "kinds", "nodes", "unparsed"]
    assert RunningTasks.from_dict(written["running_tasks"]) == capture.running_tasks
    assert "running_tasks" not in json.loads(Capture(report("n")).content("json"))
