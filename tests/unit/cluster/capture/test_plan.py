"""The plan of a capture at detection: what it refuses, and that it outlives the way into the triggerer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
from airflow_provider_mediaops.cluster.cpu import CpuWatch
from airflow_provider_mediaops.cluster.query import HotThreadsQuery


def plan(**fields: Any) -> CapturePlan:
    return CapturePlan(**{"query": HotThreadsQuery(), "watch": CpuWatch(85), "poll_interval": 30, **fields})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"poll_interval": 0}, "poll_interval"),
        ({"poll_interval": float("inf")}, "poll_interval"),
        ({"poll_interval": 1e10}, "poll_interval"),
        ({"every": -1}, "every"),
        ({"every": 1e308}, "every"),
        ({"every": float("nan")}, "every"),
        ({"captures": 0}, "captures"),
        ({"captures": 51}, "captures"),
        ({"captures": True}, "captures"),
        ({"captures": 1.5}, "captures"),
        ({"on_timeout": "wait"}, "on_timeout"),
    ],
)
def test_what_can_never_be_is_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word} "):
        plan(**fields)


@pytest.mark.parametrize("watch", [None, CpuWatch(85, sustained_for=60, nodes=["a"], require="all")])
def test_it_is_made_again_of_plain_values(watch: CpuWatch | None) -> None:
    planned = plan(query=HotThreadsQuery(["a"], type="wait"), watch=watch, captures=3, on_timeout="capture")
    again = CapturePlan.from_dict(json.loads(json.dumps(planned.to_dict())))
    assert again == planned


def test_the_time_that_captures_may_take_is_known() -> None:
    planned = plan(query=HotThreadsQuery(), captures=3, every=10)
    assert planned.seconds == 3 * (10 + HotThreadsQuery().read_timeout)
    assert replace(planned, captures=1).seconds < planned.seconds
