"""The statistics of nodes: which measure of the CPU counts, whatever version wrote it, and which nodes a list means."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.api import measuring, node_stats
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.cluster.models import CpuMeasure, NodeCpu, NodeStats
from airflow_provider_mediaops.cluster.query import is_plain, node_list
from airflow_provider_mediaops.exceptions import ServiceUnavailableError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import FakeClock, pauses_of, replay, requests_of
from tests.unit.search_cluster import error, node_id, replied, stats

# As public threads show them.
ES_1 = {
    "os": {"cpu": {"sys": 4, "user": 17, "idle": 78, "usage": 21}},
    "process": {"cpu": {"percent": 340, "sys_in_millis": 1, "total_in_millis": 3}},
}
ES_2 = {"os": {"cpu_percent": 96}, "process": {"cpu": {"percent": 12, "total_in_millis": 13_610}}}
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


def measured(node: dict[str, Any], wanted: CpuMeasure, before: dict[str, Any] | None = None) -> Any:
    """Give the CPU of a node, perhaps after an earlier reading, and the measure that it is by."""
    now, earlier = (None if body is None else NodeStats.read({"nodes": {"abc": body}}) for body in (node, before))
    assert now
    (found,) = now.measured(wanted, earlier).nodes
    return found.percent, found.source


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
        assert measured(after, "cgroup", before) == (percent, "cgroup")

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
        assert measured(after, "cgroup", before) == (None, None)


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
    def test_a_measure_that_no_node_gives_is_named(self) -> None:
        reading = ask("cgroup", replied(stats({"node-1": 10})))
        assert CpuWatch(85).seen(reading) == "no node reports its CPU by cpu_measure=cgroup, as the connection asks"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["cpu", "os", "percent", "process", "x"]), inner),
    max_leaves=8,
)


def only_node(**node: Any) -> NodeCpu:
    (found,) = NodeStats.read({"nodes": {"abc": node}}).nodes
    return found


def test_a_node_as_opensearch_describes_it() -> None:
    machine = {"cpu": {"percent": 12, "load_average": {"1m": 1.5, "5m": None, "15m": 0.5}}}
    node = only_node(name="node-1", host="10.0.0.1", ip="10.0.0.1:9300", roles=["data", "ingest"], os=machine)
    roles, loads = ("data", "ingest"), {"1m": 1.5, "15m": 0.5}
    assert node == NodeCpu("abc", "node-1", "10.0.0.1", "10.0.0.1:9300", roles, 12.0, "os", loads)


def test_a_node_without_a_name_is_called_by_its_id() -> None:
    assert only_node().label == "abc"
    assert only_node(name="node-1").label == "node-1"


def test_entry_that_means_no_node_is_unknown() -> None:
    found = NodeStats((NodeCpu("abc", name="node-1"),))
    assert found.unknown(None) == []
    assert found.unknown(("node-1", "nobody", "node-*", "node-?", "data:true")) == ["nobody", "node-?"]


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ({"node_id": "abc", "reason": "Failed", "caused_by": {"reason": "timed out"}}, "node abc: timed out"),
        ({"reason": "Failed node [abc]"}, "Failed node [abc]"),
        ("odd", "no reason given"),
    ],
)
def test_nodes_that_failed_are_told(failure: Any, sentence: str) -> None:
    assert NodeStats.read({"_nodes": {"failures": [failure]}}).failures == (sentence,)


@pytest.mark.parametrize(
    ("counts", "failed", "gap"),
    [
        ({"total": 2, "successful": 2, "failed": 0}, 0, ""),
        ({"failed": 1}, 1, "1 node did not give the statistics: the reply does not say why"),
        ({"failed": 3, "failures": [{"reason": "it is slow"}]}, 3, "3 nodes did not give the statistics: it is slow"),
        ({"failures": [{"reason": "it is slow"}]}, 1, "1 node did not give the statistics: it is slow"),
        ({"failed": "two"}, 0, ""),
        ({"failed": -1}, 0, ""),
        ({"failed": 1e300}, 0, ""),
    ],
)
def test_nodes_that_failed_are_counted_with_and_without_a_list(counts: Any, failed: int, gap: str) -> None:
    found = NodeStats.read({"_nodes": counts, "nodes": {}})
    assert (found.failed, found.gap) == (failed, gap)


@pytest.mark.long
@given(st.dictionaries(st.sampled_from(["nodes", "_nodes", "cluster_name"]), json_values))
def test_any_object_is_read_and_no_cpu_is_below_zero(body: dict[str, Any]) -> None:
    for node in NodeStats.read(body).nodes:
        assert node.percent is None or node.percent >= 0


NODES = (
    NodeCpu("id_1", name="data-1", host="one.example", ip="10.0.0.1:9300", percent=1.0),
    NodeCpu("id_2", name="data-2", host="two.example", percent=2.0),
    NodeCpu("id_3", name="Master", host="one.example", percent=3.0),
    NodeCpu("id_4", name="four", host=None, percent=4.0),
    # What is special elsewhere.
    NodeCpu("id_5", name="od[d]?.+", host=None, percent=5.0),
    NodeCpu("id_6", name=None, host=None, percent=6.0),
)
STATS = NodeStats(NODES, cluster_name="docs")


@pytest.mark.parametrize(
    "selection", [None, "data-1", "data-1,data-2", "data-*", "*", "*-1", "node.1", "a1", "10x", "id_1,*"]
)
def test_list_of_names_ids_and_patterns_is_plain(selection: str | None) -> None:
    assert is_plain(node_list(selection))


@pytest.mark.parametrize(
    "selection", ["_local", "_master", "zone:a", "data-1,data:false", "10.0.0.1", "10.0.*", "1", "::1", "**"]
)
def test_list_that_only_the_cluster_resolves_is_not_plain(selection: str) -> None:
    assert not is_plain(node_list(selection))


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (None, "id_1 id_2 id_3 id_4 id_5 id_6"),
        ("data-1", "id_1"),
        ("data-2,id_6", "id_2 id_6"),
        ("data-2,data-2,id_2", "id_2"),
        ("id_1", "id_1"),
        ("nobody,data-1", "id_1"),
        *((address, "id_1") for address in ("10.0.0.1", "10.0.*")),
        *((special, "id_1 id_2 id_3 id_4 id_5 id_6") for special in ("_local", "_master", "rack:r1")),
        ("one.example", "id_1 id_3"),
        ("data-*", "id_1 id_2"),
        ("*.example", "id_1 id_2 id_3"),
        ("*", "id_1 id_2 id_3 id_4 id_5 id_6"),
        ("d*t*-2,Ma*", "id_2 id_3"),
        # Nothing but a star is special.
        ("od[d]?.+", "id_5"),
        ("od[d]*", "id_5"),
        *((nobody, "") for nobody in ("nobody", "master", "*.exampl", "data-?", "data-[12]", "x*", "DATA-*")),
    ],
)
def test_selection_leaves_the_nodes_that_are_meant(selection: str | None, ids: str) -> None:
    found = STATS.narrowed(node_list(selection))
    assert [node.node_id for node in found.nodes] == ids.split()
    assert found.cluster_name == "docs"


@pytest.mark.parametrize(("selection", "failed"), [("data-1", 0), ("data-*", 1), ("data-1,nobody", 1), ("nobody", 1)])
def test_node_that_failed_counts_for_a_selection_that_may_mean_it(selection: str, failed: int) -> None:
    failing = NodeStats(NODES, failures=("node id_9: it is slow",), failed=1)
    found = failing.narrowed(node_list(selection))
    assert (len(found.failures), found.failed) == (failed, failed)
