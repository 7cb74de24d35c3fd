"""The deferral of a capture that waits: what reaches the triggerer, and what comes back from it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.version_compat import (
    AirflowSensorTimeout,
    AirflowSkipException,
)
from tests.airflow_names import TaskDeferred
from tests.unit.loopback import Loopback
from tests.unit.operators.capture_task import COOL, HOT, REPORT, Cluster, Task
from tests.unit.search_cluster import connection

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.conftest import Supervisor


class TestDeferral:
    def test_there_is_one_only_where_there_is_a_wait(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", when_cpu_above=None, poll_interval=30, wait_timeout=None)
        with Loopback(Cluster([COOL], [REPORT])) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            assert task.make().execute({})["bytes"]

    def test_texts_of_templates_reach_the_triggerer_as_what_they_mean(
        self, tmp_path: Path, supervisor: Supervisor
    ) -> None:
        texts = {
            "when_cpu_above": "85",
            "formats": "txt, json",
            "nodes": "node-1, node-2",
            "ignore_idle_threads": "no",
            "captures": "1",
            "sustained_for": "0",
            "poll_interval": "0.01",
        }
        result = Task(tmp_path, supervisor, "triggerer", **texts).run([COOL, HOT])
        assert list(result["paths"]) == ["txt", "json"]

    def test_airflows_own_limit_leaves_time_for_the_captures(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", wait_timeout=timedelta(hours=1), captures=3, every=10)
        with pytest.raises(TaskDeferred) as caught:
            task.make().execute({})
        assert caught.value.timeout is not None
        assert 3600 + 3 * 10 < caught.value.timeout.total_seconds() < 3600 + 600

    @pytest.mark.parametrize(("on_timeout", "cls"), [("skip", AirflowSkipException), ("fail", AirflowSensorTimeout)])
    def test_wait_without_a_triggerer_ends_as_at_the_time_limit(
        self, tmp_path: Path, supervisor: Supervisor, on_timeout: str, cls: type[Exception]
    ) -> None:
        task = Task(tmp_path, supervisor, "triggerer", on_timeout=on_timeout)
        with pytest.raises(cls, match="No spike in wait_timeout=20 s"):
            task.make().resume_execution("__fail__", {"error": "Trigger timeout"}, {})

    def test_then_the_worker_captures_all_the_same(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", on_timeout="capture")
        with Loopback(Cluster([COOL], [REPORT])) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            result = task.make().resume_execution("__fail__", {"error": "Trigger timeout"}, {})
        assert result["timed_out"]
        assert task.destination.is_file()

    def test_so_it_does_where_there_was_no_spike_to_wait_for(self, tmp_path: Path, supervisor: Supervisor) -> None:
        arguments = {"when_cpu_above": None, "poll_interval": 30, "wait_timeout": None, "captures": 2, "every": 0.01}
        task = Task(tmp_path, supervisor, "triggerer", **arguments)
        with Loopback(Cluster([COOL], [REPORT])) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            with pytest.raises(TaskDeferred) as caught:
                task.make().execute({})
            result = task.make().resume_execution("__fail__", {"error": "Trigger timeout"}, {})
        assert caught.value.timeout is not None
        assert caught.value.timeout < timedelta(minutes=10)
        assert not result["timed_out"]
        assert len(result["later_captures"]) == 1
