"""Captures by their operator, at a cluster whose CPU and reports are made up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.unit.loopback import Loopback, Peer
from tests.unit.operators.forms import in_triggerer
from tests.unit.search_cluster import connection, error, http, replied, report, stats

if TYPE_CHECKING:
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

    def run(self, cpu: list[Response], reports: list[Response] | None = None, **fields: Any) -> dict[str, Any]:
        """Run it to its end at such a cluster, with a connection of these fields."""
        return self.run_at(Cluster(cpu, reports or [REPORT]), **fields)

    def run_at(self, cluster: Cluster, **fields: Any) -> dict[str, Any]:
        """Run it to its end at this cluster."""
        self.cluster = cluster
        with Loopback(self.cluster) as server:
            self._supervisor.connect("mediaops_cluster_default", connection(server.base, **fields))
            if self._form == "triggerer":
                return in_triggerer(self.make(), self.context)
            result: dict[str, Any] = self.make().execute(self.context)
            return result
