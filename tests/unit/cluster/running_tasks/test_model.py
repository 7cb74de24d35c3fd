"""What nodes ran, as it is written into the JSON file and read again."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
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
def test_any_value_is_read_or_refused(value: object) -> None:
    with suppress(ValueError):
        json.dumps(RunningTasks.from_dict(value).to_dict())


@pytest.mark.parametrize("odd", [None, [], {"nodes": 5}, {"nodes": [{"groups": [{"seen": "soon"}]}]}])
def test_what_is_something_else_is_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"^(Expected|Invalid)"):
        RunningTasks.from_dict(odd)
