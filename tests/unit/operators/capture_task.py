"""Captures by their operator, at a cluster whose CPU and reports are made up."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.airflow_names import TaskDeferred
from tests.unit.call_flows import on_a_loop
from tests.unit.loopback import Loopback, Peer
from tests.unit.search_cluster import connection, error, http, replied, report, stats
from tests.unit.sensor_forms import first_event, made_again

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor

FORMS = ("worker", "triggerer")
COOL, HOT = replied(stats({"node-1": 10, "node-2": 10})), replied(stats({"node-1": 95, "node-2": 10}))
REPORT = replied(report("node-1"))
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)


class Cluster:
    """A cluster that reads its CPU, and reports its threads, as it is told; the last of each again and again."""

    def __init__(self, stats: list[Response], reports: list[Response]) -> None:
        self.asked: list[str] = []
        self._left = {"stats": list(stats), "threads": list(reports)}

    def __call__(self, peer: Peer) -> None:
        while request := peer.request():
            path = request.split()[1].decode()
            self.asked.append(path)
            left = self._left["threads" if "hot_threads" in path else "stats"]
            peer.send(http(left.pop(0) if len(left) > 1 else left[0]))


class Task:
    """A task that captures below a folder."""

    def __init__(self, folder: Path, supervisor: Supervisor, form: str, **arguments: Any) -> None:
        self.destination = folder / "hot.txt"
        self.cluster = Cluster([COOL], [REPORT])
        self._supervisor = supervisor
        self._form = form
        self.context: Context = {}
        self._arguments = {"when_cpu_above": 85, "poll_interval": 0.01, "wait_timeout": 20, **arguments}

    def make(self) -> CaptureHotThreadsOperator:
        deferrable = self._form == "triggerer"
        arguments = {"task_id": "capture", "destination": str(self.destination), **self._arguments}
        return CaptureHotThreadsOperator(deferrable=deferrable, **arguments)

    def run(self, cpu: list[Response], reports: list[Response] | None = None) -> dict[str, Any]:
        """Run it to its end at such a cluster."""
        return self.run_at(Cluster(cpu, reports or [REPORT]))

    def run_at(self, cluster: Cluster) -> dict[str, Any]:
        """Run it to its end at this cluster."""
        self.cluster = cluster
        with Loopback(self.cluster) as server:
            self._supervisor.connect("mediaops_cluster_default", connection(server.base))
            result: dict[str, Any] = (
                self._in_triggerer() if self._form == "triggerer" else self.make().execute(self.context)
            )
            return result

    def _in_triggerer(self) -> Any:
        with pytest.raises(TaskDeferred) as caught:
            self.make().execute(self.context)
        assert not self.cluster.asked
        trigger = made_again(caught.value.trigger)
        payload = on_a_loop(asyncio.wait_for(first_event(trigger), 240))
        assert len(json.dumps(payload)) < 5000
        return self.make().resume_execution(caught.value.method_name, {"event": payload}, self.context)
