"""How tasks are looked at: what is asked and when, how replies of any version are read, and what ends the asking."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.cluster.running_tasks import replies
from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, PoolLoad
from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampler, TaskSampling, look_times
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import (
    Beside,
    Blocking,
    Failure,
    Request,
    Response,
    Returned,
    TransportError,
    Wait,
    advance,
)
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.settings import TransportSettings
from tests.unit.call_flows import FakeClock
from tests.unit.search_cluster import error, node_id, replied
from tests.unit.task_replies import (
    BULK,
    COORDINATOR,
    PHASE,
    REPORT_MS,
    SECRET,
    coordinating,
    listed,
    pools,
    shards,
    task_list,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call

FORBIDDEN = replied(error(403, "security_exception", "no permissions for [cluster:monitor/tasks/lists]"), 403)
NODES = NodeStats((NodeCpu(node_id("node-1"), "node-1", percent=97.0),))


class Tour:
    """A sampling in made-up time, at a cluster that answers by the path of the request."""

    def __init__(self, stats: NodeStats | None = NODES, **answers: Any) -> None:
        self.clock = FakeClock()
        self.answers: dict[str, Any] = {
            "pools": replied(pools()),
            "list": replied(task_list(listed(1, 0))),
            "task": replied(coordinating({"query": {"match": {"title": SECRET}}})),
            "shards": replied(shards(orders=100)),
            **answers,
        }
        #: What was asked, and when, in milliseconds.
        self.asked: list[tuple[int, str]] = []
        self.requests: list[Request] = []
        self.latency = 0.005
        client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=5))
        self.sampler = TaskSampler(client.ask, self.clock.clock)
        self.stats = stats

    def run(self, interval: str = "500ms", snapshots: int = 10) -> TaskSampling:
        query = HotThreadsQuery(interval=interval, snapshots=snapshots)
        sampling = self.sampler.begin(self.stats)
        self.asked.clear()
        began = self.clock.seconds
        asking = sampling.looks_over(query.interval_seconds, query.snapshots)
        step = advance(asking)
        while not isinstance(step, Returned):
            if isinstance(step, Wait):
                self.clock.wait(step.seconds)
                step = advance(asking)
                continue
            if isinstance(step, Blocking):
                # A large reply is parsed in a thread.
                step = advance(asking, step.action())
                continue
            assert isinstance(step, Request)
            self.requests.append(step)
            kind = self._kind(step)
            self.asked.append((round(1_000 * (self.clock.seconds - began)), kind))
            self.clock.wait(self.latency)
            answer = self.answers[kind]
            reply = answer(len(self.asked)) if callable(answer) else answer
            step = advance(asking, error=reply) if isinstance(reply, TransportError) else advance(asking, reply)
        return sampling

    def _kind(self, request: Request) -> str:
        if request.path == "/_tasks":
            return "list"
        if request.path.startswith("/_tasks/"):
            return "task"
        return "pools" if "thread_pool" in request.path else "shards"

    def times(self, kind: str) -> list[int]:
        return [at for at, asked in self.asked if asked == kind]

    @property
    def listed(self) -> list[str]:
        """The nodes whose tasks were listed, by request."""
        return [dict(request.params)["nodes"] for request in self.requests if request.path == "/_tasks"]


class TestTimes:
    @pytest.mark.parametrize(
        ("interval", "snapshots", "times"),
        [
            (0.5, 10, [0, 100, 200, 300, 400, 500, 560]),
            (0.05, 1, [0, 50, 65]),
            (0.15, 10, [0, 150, 210]),
            (1.8, 200, [*range(0, 1_801, 100), 2_800]),
            # A long one has no more looks.
            (18.0, 10, [*range(0, 18_001, 1_000), 18_060]),
        ],
    )
    def test_looks_are_at_the_ends_and_between(self, interval: float, snapshots: int, times: list[int]) -> None:
        found = list(look_times(interval, snapshots))
        assert [round(1_000 * at) for at, _ in found] == times
        assert [moment for _, moment in found] == ["start", *["between"] * (len(times) - 3), "end", "end"]

    def test_the_pools_come_first_and_the_shards_are_read_at_both_ends(self) -> None:
        tour = Tour()
        sampling = tour.run()
        assert tour.asked[0] == (0, "pools")
        assert tour.times("list") == [5, 100, 200, 300, 400, 500, 560]
        assert tour.times("shards") == [10, 505]
        assert [look.moment for look in sampling.looks] == ["start", *["between"] * 4, "end", "end"]
        assert [round(1_000 * look.after_seconds) for look in sampling.looks] == tour.times("list")
        assert sampling.shards_before == sampling.shards_after != {}
        assert sampling.remarks == ()

    def test_late_looks_between_are_left_out_and_those_at_the_end_are_not(self) -> None:
        tour = Tour()
        tour.latency = 0.24
        tour.run()
        assert len(tour.times("list")) < 7
        assert tour.times("list")[-1] >= 560


class TestRestraint:
    def test_where_queues_are_huge_nothing_is_asked_and_that_is_said(self) -> None:
        tour = Tour(pools=replied(pools(5_210)))
        sampling = tour.run()
        assert [kind for _, kind in tour.asked] == ["pools"]
        assert sampling.remarks == ("The tasks of node-1 were not listed: too many wait in the thread pools.",)
        assert "5,210 tasks wait" in sampling.node_remarks[node_id("node-1")]

    def test_of_several_nodes_only_the_overloaded_are_left_out(self) -> None:
        loads = pools(5_210, "node-1")["nodes"] | pools(0, "node-2")["nodes"]
        both = NodeStats((*NODES.nodes, NodeCpu(node_id("node-2"), "node-2", percent=90.0)))
        tour = Tour(both, pools=replied({"nodes": loads}))
        sampling = tour.run()
        assert set(tour.listed) == {node_id("node-2")}
        assert list(sampling.nodes) == [node_id("node-1"), node_id("node-2")]

    @pytest.mark.parametrize(
        "answers",
        [
            {"pools": replied(pools(500))},
            {"pools": replied("no", 500)},
            {"list": replied(task_list(listed(1, 0, description="x" * 300_000)))},
        ],
    )
    def test_tasks_are_listed_at_the_ends_only_with_queues_or_large_lists(self, answers: dict[str, Response]) -> None:
        tour = Tour(NODES, **answers)
        tour.run()
        assert tour.times("list") == [5, 500, 560]

    @pytest.mark.parametrize(
        ("reply", "sentence"),
        [
            (TransportError(Failure.TOO_LARGE, "the reply is larger"), "The list of tasks was cut off: it is larger"),
            (TransportError(Failure.TIMEOUT, "late"), "The tasks could not be listed (ReplyTimeoutError)."),
            (FORBIDDEN, "The tasks of the nodes were not listed: the connection's user may not."),
        ],
    )
    def test_a_cluster_that_cannot_is_not_asked_again(self, reply: Any, sentence: str) -> None:
        tour = Tour(list=reply)
        sampling = tour.run()
        assert tour.times("list") == [5]
        # Nor for the next capture, if it may not say.
        assert tour.sampler.is_allowed == (reply is not FORBIDDEN)
        assert [remark[: len(sentence)] for remark in sampling.remarks] == [sentence]
        # The index is named all the same.
        assert len(tour.times("shards")) == 2

    def test_a_cluster_that_refuses_the_statistics_of_pools_is_not_asked_for_those_of_shards(self) -> None:
        tour = Tour(pools=FORBIDDEN)
        tour.run()
        assert tour.times("shards") == []

    def test_no_reply_is_quoted_because_it_may_hold_a_query(self) -> None:
        broken = replied(f'{{"nodes": {{"{SECRET}')
        for answers in ({"list": broken}, {"task": broken}, {"pools": broken}, {"shards": broken}):
            sampling = Tour(NODES, **answers).run()
            assert sampling.remarks
            assert SECRET not in str(sampling.remarks)

    @pytest.mark.long
    def test_the_number_of_tasks_is_capped(self) -> None:
        many = [{"node": "n", "id": number, "action": "a"} for number in range(10_001)]
        sampling = Tour(list=replied(task_list(*many))).run()
        assert {len(look.tasks) for look in sampling.looks} == {10_000}
        assert sampling.remarks == ("The list of tasks was cut off: only the first 10,000 were read.",)

    def test_nodes_that_did_not_answer_are_counted(self) -> None:
        sampling = Tour(list=replied(task_list(failures=1))).run()
        assert sampling.remarks == ("1 of the nodes did not list their tasks in time.",)


def test_what_was_seen_beside_a_report_does_not_change_when_a_late_reply_comes() -> None:
    tour = Tour()
    flow = tour.sampler.beside(tour.sampler.ask(replies.single_task("x")), HotThreadsQuery(), NODES)
    beside = next(flow)
    assert isinstance(beside, Beside)
    late = beside.side
    next(late)
    late.send(tour.answers["pools"])
    step = advance(flow, ("report", None))
    assert isinstance(step, Returned)
    _, seen = step.value
    before = (seen.looks, dict(seen.shards_before))

    late.send(tour.answers["list"])
    late.send(tour.answers["shards"])

    assert (seen.looks, seen.shards_before) == before == ((), {})


class TestNodes:
    def test_the_busiest_are_asked(self) -> None:
        many = NodeStats(tuple(NodeCpu(f"id-{number}", f"n{number}", percent=number) for number in range(30)))
        sampling = Tour(many).sampler.begin(many)
        assert list(sampling.nodes) == [f"id-{number}" for number in range(29, 19, -1)]
        assert sampling.remarks == ("Tasks were listed of the 10 busiest of 30 nodes.",)

    def test_id_that_may_stand_for_several_nodes_is_not_asked(self) -> None:
        odd = NodeStats((NodeCpu("*", "all", percent=99.0), *NODES.nodes))
        assert list(Tour(odd).sampler.begin(odd).nodes) == [node_id("node-1")]

    def test_without_cpu_no_node_is_hot_and_the_log_says_so_once_a_series(self) -> None:
        tour = Tour(None)
        sampling, next_one = tour.run(), tour.sampler.begin(None)
        assert tour.asked == []
        assert "did not say which nodes are hot" in sampling.remarks[0]
        assert next_one.remarks == sampling.remarks
        assert [tour.sampler.untold(one.remarks) for one in (sampling, next_one)] == [sampling.remarks, ()]


def searches(*requests: tuple[int, str, float], opaque_id: str | None = None) -> Callable[[int], Response]:
    """Give lists of shard tasks of requests: number of the coordinating task, index, age."""
    tasks = [
        listed(
            100 + number,
            0,
            index=index,
            parent=f"{COORDINATOR}:{number}",
            age_ms=age,
            opaque_id=opaque_id and opaque_id.replace("UUID", f"0000000{number}-1111-4222-8333-444455556666"),
        )
        for number, index, age in requests
    ]
    return lambda _: replied(task_list(*tasks))


GONE = replied(error(404, "resource_not_found_exception", f"task [x] with {SECRET} isn't running"), 404)
LISTED_QUERY = {**coordinating({"size": 0})["task"], "node": node_id("node-1"), "id": 7}

#: By what is listed: the answers, and how many queries are looked up.
LOOKUPS: dict[str, tuple[dict[str, Any], int]] = {
    "a part of a search": ({}, 1),
    "a part of a search that has ended": ({"task": GONE}, 1),
    "a search with its part": (
        {"list": replied(task_list(LISTED_QUERY, listed(8, 0, parent=f"{node_id('node-1')}:7")))},
        0,
    ),
    "a write": ({"list": replied(task_list(listed(1, 0, action=BULK)))}, 0),
    "a dashboard, whatever UUID stands before its name": (
        {"list": searches(*((n, "a", 50.0) for n in range(9)), opaque_id="UUID;kibana"), "task": GONE},
        3,
    ),
    "fifteen kinds of searches": (
        {"list": searches(*((n, f"index-{n % 15}", 500.0 - n) for n in range(90))), "task": GONE},
        30,
    ),
}


@pytest.mark.parametrize(("answers", "lookups"), LOOKUPS.values(), ids=LOOKUPS.keys())
def test_queries_are_looked_up_with_a_few_tries_for_each_kind(answers: dict[str, Any], lookups: int) -> None:
    tour = Tour(NODES, **answers)
    sampling = tour.run()
    assert len(tour.times("task")) == lookups
    assert sampling.remarks == ()


class TestQueries:
    def test_the_query_of_esql_is_looked_up_for_its_parts(self) -> None:
        action = "indices:data/read/esql"
        root = listed(7, 0, action=action, parent=None, description="FROM a | LIMIT 1")
        tour = Tour(
            list=replied(task_list(listed(1, 0, action=f"{action}/compute", description="plan"))),
            task=replied({"completed": False, "task": {**root, "node": COORDINATOR}}),
        )
        assert [task.description for task in tour.run().ancestors.values()] == ["FROM a | LIMIT 1"]

    def test_a_refusal_ends_the_lookups(self) -> None:
        tour = Tour(list=searches((1, "a", 50.0), (2, "b", 900.0)), task=FORBIDDEN)
        sampling = tour.run()
        assert len(tour.times("task")) == 1
        assert sampling.remarks == ("The queries of some requests could not be read (PermissionDeniedError 403).",)

    def test_three_of_a_kind_are_looked_up_the_oldest_first(self) -> None:
        tour = Tour(list=searches((1, "a", 50.0), (2, "a", 900.0), (3, "a", 5.0), (4, "a", 300.0)))
        tour.run()
        looked_up = [request.path for request in tour.requests if request.path.startswith("/_tasks/")]
        assert [path.rpartition("%3A")[2] for path in looked_up] == ["2", "4", "1"]


CALLS: list[Call[Any]] = [
    *(replies.task_list(["a"]), replies.single_task("a:1"), replies.thread_pools(["a"]), replies.shard_times(["a"]))
]
names = st.sampled_from(
    ["nodes", "tasks", "task", "node", "id", "action", "headers", "thread_pool", "indices", "shards"]
)
json_objects = st.dictionaries(
    names,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=12,
    ),
)


def read(call: Call[Any], body: dict[str, Any]) -> Any:
    return call.parse(replied(body))


def test_only_the_hot_nodes_and_the_actions_on_data_are_asked_for() -> None:
    request = replies.task_list(["id-1", "id-2"]).request
    assert (request.method, request.path) == ("GET", "/_tasks")
    actions = "indices:data/*,indices:admin/*"
    assert dict(request.params) == {"detailed": "true", "nodes": "id-1,id-2", "actions": actions}
    assert replies.single_task("id-1:7").request.path == "/_tasks/id-1%3A7"
    assert replies.thread_pools(["id-1", "id-2"]).request.path == "/_nodes/id-1,id-2/stats/thread_pool"
    request = replies.shard_times(["id-1"]).request
    assert request.path == "/_nodes/id-1/stats/indices/search,indexing,merge"
    assert dict(request.params)["level"] == "shards"


@pytest.mark.parametrize("call", CALLS)
def test_no_request_is_repeated_large_or_long(call: Call[Any]) -> None:
    assert not call.request.is_retried
    assert 0 < (call.request.max_bytes or 0) <= 16 * 1024 * 1024
    assert TransportSettings(read_timeout=600).total_limit(call.request) <= 2.0


def test_a_task_of_opensearch() -> None:
    reply = task_list(listed(12, 100, cpu_ms=64.5, executions=1, active_threads=2))
    (task,) = read(replies.task_list(["x"]), reply).tasks
    assert (task.task_id, task.node_id) == (f"{node_id('node-1')}:12", node_id("node-1"))
    assert (task.action, task.kind, task.index) == (PHASE, "indices:data/read/search", "orders")
    assert (task.parent_id, task.opaque_id) == (f"{COORDINATOR}:7", "report:nightly")
    assert (task.started_ms, task.running_ms, task.listed_at_ms) == (REPORT_MS - 900, 1_000.0, REPORT_MS + 100)
    assert (task.cpu_ms, task.executions, task.active_threads) == (64.5, 1, 2)


def test_a_coordinating_task_names_what_the_client_named() -> None:
    task = read(replies.single_task("x"), coordinating({"size": 0}, index="logs-*, orders"))
    assert task.task_id == f"{COORDINATOR}:7"
    assert (task.expression, task.index) == ("logs-*,orders", None)
    assert read(replies.single_task("x"), {"completed": True}) is None


def test_pools_that_rest_are_left_out() -> None:
    assert read(replies.thread_pools(["x"]), pools(3)) == {
        node_id("node-1"): (PoolLoad(pool="search", active=4, queue=3, rejected=2),)
    }


def test_the_counters_of_an_index_are_those_of_its_shards() -> None:
    found = read(replies.shard_times(["x"]), shards(orders=263))
    assert found == {
        node_id("node-1"): {"orders": IndexWork(index="orders", query_ms=263.0, index_ms=4.0, merge_ms=5.0, merges=1)}
    }


@pytest.mark.long
@given(json_objects)
def test_any_object_is_read_without_an_error(body: dict[str, Any]) -> None:
    for call in CALLS:
        read(call, json.loads(json.dumps(body)))
