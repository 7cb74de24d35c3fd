"""Capture at detection in the triggerer: what its trigger is made of, and what it does beside the call flow."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
from airflow_provider_mediaops.cluster.capture.reason import TakenFor
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import connection, http, replied, report, stats
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.until import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.conftest import Supervisor

COOL, HOT = http(replied(stats({"node-1": 5}))), http(replied(stats({"node-1": 95})))
REPORT = http(replied(report("node-1")))


def plan(**fields: Any) -> dict[str, Any]:
    query, watch = HotThreadsQuery(), CpuWatch(85)
    return CapturePlan(**{"query": query, "watch": watch, "poll_interval": 0.01, **fields}).to_dict()


def trigger(folder: Path, **arguments: Any) -> CaptureHotThreadsTrigger:
    usual = {
        "conn_id": "cluster_1",
        "plan": plan(),
        "destination": f"{folder}/hot.txt",
        "formats": ["txt"],
        "deadline": time.time() + 240,
        "taken_for": asdict(TakenFor("dag", "run", "task", 1)),
    }
    return CaptureHotThreadsTrigger(**{**usual, **arguments})


async def captured(trigger: CaptureHotThreadsTrigger) -> Any:
    return value_of(await asyncio.wait_for(first_event(trigger), 240))


class TestEvent:
    @pytest.mark.parametrize(
        "odd",
        [
            {"plan": {}},
            {"plan": {**plan(), "of_another_version": 1}},
            {"plan": {**plan(), "captures": 0}},
            {"plan": None},
            {"taken_for": None},
            {"taken_for": {"of_another_version": 1}},
            {"formats": []},
            {"deadline": "soon"},
        ],
    )
    async def test_arguments_of_another_version_are_told(self, tmp_path: Path, odd: dict[str, Any]) -> None:
        with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
            await captured(trigger(tmp_path, **odd))


class TestWait:
    async def test_a_time_limit_that_passed_while_no_triggerer_ran_ends_it_after_one_reading(
        self, supervisor: Supervisor, tmp_path: Path
    ) -> None:
        with Loopback(answering(COOL, HOT, REPORT)) as server:
            supervisor.connect("cluster_1", connection(server.base))
            outcome = await captured(made_again(trigger(tmp_path, deadline=time.time() - 1)))
        assert outcome["timed_out"]
        assert not outcome["captures"]

    async def test_the_event_loop_goes_on_while_files_are_written(
        self, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            waiting = asyncio.ensure_future(captured(trigger(tmp_path)))
            await until(begun.is_set)
            go_on.set()
            assert (await waiting)["captures"]
