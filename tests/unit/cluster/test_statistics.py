"""The statistics beside a capture: heap, collectors, thread pools, throttling, and where people see them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.capture.summary import hottest_sentence
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.cluster.page.document import page
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.cluster.statistics import NodeStatistics, alarms, read_statistics, statistics_of
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, TransportError, Wait
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import FakeClock, replay, requests_of
from tests.unit.cluster.made_pages import words_of
from tests.unit.search_cluster import error, replied, report

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Step

HOUR = 3_600_000
GB = 1024**3


def node(
    *,
    at: int = 0,
    collected: int = 0,
    queue: int = 0,
    rejected: int = 0,
    periods: int = 0,
    throttled: int = 0,
    name: str = "data-1",
) -> dict[str, Any]:
    """Return the statistics of a node that is up for an hour and so many milliseconds."""
    young = {"collection_count": 40 + at // 100, "collection_time_in_millis": 36_000 + collected}
    stat = {"number_of_elapsed_periods": 1_000 + periods, "number_of_times_throttled": 10 + throttled}
    return {
        "name": name,
        "os": {"cgroup": {"cpu": {"cfs_period_micros": 100_000, "cfs_quota_micros": 200_000, "stat": stat}}},
        "jvm": {
            "timestamp": 1_700_000_000_000 + at,
            "uptime_in_millis": HOUR + at,
            "mem": {"heap_used_in_bytes": 3 * GB, "heap_used_percent": 75, "heap_max_in_bytes": 4 * GB},
            "gc": {"collectors": {"young": young, "ZGC Cycles": {"collection_time_in_millis": 9 * HOUR}}},
        },
        "thread_pool": {
            "search": {"active": 13, "queue": queue, "rejected": 5 + rejected},
            "get": {"active": 0, "queue": 0, "rejected": 0},
        },
    }


def between(after: dict[str, Any], before: dict[str, Any] | None = None) -> NodeStatistics:
    """Return the statistics of a node by two readings."""
    (found,) = statistics_of({"a": after}, {"a": node() if before is None else before})
    return found


BUSY = between(node(at=2_000, collected=820, queue=1_000, rejected=17, periods=20, throttled=19))


class TestFigures:
    def test_counters_are_the_differences_of_two_readings(self) -> None:
        assert BUSY == {
            "node_id": "a",
            "node": "data-1",
            "seconds": 2.0,
            "heap": {"used_bytes": 3 * GB, "max_bytes": 4 * GB, "used_percent": 75.0},
            "collector": {"collections": 20, "milliseconds": 820.0, "share_percent": 41.0},
            "pools": [{"pool": "search", "active": 13, "queue": 1_000, "rejected": 17}],
            "throttling": {"periods": 20, "throttled": 19},
        }

    @pytest.mark.parametrize(
        "before",
        [
            {},
            pytest.param(node(at=2_000), id="the server's figures of the same moment"),
            pytest.param({**node(), "jvm": {**node()["jvm"], "uptime_in_millis": 9 * HOUR}}, id="a restart since"),
        ],
    )
    def test_without_an_earlier_reading_of_this_start_they_are_since_the_start(self, before: dict[str, Any]) -> None:
        found = between(node(at=2_000, rejected=17), before)
        assert found["seconds"] is None
        assert found["collector"] == {"collections": 60, "milliseconds": 36_000.0, "share_percent": 1.0}
        assert found["pools"] == [{"pool": "search", "active": 13, "queue": 0, "rejected": 22}]
        assert found["throttling"] == {"periods": 1_000, "throttled": 10}

    def test_container_without_a_limit_is_not_throttled(self) -> None:
        unlimited = {"cpu": {"cfs_quota_micros": -1, "stat": {"number_of_elapsed_periods": 0}}}
        assert between({**node(), "os": {"cgroup": unlimited}})["throttling"] is None

    def test_heap_of_a_version_without_the_percentage_is_computed(self) -> None:
        memory = {"heap_used_in_bytes": 3 * GB, "heap_max_in_bytes": 4 * GB}
        heap = between({"jvm": {"mem": memory}})["heap"]
        assert heap is not None
        assert heap["used_percent"] == 75.0

    @pytest.mark.parametrize("value", [None, [], "x", -1, float("nan"), 1e300, {"x": []}, True])
    def test_strange_values_are_left_out(self, value: object) -> None:
        for broken in (
            {"jvm": value, "thread_pool": value, "os": value},
            {"name": value, "jvm": {"mem": value, "gc": {"collectors": {"young": value}}, "timestamp": value}},
            {"thread_pool": {"search": value}, "os": {"cgroup": {"cpu": value}}},
        ):
            assert statistics_of({"a": broken}, {"a": broken}) == ()
        assert statistics_of({"a": value}, {"a": value}) == ()

    def test_pool_that_is_new_has_refused_nothing_in_the_period(self) -> None:
        found = between({**node(at=2_000), "thread_pool": {"new": {"queue": 1, "rejected": 9}}})
        assert found["pools"] == [{"pool": "new", "active": 0, "queue": 1, "rejected": 0}]

    def test_fullest_heap_comes_first(self) -> None:
        full = node(name="full")
        full["jvm"]["mem"]["heap_used_percent"] = 97
        assert [found["node"] for found in statistics_of({"a": node(), "b": full}, {})] == ["full", "data-1"]


class TestAlarms:
    def test_hot_collector_and_full_queue_are_said(self) -> None:
        assert alarms([BUSY]) == [
            "data-1: garbage collection took 41 % of 2.0 s",
            "data-1: the queue of search is full, 17 rejected in 2.0 s",
        ]

    def test_long_queue_that_has_refused_nothing_is_said_with_its_length(self) -> None:
        assert alarms([between(node(at=2_000, queue=1_000))]) == ["data-1: 1,000 tasks wait in the queue of search"]

    @pytest.mark.parametrize(
        ("after", "before"),
        [
            pytest.param(node(at=2_000, collected=480, queue=999), node(), id="below each limit"),
            pytest.param(node(at=2_000, collected=3_000_000, rejected=900), {}, id="long ago"),
        ],
    )
    def test_modest_figures_and_those_of_long_ago_are_not(self, after: dict[str, Any], before: dict[str, Any]) -> None:
        assert alarms([between(after, before)]) == []

    def test_names_of_a_cluster_are_shown_as_text_and_few_of_many(self) -> None:
        hot = {f"n{n}": node(at=2_000, collected=820, name=f"n\n{n}") for n in range(9)}
        found = alarms(statistics_of(hot, {name: node() for name in hot}))
        assert found[0] == r"n\n0: garbage collection took 41 % of 2.0 s"
        assert found[3:] == ["6 more nodes or thread pools"]


def asked(*replies: Any) -> tuple[Any, list[Step]]:
    """Return the statistics at a cluster that gives these replies, and the steps to them."""
    steps: list[Step] = []
    clock = FakeClock()
    client = Client(("https://c.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=3), clock=clock.clock)
    query = HotThreadsQuery(nodes=["data-1", "data-2"])
    return replay(read_statistics(client.ask, query), replies, steps=steps, clock=clock), steps


class TestRequests:
    def test_nodes_are_asked_twice_more_than_a_second_apart(self) -> None:
        found, steps = asked(
            replied({"nodes": {"a": node()}}), replied({"nodes": {"a": node(at=1_100, collected=550)}})
        )
        assert [request.path for request in requests_of(steps)] == [
            "/_nodes/data-1,data-2/stats/os,jvm,thread_pool"
        ] * 2
        assert [step.seconds > 1 for step in steps if isinstance(step, Wait)] == [True]
        assert (found[0]["seconds"], found[0]["collector"]["share_percent"]) == (1.1, 50.0)

    @pytest.mark.parametrize(
        "failure",
        [
            replied(error(403, "security_exception", "no"), 403),
            TransportError(Failure.BROKEN, "the connection broke"),
            replied("<html>"),
        ],
    )
    def test_failure_is_neither_raised_nor_retried(self, failure: Any) -> None:
        found, steps = asked(failure)
        assert (found, len(requests_of(steps))) == (None, 1)
        found, steps = asked(replied({"nodes": {"a": node()}}), failure)
        assert len(requests_of(steps)) == 2
        assert found[0]["seconds"] is None

    def test_cluster_without_these_figures_is_asked_once(self) -> None:
        found, steps = asked(replied({"nodes": {"a": {"name": "data-1"}}}))
        assert (found, len(requests_of(steps))) == (None, 1)


def shown(*statistics: NodeStatistics) -> str:
    """Return the words of a page with such statistics."""
    return words_of(page([Capture(report("data-1"), statistics=statistics)], title="T"))


class TestShown:
    def test_log_line_and_page_begin_with_the_alarms(self) -> None:
        capture = Capture(report("data-1"), statistics=(BUSY,))
        assert hottest_sentence(capture).startswith(
            "data-1: garbage collection took 41 % of 2.0 s; data-1: the queue of search is full, 17 rejected in 2.0 s; "
            "hottest: 97.5 % "
        )
        sentences = "T data-1: garbage collection took 41 % of 2.0 s. data-1: the queue of search is full, 17 rejected"
        assert sentences in shown(BUSY)

    def test_page_has_a_row_for_each_node(self) -> None:
        table = shown(BUSY).partition("Heap, garbage collection and thread pools, by node")[2]
        assert table.startswith(
            " Node Heap Collector Queues Rejected Throttled data-1 75 % of 4.0 GB 41.0 % 20 collections, "
            "0.8 s in 2.0 s search 1,000 search 17 in 2.0 s 19 of 20 periods in 2.0 s"
        )

    def test_page_says_which_figures_are_since_the_start_of_a_node(self) -> None:
        assert "1.0 % 40 collections, 36.0 s since its start 0 search 5 since its start" in shown(between(node(), {}))

    def test_page_of_several_captures_names_the_capture(self) -> None:
        captures = [Capture(report("data-1"), statistics=statistics) for statistics in ((BUSY,), None)]
        words = words_of(page(captures, title="T"))
        assert "T 1 · 20:00:00: data-1: garbage collection took 41 %" in words
        assert "Node Capture Heap Collector Queues Rejected Throttled data-1 1 · 20:00:00 75 %" in words

    def test_json_has_them_before_the_kinds(self) -> None:
        written = json.loads(Capture(report("data-1"), statistics=(BUSY,)).content("json"))
        assert list(written) == ["capture", "statistics", "kinds", "nodes", "unparsed"]
        assert written["statistics"] == [BUSY]
