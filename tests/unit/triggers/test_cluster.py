"""Waiting for hot nodes in the triggerer: when it reads, and what the trigger that starts DAGs refuses."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.cluster import CpuSensorTrigger, HighCpuTrigger
from tests.unit.scripted_cluster import CONN_ID, ScriptedCluster
from tests.unit.search_cluster import replied, stats
from tests.unit.sensor_forms import a_day, first_event, made_again
from tests.unit.virtual_time import START, in_virtual_time

HOT, COOL = replied(stats({"node-1": 95, "node-2": 5})), replied(stats({"node-1": 5, "node-2": 5}))


WATCH = ("threshold", "sustained_for", "nodes", "require", "reading_interval")


def waiting(poll_interval: float = 30, **arguments: Any) -> CpuSensorTrigger:
    watch = {"threshold": 85, "sustained_for": 60} | {name: arguments.pop(name) for name in WATCH if name in arguments}
    made = CpuSensorTrigger(**{"conn_id": CONN_ID, "watch": watch, **a_day(poll_interval), **arguments})
    trigger: CpuSensorTrigger = made_again(made)
    return trigger


class TestPace:
    @staticmethod
    def times(cluster: ScriptedCluster, hot_from: float, **arguments: Any) -> list[float]:
        """Wait for a node that is hot from a moment on; give the moments of the readings."""

        async def run() -> None:
            asyncio.get_running_loop().call_later(hot_from, cluster.cpu.update, {"node-1": 99.0})
            assert value_of(await first_event(waiting(**{"sustained_for": 0, **arguments})))

        in_virtual_time(run())
        return [at - START for at in cluster.times]

    def test_trigger_reads_at_the_interval_and_more_often_while_nodes_are_hot(self, cluster: ScriptedCluster) -> None:
        assert self.times(cluster, 50, sustained_for=25, poll_interval=30) == [0, 30, 60, 70, 80, 85]

    def test_trigger_goes_on_from_the_sensors_own_look(self, cluster: ScriptedCluster) -> None:
        async def run() -> None:
            asyncio.get_running_loop().call_later(45, cluster.cpu.update, {"node-1": 99.0})
            await first_event(waiting(sustained_for=0, poll_interval=10, first_reading=time.time() + 20))

        in_virtual_time(run())
        assert [round(at - START) for at in cluster.times] == [20, 30, 40, 50]

    def test_waits_on_one_cluster_share_its_readings(self, cluster: ScriptedCluster) -> None:
        async def run() -> None:
            asyncio.get_running_loop().call_later(25, cluster.cpu.update, {"node-1": 99.0})
            ends = await asyncio.gather(*(first_event(waiting(sustained_for=0, poll_interval=10)) for _ in range(50)))
            assert all(value_of(event) == value_of(ends[0]) for event in ends)

        in_virtual_time(run())
        assert [at - START for at in cluster.times] == [0, 10, 20, 30]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"threshold": -1.0}, "threshold is a number, 0 or more"),
    ({"threshold": 101}, "threshold is a number, 0 to 100"),
    ({"threshold": 0.85}, "threshold is in percent, 0 or 1 to 100; not 0.85: if that is a share of 1, write 85"),
    ({"threshold": "85"}, "threshold is a number"),
    ({"threshold": True}, "threshold is a number"),
    ({"threshold": float("nan")}, "threshold is a number"),
    ({"sustained_for": None}, "sustained_for is a number"),
    ({"sustained_for": float("inf")}, "sustained_for is a number"),
    ({"nodes": []}, "nodes needs at least one"),
    ({"nodes": {"a": 1}}, "nodes is ids or names"),
    ({"nodes": [None]}, "an entry of nodes is a text"),
    ({"require": "most"}, "require is any or all"),
    ({"require": ["any"]}, "require is any or all"),
    ({"reading_interval": 0}, "reading_interval is a number of seconds above 0"),
    ({"poll_interval": -1}, "poll_interval is a number, 0 or more"),
    ({"cluster_conn_id": ""}, "cluster_conn_id is the id of a connection"),
    ({"cluster_conn_id": None}, "cluster_conn_id is the id of a connection"),
]
REFUSED_ALSO = [
    *REFUSED,
    ({"threshold": 0}, "threshold is a number above 0; not 0"),
    ({"clear_below": 0}, "clear_below is a percentage above 0"),
    ({"clear_below": 90}, r"up to the threshold \(85\)"),
    ({"clear_below": "low"}, "clear_below is a number"),
    ({"poll_interval": 0}, "poll_interval is a number above 0"),
    ({"poll_interval": 10**400}, "poll_interval is a number, 0 or more, up to 1e"),
    ({"nodes": ["data-node-" + "x" * 30] * 1200}, "nodes is too long: .* have 5[0-9],[0-9]{3} bytes"),
]


class TestArguments:
    @pytest.mark.parametrize(("arguments", "words"), REFUSED_ALSO)
    def test_impossible_argument_is_told_when_the_dag_is_parsed(self, arguments: dict[str, Any], words: str) -> None:
        trigger = HighCpuTrigger(**arguments)
        with pytest.raises(ValueError, match=f"^.*{words}"):
            trigger.serialize()
        assert repr(trigger).startswith("<airflow_provider_mediaops.triggers.cluster.HighCpuTrigger cluster_conn_id=")

    def test_arguments_of_an_author_become_plain_values(self) -> None:
        trigger = HighCpuTrigger(sustained_for=timedelta(minutes=2), nodes=("a", "b"))
        arguments = trigger.serialize()[1]
        assert (arguments["sustained_for"], arguments["nodes"]) == (120.0, ["a", "b"])
        assert made_again(trigger).serialize() == trigger.serialize()

    @pytest.mark.airflow(">=3.2")
    def test_a_tasks_trigger_keeps_to_the_tasks_queue(self) -> None:
        assert waiting().supports_triggerer_queue is True
        assert HighCpuTrigger().supports_triggerer_queue is False
