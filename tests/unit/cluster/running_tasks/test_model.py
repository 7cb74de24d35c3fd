"""What nodes ran, as it is written into the JSON file and read again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.running_tasks.model import MOST_PARTS, NodeTasks, RunningTasks, TaskGroup
from tests.unit.cluster.task_values import TASKS

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["nodes", "groups", "threads", "seen", "cpu_ms", "remarks", "x"]), inner)
    ),
    max_leaves=12,
)


def test_what_is_written_is_read_again() -> None:
    assert RunningTasks.from_dict(json.loads(json.dumps(TASKS.to_dict()))) == TASKS


def test_it_is_written_in_plain_values_by_the_names_that_readers_know() -> None:
    node = TASKS.to_dict()["nodes"][0]
    assert (node["node_id"], node["node"]) == ("id_of_n1", "n1")
    names = ["action", "opaque_id", "index", "shape", "seen", "running", "queued", "longest_ms", "cpu_ms"]
    assert {*names, "cpu_share_percent", "pool"} <= set(node["groups"][0])
    assert type(node["groups"]) is list


@given(json_values)
def test_any_value_is_read_without_an_error(value: object) -> None:
    read = RunningTasks.from_dict(value)
    json.dumps(read.to_dict(), allow_nan=False)
    assert all(node.label or not node.node_id for node in read.nodes)


def test_what_no_capture_holds_is_not_read_to_its_end() -> None:
    read = RunningTasks.from_dict({"nodes": [{"groups": [{}] * 1_000_000}, *[{}] * 1_000_000]})
    assert (len(read.nodes), len(read.nodes[0].groups)) == (MOST_PARTS, MOST_PARTS)


def test_values_of_another_type_get_their_default() -> None:
    read = RunningTasks.from_dict({"nodes": [{"node_id": 5, "looks_ms": ["x", 2], "groups": [{"seen": "soon"}]}, 7]})
    assert read.nodes[0] == NodeTasks(looks_ms=(2.0,), groups=(TaskGroup(),))
    assert read.nodes[1] == NodeTasks()
