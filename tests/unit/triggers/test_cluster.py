"""Triggers of the search cluster: when they read and capture, and which arguments are refused at parse time."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
from airflow_provider_mediaops.cluster.capture.plan import CapturePlan, TakenFor
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger, CpuSensorTrigger, HighCpuTrigger
from tests.unit.loopback import Loopback, answering
from tests.unit.scripted_cluster import CONN_ID, ScriptedCluster
from tests.unit.search_cluster import connection, http, replied, report, stats
from tests.unit.sensor_forms import a_day, first_event, made_again
from tests.unit.until import until
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

COOL, HOT = http(replied(stats({"node-1": 5}))), http(replied(stats({"node-1": 95})))
REPORT = http(replied(report("node-1")))


def capturing(folder: Path, deadline: float) -> CaptureHotThreadsTrigger:
    plan = CapturePlan(query=HotThreadsQuery(), watch=CpuWatch(85), poll_interval=0.01)
    trigger: CaptureHotThreadsTrigger = made_again(
        CaptureHotThreadsTrigger(
            conn_id="cluster_1",
            plan=plan.to_dict(),
            destination=f"{folder}/hot.txt",
            formats=["txt"],
            deadline=deadline,
            taken_for=asdict(TakenFor("dag", "run", "task", 1)),
        )
    )
    return trigger


async def captured(trigger: CaptureHotThreadsTrigger) -> Any:
    return value_of(await asyncio.wait_for(first_event(trigger), 240))


def test_trigger_reads_at_the_interval_and_more_often_while_nodes_are_hot(cluster: ScriptedCluster) -> None:
    watch = {"threshold": 85, "sustained_for": 25}
    trigger = made_again(CpuSensorTrigger(conn_id=CONN_ID, watch=watch, **a_day(30)))

    async def run() -> None:
        asyncio.get_running_loop().call_later(50, cluster.cpu.update, {"node-1": 99.0})
        assert value_of(await first_event(trigger))

    in_virtual_time(run())
    assert [at - START for at in cluster.times] == [0, 30, 60, 70, 80, 85]


async def test_a_time_limit_that_passed_while_no_triggerer_ran_ends_it_after_one_reading(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with Loopback(answering(COOL, HOT, REPORT)) as server:
        supervisor.connect("cluster_1", connection(server.base))
        outcome = await captured(capturing(tmp_path, time.time() - 1))
    assert outcome["timed_out"]
    assert not outcome["captures"]


async def test_the_event_loop_goes_on_while_files_are_written(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = CaptureFiles.keep

    begun, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        begun.set()
        # A loop that stood still meanwhile would never let it go on.
        assert go_on.wait(240)
        return written(*arguments)

    monkeypatch.setattr(CaptureFiles, "keep", slowly)
    with Loopback(answering(HOT, REPORT)) as server:
        supervisor.connect("cluster_1", connection(server.base))
        waiting = asyncio.ensure_future(captured(capturing(tmp_path, time.time() + 240)))
        await until(begun.is_set)
        go_on.set()
        assert (await waiting)["captures"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"threshold": 101}, "threshold is a number, 0 to 100"),
    ({"threshold": 0.85}, "threshold is in percent, 0 or 1 to 100; not 0.85: if that is a share of 1, write 85"),
    ({"threshold": "high"}, "threshold is a number"),
    ({"sustained_for": None}, "sustained_for is a number"),
    ({"nodes": []}, "nodes needs at least one"),
    ({"nodes": {"a": 1}}, "nodes is a list of texts"),
    ({"require": "most"}, "require is any or all"),
    ({"reading_interval": 0}, "reading_interval is a number of seconds, 0.001 or more"),
    ({"poll_interval": -1}, "poll_interval is a number of seconds, 0 or more"),
    ({"cluster_conn_id": ""}, "cluster_conn_id is empty"),
    ({"threshold": 0}, "threshold is a percentage above 0; not 0."),
    ({"clear_below": 0}, "clear_below is a percentage above 0"),
    ({"clear_below": 90}, r"up to the threshold \(85\)"),
    ({"clear_below": "low"}, "clear_below is a number"),
    ({"poll_interval": 0}, "poll_interval is a number of seconds above 0"),
    ({"nodes": ["data-node-" + "x" * 30] * 1200}, "nodes is too long: .* have 5[0-9],[0-9]{3} bytes"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED)
def test_impossible_argument_is_told_when_the_dag_is_parsed(arguments: dict[str, Any], words: str) -> None:
    trigger = HighCpuTrigger(**arguments)
    with pytest.raises(ValueError, match=f"^.*{words}"):
        trigger.serialize()
    assert repr(trigger).startswith("<airflow_provider_mediaops.triggers.cluster.HighCpuTrigger cluster_conn_id=")


def test_arguments_of_an_author_become_plain_values() -> None:
    trigger = HighCpuTrigger(sustained_for=timedelta(minutes=2), nodes=("a", "b"))
    arguments = trigger.serialize()[1]
    assert (arguments["sustained_for"], arguments["nodes"]) == (120.0, ["a", "b"])
    assert made_again(trigger).serialize() == trigger.serialize()
