"""What is said of listed tasks once the report is there: groups, CPU, threads, indices; and how it is written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.cluster.running_tasks import assessment
from airflow_provider_mediaops.cluster.running_tasks.assessment import (
    AMBIGUOUS,
    NO_CPU,
    NO_MATCH,
    NO_WINDOW,
    OTHER_POOL,
    SEVERAL_THREADS,
    match,
)
from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, LikelyGroup, NodeTasks, RunningTasks
from airflow_provider_mediaops.cluster.running_tasks.replies import Task, shard_times, single_task, task_list
from airflow_provider_mediaops.cluster.running_tasks.sampling import Look, TaskSampler, TaskSampling
from airflow_provider_mediaops.http.exchange import Clock, Response
from tests.unit import task_replies
from tests.unit.call_flows import ask_once
from tests.unit.cluster.task_values import TASKS
from tests.unit.search_cluster import node_id, replied
from tests.unit.task_replies import BULK, COORDINATOR, SEARCH, SECRET, coordinating, listed

MOMENTS = {0: "start", 500: "end", 560: "end"}


def report(*threads: tuple[str, float], share: str = "{percent:.1f}%", at: str = "2026-03-14T20:00:00.000Z") -> str:
    """Give the report of a node: its threads with their CPU in milliseconds."""
    lines = "".join(
        f"   {share.format(percent=ms / 5)} ({ms}ms out of 500ms) cpu usage by thread 'opensearch[node-1]{name}'\n"
        "     10/10 snapshots sharing following 1 elements\n       a.B.c(B.java:1)\n"
        for name, ms in threads
    )
    return (
        f"::: {{node-1}}{{{node_id('node-1')}}}{{e}}{{h}}{{10.0.0.1:9300}}{{dimr}}\n"
        f"   Hot threads at {at}, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:\n   \n{lines}"
    )


def sampled(
    looks: Mapping[int, Sequence[dict[str, Any]]], *, shows_queries: bool = False, **fields: Any
) -> TaskSampling:
    """Give a sampling of such lists, by the milliseconds after the start."""
    found = []
    for after_ms, tasks in looks.items():
        moment: Any = MOMENTS.get(after_ms, "between")
        listed_tasks = task_list(["x"]).parse(replied(task_replies.task_list(*tasks))).tasks
        found.append(Look(after_ms / 1_000, moment, listed_tasks))
    sampler = TaskSampler(ask_once, Clock(), shows_queries=shows_queries)
    return TaskSampling(sampler, {node_id("node-1"): "node-1"}, looks=tuple(found), **fields)


def root(query: dict[str, Any], index: str) -> Task:
    """Give the coordinating task of a search."""
    task = single_task("x").parse(replied(coordinating(query, index=index)))
    assert task is not None
    return task


def assessed(sampling: TaskSampling, text: str) -> NodeTasks:
    (node,) = assessment.assessed(sampling, parse(text)).nodes
    return node


def long_search(*after_ms: int, rate: float = 0.9, number: int = 1, **fields: Any) -> dict[int, dict[str, Any]]:
    """Give a search that began a second before the report, at looks."""
    return {
        at: listed(number, at, age_ms=1_000.0 + at, cpu_ms=100.0 + rate * at, **fields) for at in after_ms or (0, 500)
    }


def looks_of(*tasks: dict[int, dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    times = sorted({at for task in tasks for at in task})
    return {at: [task[at] for task in tasks if at in task] for at in times}


class TestGroups:
    def test_a_long_search_with_its_share_and_its_thread(self) -> None:
        sampling = sampled(looks_of(long_search(0, 100, 500, 560)))
        sampling.ancestors = {f"{COORDINATOR}:7": root({"query": {"match": {"title": SECRET}}}, index="orders*")}
        node = assessed(sampling, report(("[search][T#1]", 451.0), ("[write][T#1]", 149.0)))
        (group,) = node.groups
        assert (group.action, group.opaque_id, group.index) == (SEARCH, "report:nightly", "orders*")
        assert (group.shape, group.seen, group.pool) == ('{"query":{"match":{"title":"?"}}}', "both", "search")
        assert (group.requests, group.read_requests, group.running, group.queued) == (1, 1, 1, 0)
        assert (group.longest_ms, group.cpu_ms, group.cpu_share_percent) == (1_560.0, 450.0, 75.0)
        claims = [(one.group, one.error_ms, one.why_not) for one in node.threads]
        assert claims == [(0, 1.0, ""), (None, None, OTHER_POOL)]
        assert node.unexplained_percent == 25.0
        assert (node.listed_at_start, node.listed_at_end, node.looks_ms) == (1, 1, (0.0, 100.0, 500.0, 560.0))
        assert SECRET not in json.dumps(node.to_dict())

    def test_literals_are_kept_only_where_asked_for(self) -> None:
        description = f'indices[orders], source[{{"q":"{SECRET}"}}]'
        tasks = looks_of({0: listed(7, 0, action=SEARCH, parent=None, description=description)})
        for shows in (False, True):
            (group,) = assessed(sampled(tasks, shows_queries=shows), report()).groups
            assert (group.shape, group.query) == ('{"q":"?"}', f'{{"q":"{SECRET}"}}' if shows else None)

    @pytest.mark.parametrize(
        ("looks", "seen"),
        [((0,), "start"), ((500,), "end"), ((0, 560), "both"), ((100, 200), "between"), ((0, 100), "start")],
    )
    def test_group_says_when_it_was_listed(self, looks: tuple[int, ...], seen: str) -> None:
        others = {at: listed(9, at, opaque_id="other", parent="c:9") for at in (0, 100, 200, 500, 560)}
        groups = assessed(sampled(looks_of(long_search(*looks), others)), report()).groups
        assert {group.opaque_id: group.seen for group in groups} == {"report:nightly": seen, "other": "both"}

    def test_a_bulk_request_is_one_and_its_cpu_is_not_known(self) -> None:
        primary = listed(12, 0, action=f"{BULK}[p]", parent=f"{node_id('node-1')}:11", cpu_ms=0.0, executions=0)
        sampling = sampled({0: [listed(11, 0, action=BULK, cpu_ms=0.0, executions=0), primary]})
        (group,) = assessed(sampling, report(("[write][T#1]", 100.0))).groups
        assert (group.action, group.index, group.pool) == ("indices:data/write/bulk", "orders", "write")
        assert (group.requests, group.running, group.queued, group.cpu_ms) == (1, 1, None, None)

    def test_tasks_that_no_thread_has_begun_are_queued(self) -> None:
        tasks = [listed(number, 0, cpu_ms=0.0, executions=number % 2, parent=f"c:{number}") for number in range(5)]
        (group,) = assessed(sampled({0: tasks}), report()).groups
        assert (group.running, group.queued, group.requests) == (2, 3, 5)

    def test_requests_of_one_kind_are_one_group_whatever_they_look_for(self) -> None:
        def search(number: int, query: str, opaque_id: str = "app") -> dict[str, Any]:
            text = f"indices[orders], source[{query}]"
            return listed(number, 0, action=SEARCH, parent=None, opaque_id=opaque_id, description=text)

        unread = listed(9, 0, opaque_id="app", parent="gone:1")
        tasks = [search(1, '{"q":1}'), search(2, '{"q":2}'), search(3, '{"p":1}', "other"), unread]
        groups = assessed(sampled({0: tasks}), report()).groups
        assert {(group.opaque_id, group.shape, group.requests, group.read_requests) for group in groups} == {
            ("app", '{"q":"?"}', 3, 2),
            ("other", '{"p":"?"}', 1, 1),
        }
        groups = assessed(sampled({0: [*tasks, search(4, '{"r":1}')]}), report()).groups
        assert {(group.shape, group.requests) for group in groups if group.opaque_id == "app"} == {
            ('{"q":"?"}', 2),
            ('{"r":"?"}', 1),
            (None, 1),
        }

    def test_requests_of_a_dashboard_are_one_group_whatever_uuid_stands_before_its_name(self) -> None:
        def search(number: int, opaque_id: str) -> dict[str, Any]:
            return listed(number, 0, parent=f"gone:{number}", opaque_id=opaque_id)

        uuids = [f"0000000{number}-1111-4222-8333-44445555666A" for number in range(4)]
        name = f"kibana:application:dashboard:{uuids[3]}"
        several = [search(number, f"{uuid};{name}") for number, uuid in enumerate(uuids[:3])]
        groups = assessed(sampled({0: several}), report()).groups
        assert [(group.opaque_id, group.requests) for group in groups] == [(name, 3)]

        without_name = [search(10 + number, uuid) for number, uuid in enumerate(uuids)]
        groups = assessed(sampled({0: without_name}), report()).groups
        assert [(group.opaque_id, group.requests) for group in groups] == [("(UUIDs)", 4)]
        groups = assessed(sampled({0: without_name[:1]}), report()).groups
        assert [(group.opaque_id, group.requests) for group in groups] == [(uuids[0], 1)]
        # No UUID: the name of a client that begins like one.
        groups = assessed(sampled({0: [search(1, f"{uuids[0]}0"), search(2, f"{uuids[1]}0")]}), report()).groups
        assert {group.opaque_id for group in groups} == {f"{uuids[0]}0", f"{uuids[1]}0"}

    @pytest.mark.parametrize(
        ("action", "description", "index", "shape", "pool"),
        [
            ("read/esql", f'FROM a | WHERE b == "{SECRET}"', "a", "ES|QL: FROM a | WHERE b == ?", "esql_worker"),
            ("read/sql", "SQL [SELECT a FROM b][null]", "b", "SQL: SELECT a FROM b", "search"),
            ("read/open_point_in_time", "open search context: indices [a] keep_alive [1m]", "a", None, "search"),
            ("write/reindex", "reindex from [old] to [new]", "old,new", None, "search, write"),
            ("write/update/byquery", "update-by-query [a]", "a", None, "search, write"),
            ("write/delete/byquery", "delete-by-query [a]", "a", None, "search, write"),
        ],
    )
    def test_other_requests_have_their_index_query_and_pool(
        self, action: str, description: str, index: str, shape: str | None, pool: str
    ) -> None:
        task = listed(1, 0, action=f"indices:data/{action}", parent=None, description=description)
        (group,) = assessed(sampled({0: [task]}), report()).groups
        assert (group.index, group.shape, group.pool) == (index, shape, pool)

    def test_the_parts_of_esql_belong_to_its_query(self) -> None:
        action = "indices:data/read/esql"
        text = r"\_LuceneSourceOperator[limit = 1000]"
        parts = [listed(n, 0, action=f"{action}/compute", parent="c:7", description=text) for n in range(3)]
        sampling = sampled({0: parts})
        sampling.ancestors = {"c:7": Task(task_id="c:7", action=action, description="FROM a", opaque_id="app")}
        (group,) = assessed(sampling, report()).groups
        assert (group.action, group.opaque_id, group.index, group.shape) == (action, "app", "a", "ES|QL: FROM a")
        assert (group.requests, group.running, group.pool) == (1, 3, "esql_worker")

    def test_a_search_over_a_pattern_is_one_group_whichever_shards_were_seen(self) -> None:
        sampling = sampled({0: [listed(n, 0, index=f"logs-{n}", parent=f"c:{n % 2}") for n in range(4)]})
        sampling.ancestors = {"c:0": root({"size": 0}, index="logs-*")}
        (group,) = assessed(sampling, report()).groups
        assert (group.index, group.requests) == ("logs-*", 2)

    @pytest.mark.long
    def test_searches_with_thousands_of_indices_are_compared_in_a_moment(self) -> None:
        lists = [",".join(f"a-{number}-{name}" for name in range(5_000)) for number in range(20)]
        searches = [
            listed(10_000 + number, 0, action=SEARCH, parent=None, description=f"indices[{names},b-*], source[{{}}]")
            for number, names in enumerate(lists)
        ]
        shards = [listed(number, 0, parent=f"gone:{number}", index=f"a-7-{number}") for number in range(4_000)]
        # To compare each shard with all names of all lists would take an hour.
        node = assessed(sampled({0: [*searches, *shards]}), report())
        assert len(node.groups) + node.groups_left_out == 20 + 4_000

    def test_the_heaviest_come_first_and_their_number_is_bounded(self) -> None:
        many = [listed(n, 0, opaque_id=f"user-{n}", parent=f"c:{n}", age_ms=float(n)) for n in range(130)]
        node = assessed(sampled({0: many}), report())
        assert (len(node.groups), node.groups_left_out) == (100, 30)
        assert node.groups[0].opaque_id == "user-129"


class TestCpu:
    def test_a_search_that_ends_within_the_window_is_counted_as_seen_and_claimed_for_no_thread(self) -> None:
        tasks = looks_of(long_search(0, 100, 200), {500: listed(5, 500)})
        node = assessed(sampled(tasks), report(("[search][T#1]", 450.0), ("[search][T#2]", 180.0)))
        (group,) = [group for group in node.groups if group.cpu_ms is not None]
        assert group.cpu_ms == pytest.approx(180.0)
        assert [thread.why_not for thread in node.threads] == [NO_MATCH, NO_MATCH]

    def test_a_search_that_waited_for_a_thread_is_claimed_for_none(self) -> None:
        waiting, begun = long_search(0, executions=0, active_threads=0), long_search(500)
        node = assessed(sampled(looks_of(waiting | begun)), report(("[search][T#1]", 450.0)))
        assert (node.groups[0].cpu_ms, node.threads[0].why_not) == (450.0, NO_MATCH)

    def test_a_search_that_begins_within_the_window_is_counted_and_claimed_for_no_thread(self) -> None:
        late = {500: listed(5, 500, age_ms=200.0, cpu_ms=180.0)}
        node = assessed(sampled(looks_of({0: listed(6, 0, cpu_ms=1.0)}, late)), report(("[search][T#1]", 180.0)))
        assert sum(group.cpu_ms or 0.0 for group in node.groups) == pytest.approx(180.0)
        assert node.threads[0].why_not == NO_MATCH

    def test_looks_that_missed_the_ends_are_interpolated(self) -> None:
        node = assessed(sampled(looks_of(long_search(0, 100, 400, 600))), report(("[search][T#1]", 450.0)))
        assert node.groups[0].cpu_ms == pytest.approx(450.0)

    def test_a_look_near_an_end_of_the_window_stands_for_it(self) -> None:
        figures = {10: 100.0, 490: 500.0, 560: 700.0}
        task = {at: listed(1, at, age_ms=1_000.0 + at, cpu_ms=cpu_ms) for at, cpu_ms in figures.items()}
        node = assessed(sampled(looks_of(task)), report(("[search][T#1]", 400.0)))
        assert node.groups[0].cpu_ms == 400.0

    def test_with_concurrent_segment_search_only_sums_are_compared(self) -> None:
        tasks = looks_of(long_search(executions=3, active_threads=2))
        node = assessed(sampled(tasks), report(("[index_searcher][T#1]", 300.0), ("[search][T#1]", 150.0)))
        assert [one.why_not for one in node.threads] == [SEVERAL_THREADS] * 2
        assert (node.groups[0].cpu_share_percent, node.unexplained_percent) == (100.0, 0.0)

    def test_elasticsearch_says_nothing_about_the_cpu_of_tasks(self) -> None:
        text = report(("[search][T#1]", 500.0), share="100.0% [cpu={percent:.1f}%, other=0.0%]")
        node = assessed(sampled({0: [listed(1, 0)], 500: [listed(1, 500)]}), text)
        assert (node.groups[0].cpu_ms, node.groups[0].cpu_share_percent, node.groups[0].queued) == (None, None, None)
        assert node.groups[0].pool == "search"
        assert (node.unexplained_percent, node.threads[0].why_not) == (None, NO_CPU)

    @pytest.mark.parametrize("rest", ["other", "idle"])
    def test_other_and_idle_time_is_no_cpu(self, rest: str) -> None:
        text = report(("[search][T#1]", 500.0), share=f"100.0% [cpu=20.0%, {rest}=80.0%]")
        assert assessed(sampled({0: []}), text).threads[0].cpu_ms == 100.0

    def test_where_no_task_was_listed_none_explains_anything(self) -> None:
        node = assessed(sampled({0: [], 500: []}), report(("[search][T#1]", 500.0)))
        assert (node.unexplained_percent, node.groups) == (100.0, ())

    def test_threads_that_are_not_in_the_report_are_mentioned(self) -> None:
        node = assessed(sampled(looks_of(long_search(), long_search(number=2))), report(("[search][T#1]", 450.0)))
        assert "raise threads" in node.remarks[0]
        assert node.unexplained_percent == 0.0

    def test_without_the_time_of_the_report_nothing_is_compared(self) -> None:
        node = assessed(sampled(looks_of(long_search())), report(("[search][T#1]", 450.0), at="sometime"))
        assert (node.groups[0].cpu_ms, node.threads[0].why_not) == (None, NO_WINDOW)


class TestIndices:
    def test_the_difference_of_two_readings_is_the_work(self) -> None:
        before, after = (self.reading(orders=orders, idle=5, new=new) for orders, new in ((100, None), (363, 7)))
        sampling = sampled({}, shards_before=before, shards_after=after)
        node = assessed(sampling, report())
        # A merge is under way on both.
        assert node.indices == (IndexWork(index="orders", query_ms=263.0, merges=1), IndexWork(index="idle", merges=1))

    def test_counters_that_begin_again_are_no_negative_work(self) -> None:
        sampling = sampled({}, shards_before=self.reading(orders=100), shards_after=self.reading(orders=5))
        assert assessed(sampling, report()).indices == (IndexWork(index="orders", merges=1),)

    def test_a_single_reading_says_nothing(self) -> None:
        node = assessed(sampled({}, shards_before=self.reading(orders=100)), report())
        assert node.indices == ()
        assert "only once" in node.remarks[0]

    def reading(self, **query_ms: int | None) -> Any:
        known = {name: figure for name, figure in query_ms.items() if figure is not None}
        return shard_times(["x"]).parse(replied(task_replies.shards(**known)))


def test_a_node_that_is_not_in_the_report_is_named() -> None:
    node = assessed(sampled({0: [listed(1, 0)]}), "::: {node-9}{x}\n   Hot threads at x\n")
    assert node.remarks == ("The node is not in the report.",)
    assert len(node.groups) == 1


def test_fault_in_the_assessment_costs_no_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr(assessment, "task_groups", fail)
    sampling = sampled({0: [listed(1, 0)]}, remarks=("one",))
    tasks = assessment.assessed(sampling, parse(report()))
    assert tasks.remarks == ("one", "The listed tasks could not be compared with the report (KeyError).")


@pytest.mark.parametrize(
    ("scene", "claimed"),
    [
        ("opensearch-2.19.1/script", ["[search][T#1]", "[search][T#2]"]),
        ("opensearch-2.19.1/mixed", ["[search][T#3]"]),
        ("opensearch-3.8.0/script", ["[search][T#1]", "[search][T#2]"]),
        ("opensearch-3.8.0/mixed", ["[search][T#2]"]),
        ("opensearch-3.8.0/concurrent", []),
        ("opensearch-2.19.1/wildcard", []),
        ("elasticsearch-9.1.0/mixed", []),
    ],
)
def test_replies_of_real_nodes_claim_the_threads_that_are_certain(
    shared_data: Path, scene: str, claimed: list[str]
) -> None:
    """The replies of real nodes, taken 0 and 500 milliseconds after the report was asked for."""
    recorded = shared_data / "running_tasks"
    text = (recorded / f"{scene}.hot_threads.txt").read_text()
    (hot,) = parse(text).nodes
    looks = []
    for moment, after in (("start", 0.0), ("end", 0.5)):
        path = recorded / f"{scene}.tasks_{moment}.json"
        if path.exists():
            tasks = task_list(["x"]).parse(Response(200, {}, path.read_bytes())).tasks
            looks.append(Look(after, moment, tasks))  # type: ignore[arg-type]
    sampler = TaskSampler(ask_once, Clock())
    node = assessed(TaskSampling(sampler, {str(hot.node_id): hot.name}, looks=tuple(looks)), text)
    named = {str(one.thread): node.groups[one.group].opaque_id for one in node.threads if one.group is not None}
    assert sorted(thread.partition("]")[2] for thread in named) == claimed
    assert set(named.values()) <= {"report:nightly-margin"}
    assert all(group.index for group in node.groups)


def test_tasks_are_written_by_the_names_that_readers_know_and_read_again() -> None:
    written = json.loads(json.dumps(TASKS.to_dict()))
    node = written["nodes"][0]
    assert (node["node_id"], node["node"]) == ("id_of_n1", "n1")
    names = ["action", "opaque_id", "index", "shape", "seen", "running", "queued", "longest_ms", "cpu_ms"]
    assert {*names, "cpu_share_percent", "pool"} <= set(node["groups"][0])
    assert RunningTasks.from_dict(written) == TASKS


@pytest.mark.parametrize("odd", [None, [], {"nodes": 5}, {"nodes": [{"groups": [{"seen": "soon"}]}]}])
def test_tasks_of_another_shape_are_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"^(Expected|Invalid)"):
        RunningTasks.from_dict(odd)


@pytest.mark.parametrize("odd", [{"longest_ms": 1e308}, {"cpu_ms": -1e300}, {"running": -1}, {"queued": 10**30}])
def test_tasks_with_figures_that_no_cluster_has_are_refused(odd: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"^a figure in it is too large, or a count is below zero"):
        RunningTasks.from_dict({"nodes": [{"groups": [odd]}]})


def matched(cpu_ms: list[float], tasks: list[tuple[float, int]]) -> tuple[LikelyGroup, ...]:
    """Match threads of such CPU with tasks."""
    return match([LikelyGroup(thread=f"T#{number}", cpu_ms=cpu) for number, cpu in enumerate(cpu_ms)], tasks)


@pytest.mark.parametrize(
    ("cpu_ms", "tasks", "claimed"),
    [
        # Measured on OpenSearch 2.19.1 and 3.8.0: one long search, on two shards.
        ([477.6, 464.5], [(0, 476.2), (0, 464.5)], [0, 0]),
        ([474.4, 471.4], [(0, 471.6), (0, 467.9)], [0, 0]),
        # Two kinds, well apart.
        ([300.0, 152.3], [(1, 151.3), (0, 298.0)], [0, 1]),
        # Two threads for one task: it could be either.
        ([131.1, 129.8], [(0, 129.9)], [AMBIGUOUS, AMBIGUOUS]),
        # One thread, and tasks of two kinds.
        ([131.1], [(0, 129.9), (1, 132.0)], [AMBIGUOUS]),
        # Fewer threads than tasks of one kind: the report names the hottest only.
        ([131.1], [(0, 129.9), (0, 132.0)], [0]),
        ([145.0, 90.0], [(0, 151.3)], [NO_MATCH, NO_MATCH]),
        # Too far for a claim, and too near to be ruled out.
        ([145.5], [(0, 151.3)], [NO_MATCH]),
        # Threads that hardly used any CPU are all alike.
        ([4.0], [(0, 4.0)], [NO_MATCH]),
        ([], [(0, 4.0)], []),
        ([200.0], [], [NO_MATCH]),
    ],
)
def test_only_what_cannot_be_another_one_is_claimed(
    cpu_ms: list[float], tasks: list[tuple[int, float]], claimed: list[int | str]
) -> None:
    for order in itertools.permutations((cpu, group) for group, cpu in tasks):
        found = matched(cpu_ms, list(order))
        assert [one.thread for one in found] == [f"T#{number}" for number in range(len(cpu_ms))]
        assert [one.why_not if one.group is None else one.group for one in found] == claimed


def test_a_claim_has_the_error_to_the_nearest_task() -> None:
    (found,) = matched([477.6], [(476.2, 2)])
    assert (found.group, found.cpu_ms, found.error_ms, found.why_not) == (2, 477.6, 1.4, "")
    several = matched([100.0, 102.0, 104.0], [(104.5, 0), (100.5, 0), (102.5, 0)])
    assert [one.error_ms for one in several] == [0.5, 0.5, 0.5]


def test_threads_that_cannot_be_compared_say_why() -> None:
    without = [LikelyGroup(thread="a"), LikelyGroup(thread="b", cpu_ms=100.0, why_not="it merges")]
    assert [one.why_not for one in match(without, [(100.0, 0)])] == [NO_MATCH, "it merges"]


def test_any_number_of_tasks_is_matched_in_a_moment() -> None:
    alike = [(100.0, 0)] * 10_000
    assert {one.group for one in matched([100.0] * 200, alike)} == {0}
    assert {one.why_not for one in matched([100.0] * 200, alike[:199])} == {AMBIGUOUS}
