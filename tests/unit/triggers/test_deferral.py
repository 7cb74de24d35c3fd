"""Whether a task waits in the triggerer, and how soon it may resume."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_mediaops.triggers.cluster import CpuSensorTrigger
from airflow_provider_mediaops.triggers.deferral import value_of
from tests.unit.scripted_cluster import CONN_ID, ScriptedCluster
from tests.unit.sensor_forms import a_day, first_event
from tests.unit.virtual_time import START, in_virtual_time


class TestSettled:
    """apache/airflow#71580: a task that resumes within seconds of its deferral may be failed."""

    @staticmethod
    def seconds_to_the_event(*, in_a_triggerer: bool, **watch: Any) -> float:
        trigger = CpuSensorTrigger(conn_id=CONN_ID, watch={"threshold": 85, **watch}, poke_interval=1, **a_day())
        if in_a_triggerer:
            trigger.trigger_id = 7

        async def run() -> float:
            assert value_of(await first_event(trigger))
            return asyncio.get_running_loop().time() - START

        return in_virtual_time(run())

    def test_the_event_of_a_task_comes_after_ten_seconds(self, cluster: ScriptedCluster) -> None:
        cluster.cpu["node-1"] = 99.0
        assert self.seconds_to_the_event(in_a_triggerer=True, sustained_for=2) == 10
        assert cluster.times[-1] == START + 2

    def test_a_longer_wait_is_not_prolonged(self, cluster: ScriptedCluster) -> None:
        cluster.cpu["node-1"] = 99.0
        assert self.seconds_to_the_event(in_a_triggerer=True, sustained_for=20) == 20

    def test_it_costs_nothing_if_there_is_no_scheduler(self, cluster: ScriptedCluster) -> None:
        cluster.cpu["node-1"] = 99.0
        assert self.seconds_to_the_event(in_a_triggerer=False, sustained_for=2) == 2
