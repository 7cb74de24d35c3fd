"""The CPU of a node by machine, process and container: which versions give which, and which one counts."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from airflow_provider_mediaops.cluster.api import CLUSTER_RULES, measuring, node_stats
from airflow_provider_mediaops.cluster.cpu_measure import CgroupUse, CpuMeasure, measured
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.exceptions import ServiceUnavailableError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import FakeClock, pauses_of, replay, requests_of
from tests.unit.search_cluster import error, node_id, replied, stats

# As public threads show them.
ES_1 = {
    "os": {
        "timestamp": 1,
        "load_average": [7.6, 6.1, 5.0],
        "cpu": {"sys": 4, "user": 17, "idle": 78, "usage": 21, "stolen": 0},
    },
    "process": {"cpu": {"percent": 340, "sys_in_millis": 1, "user_in_millis": 2, "total_in_millis": 3}},
}
ES_2 = {
    "os": {"timestamp": 1, "cpu_percent": 96, "load_average": 7.6},
    "process": {"cpu": {"percent": 12, "total_in_millis": 13_610}},
}
#: The machine at rest, and the container in it at its limit.
THROTTLED = {"os": {"cpu": {"percent": 6}}, "process": {"cpu": {"percent": 98}}}
QUOTA, PERIOD = 200_000, 100_000
#: What 64 cores use in 200 days, in nanoseconds.
MONTHS = 64 * 200 * 86_400 * 1e9


def contained(
    at_ms: float,
    used_ns: float,
    *,
    own_ms: float = 500.0,
    quota: int = QUOTA,
    machine: float = 6,
    process: float = 5,
) -> dict[str, Any]:
    """Give the statistics of a node in a container: two cores of a large machine."""
    return {
        "name": "node-1",
        "os": {
            "timestamp": at_ms,
            "cpu": {"percent": machine},
            "cgroup": {
                "cpuacct": {"usage_nanos": used_ns},
                "cpu": {"cfs_period_micros": PERIOD, "cfs_quota_micros": quota},
            },
        },
        "process": {"cpu": {"percent": process, "total_in_millis": own_ms}},
    }


def between(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Give the used share of the limit between two readings."""
    use = CgroupUse.read(after)
    return use.percent_since(CgroupUse.read(before)) if use else None


class TestVersions:
    @pytest.mark.parametrize(
        ("node", "percent", "source"),
        [
            pytest.param(ES_1, 21.0, "os", id="elasticsearch-1"),
            pytest.param(ES_2, 96.0, "os", id="elasticsearch-2"),
            pytest.param(THROTTLED, 98.0, "process", id="container"),
            ({"os": {"cpu": {"percent": 42}}, "process": {"cpu": {"percent": 7}}}, 42.0, "os"),
            ({"os": {"cpu": {"percent": 7}}, "process": {"cpu": {"percent": 7}}}, 7.0, "os"),
            ({"os": {"cpu": {"percent": 0}}, "process": {"cpu": {"percent": 0}}}, 0.0, "os"),
            ({"os": {"cpu": {"percent": -1}}, "process": {"cpu": {"percent": 7}}}, 7.0, "process"),
            ({"os": {"timestamp": 1}, "process": {"cpu": {"percent": 99.5}}}, 99.5, "process"),
            ({"os": None, "process": {"cpu": {"percent": -1}}}, None, None),
            ({"os": {"cpu": {"percent": "12"}}, "process": {"cpu": {"percent": True}}}, None, None),
            ({"os": {"cpu": {"percent": float("nan")}}, "process": {"cpu": {"percent": 10**400}}}, None, None),
            ({"os": {"cpu": {"percent": 340}}, "process": {"cpu": {"percent": 340}}}, None, None),
            ({"os": [], "process": "busy"}, None, None),
        ],
    )
    def test_auto_takes_the_highest_that_is_known(
        self, node: dict[str, Any], percent: float | None, source: str | None
    ) -> None:
        assert measured(node, "auto") == (percent, source)

    @pytest.mark.parametrize(
        ("node", "wanted", "percent"),
        [
            (THROTTLED, "os", 6.0),
            (THROTTLED, "process", 98.0),
            (THROTTLED, "cgroup", None),
            (ES_2, "process", 12.0),
            (ES_1, "os", 21.0),
            # It counts each core, and the number of cores is not known.
            (ES_1, "process", None),
            ({"process": {"cpu": {"percent": 98, "sys_in_millis": 1}}}, "process", None),
        ],
    )
    def test_another_measure_is_no_other(self, node: dict[str, Any], wanted: CpuMeasure, percent: float | None) -> None:
        assert measured(node, wanted) == (percent, None if percent is None else wanted)


class TestContainers:
    @pytest.mark.parametrize(
        ("used_ns", "own_ms", "percent"),
        [
            pytest.param((10e9, 11.5e9), 500, 75.0, id="1.5 of two cores for a second"),
            pytest.param((10e9, 13e9), 500, 100.0, id="a burst beyond the limit is all of it"),
            pytest.param((MONTHS, MONTHS + 1e9), 500, 50.0, id="months on many cores"),
            # The process alone has used 800 seconds: a counter that says 0.9 is not in nanoseconds.
            pytest.param((900e6, 901.5e6), 800_000, 75.0, id="microseconds of older Elasticsearch on cgroups v2"),
            pytest.param((10e9, 10.5e9), 10_100, 25.0, id="a process that was counted a moment later"),
        ],
    )
    def test_the_share_is_of_the_limit_and_of_the_time_that_passed(
        self, used_ns: tuple[float, float], own_ms: float, percent: float
    ) -> None:
        before, after = (contained(at, used, own_ms=own_ms) for at, used in zip((1_000, 2_000), used_ns, strict=True))
        assert between(before, after) == percent

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param(contained(1_000, 10e9), contained(1_000, 10e9), id="the same figures"),
            pytest.param(contained(9_000, 10e9), contained(1_000, 11e9), id="a clock that was set back"),
            pytest.param(contained(1_000, 10e9), contained(2_000, 1e9), id="a restart"),
            pytest.param(contained(1_000, 10e9), contained(2_000, 11e9, quota=QUOTA * 2), id="another limit"),
            pytest.param(contained(1_000, 10e9, quota=-1), contained(2_000, 11e9, quota=-1), id="no limit"),
            pytest.param(contained(1_000, 10e9, quota=0), contained(2_000, 11e9, quota=0), id="a limit of nothing"),
            pytest.param({}, contained(2_000, 11e9), id="no counters before"),
            pytest.param(contained(1_000, 10e9), {"os": {"cgroup": []}}, id="no counters after"),
        ],
    )
    def test_counters_of_which_no_difference_is_known_give_no_figure(self, before: Any, after: Any) -> None:
        assert between(before, after) is None


def readings(*nodes: dict[str, Any]) -> list[Any]:
    """Give replies with one node each."""
    return [replied({"_nodes": {"failed": 0}, "nodes": {node_id("node-1"): node}}) for node in nodes]


def ask(measure: CpuMeasure, *replies: Any, steps: list[Any] | None = None) -> Any:
    """Ask for the CPU, as a connection says."""
    clock = FakeClock()
    client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1), clock=clock.clock)
    return replay(measuring(client.ask, measure)(node_stats("node-1")), list(replies), steps=steps, clock=clock)


class TestClient:
    BUSY = (contained(1_000, 10e9), contained(2_100, 12.2e9))

    @pytest.mark.parametrize("measure", ["auto", "cgroup"])
    def test_a_container_at_its_limit_on_a_machine_at_rest_is_hot(self, measure: CpuMeasure) -> None:
        steps: list[Any] = []
        found = ask(measure, *readings(*self.BUSY), steps=steps)
        assert [(node.percent, node.source) for node in found.nodes] == [(100.0, "cgroup")]
        assert pauses_of(steps) == [1.1]
        assert [request.path for request in requests_of(steps)] == ["/_nodes/node-1/stats/os,process"] * 2

    @pytest.mark.parametrize(("measure", "percent"), [("os", 6.0), ("process", 5.0)])
    def test_another_measure_needs_one_reading(self, measure: CpuMeasure, percent: float) -> None:
        steps: list[Any] = []
        found = ask(measure, *readings(self.BUSY[0]), steps=steps)
        assert [(node.percent, node.source) for node in found.nodes] == [(percent, measure)]
        assert pauses_of(steps) == []

    @pytest.mark.parametrize("measure", get_args(CpuMeasure))
    def test_a_node_without_a_limit_is_read_once(self, measure: CpuMeasure) -> None:
        steps: list[Any] = []
        found = ask(measure, *readings(contained(1_000, 10e9, quota=-1)), steps=steps)
        assert len(requests_of(steps)) == 1
        assert (found.nodes[0].percent is None) is (measure == "cgroup")

    def test_the_machine_counts_if_it_is_busier_than_the_container(self) -> None:
        found = ask("auto", *readings(contained(1_000, 10e9), contained(2_100, 10e9, machine=97)))
        assert [(node.percent, node.source) for node in found.nodes] == [(97.0, "os")]

    def test_a_second_reading_that_fails_is_a_reading_that_failed(self) -> None:
        down = replied(error(503, "master_not_discovered_exception", "no master"), 503)
        with pytest.raises(ServiceUnavailableError):
            ask("auto", *readings(self.BUSY[0]), down)


class TestFailedNodes:
    def test_all_without_a_list_may_pass(self) -> None:
        body = {"_nodes": {"total": 2, "successful": 0, "failed": 2}, "cluster_name": "c", "nodes": {}}
        with pytest.raises(
            ServiceUnavailableError, match=r"gave its statistics \(2 failed\): the reply does not say why"
        ):
            ask("auto", replied(body))

    def test_some_are_counted_for_a_watch_of_all_nodes(self) -> None:
        reading = ask("auto", replied(stats({"node-1": 10}, failures=("request_id [77] timed out", "lost"))))
        assert CpuWatch(85).unknown(reading) == "the cluster gave no statistics of 2 nodes"

    def test_a_measure_that_no_node_gives_is_named(self) -> None:
        reading = ask("cgroup", replied(stats({"node-1": 10})))
        assert CpuWatch(85).seen(reading) == "no node reports its CPU by cpu_measure=cgroup, as the connection asks"
