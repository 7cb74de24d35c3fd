"""What is asked about tasks, and how replies of any version are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, PoolLoad
from airflow_provider_mediaops.cluster.running_tasks.replies import (
    Task,
    shard_times,
    single_task,
    task_list,
    thread_pools,
)
from airflow_provider_mediaops.http.settings import TransportSettings
from tests.unit import task_replies
from tests.unit.search_cluster import node_id, replied
from tests.unit.task_replies import COORDINATOR, PHASE, REPORT_MS, coordinating, listed, pools, shards

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call

CALLS: list[Call[Any]] = [task_list(["a"]), single_task("a:1"), thread_pools(["a"]), shard_times(["a"])]
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
    request = task_list(["id-1", "id-2"]).request
    assert (request.method, request.path) == ("GET", "/_tasks")
    assert dict(request.params) == {
        "detailed": "true",
        "nodes": "id-1,id-2",
        "actions": "indices:data/*,indices:admin/*",
    }
    assert single_task("id-1:7").request.path == "/_tasks/id-1%3A7"
    assert thread_pools(["id-1", "id-2"]).request.path == "/_nodes/id-1,id-2/stats/thread_pool"
    request = shard_times(["id-1"]).request
    assert request.path == "/_nodes/id-1/stats/indices/search,indexing,merge"
    assert dict(request.params)["level"] == "shards"


@pytest.mark.parametrize("call", CALLS)
def test_no_request_is_repeated_large_or_long(call: Call[Any]) -> None:
    assert not call.request.is_retried
    assert call.request.max_bytes <= 16 * 1024 * 1024
    assert TransportSettings(read_timeout=600).total_limit(call.request) <= 2.0


def test_a_task_of_opensearch() -> None:
    found = read(task_list(["x"]), task_replies.task_list(listed(12, 100, cpu_ms=64.5, executions=1, active_threads=1)))
    assert found.tasks == (
        Task(
            task_id=f"{node_id('node-1')}:12",
            action=PHASE,
            started_ms=REPORT_MS - 900,
            running_ms=1_000.0,
            parent_id=f"{COORDINATOR}:7",
            opaque_id="report:nightly",
            description="shardId[[orders][0]]",
            cpu_ms=64.5,
            executions=1,
            active_threads=1,
        ),
    )
    (task,) = found.tasks
    assert (task.node_id, task.kind, task.index) == (node_id("node-1"), "indices:data/read/search", "orders")
    assert task.listed_at_ms == REPORT_MS + 100


def test_a_coordinating_task_names_what_the_client_named() -> None:
    task = read(single_task("x"), coordinating({"size": 0}, index="logs-*, orders"))
    assert task.task_id == f"{COORDINATOR}:7"
    assert (task.expression, task.index) == ("logs-*,orders", None)
    assert read(single_task("x"), {"completed": True}) is None


def test_no_literal_of_a_query_passes_for_an_index() -> None:
    asked_for = {"query": {"match": {"message": "index[123-45-6789] of shardId[[123-45-6789][0]]"}}}
    task = read(single_task("x"), coordinating(asked_for, index="logs"))
    assert (task.expression, task.index) == ("logs", None)

    scroll = listed(1, 0, description='requests[1], source[{"query":{"match":{"message":"indices[123-45-6789]"}}}]')
    (task,) = read(task_list(["x"]), task_replies.task_list(scroll)).tasks
    assert (task.expression, task.index) == (None, None)


def test_pools_that_rest_are_left_out() -> None:
    assert read(thread_pools(["x"]), pools(3)) == {
        node_id("node-1"): (PoolLoad(pool="search", active=4, queue=3, rejected=2),)
    }


def test_the_counters_of_an_index_are_those_of_its_shards() -> None:
    found = read(shard_times(["x"]), shards(orders=263))
    assert found == {
        node_id("node-1"): {"orders": IndexWork(index="orders", query_ms=263.0, index_ms=4.0, merge_ms=5.0, merges=1)}
    }


@given(json_objects)
def test_any_object_is_read_without_an_error(body: dict[str, Any]) -> None:
    for call in CALLS:
        read(call, json.loads(json.dumps(body)))
