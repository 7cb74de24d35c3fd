"""Captures that ask what the hot nodes run: in a worker and in the triggerer, whatever the cluster says."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback
from tests.unit.operators.capture_task import FORMS, HOT, REPORT, Cluster, Task
from tests.unit.search_cluster import connection, error, http, node_id, replied
from tests.unit.task_replies import SEARCH, SECRET, coordinating, listed, pools, shards, task_list

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor
    from tests.unit.loopback import Peer

LIST = replied(task_list(listed(1, 0, cpu_ms=100.0)))
FORBIDDEN = replied(error(403, "security_exception", f"no permissions for [cluster:monitor/tasks/lists] {SECRET}"), 403)
QUICK: Any = {"interval": "20ms", "snapshots": 1}


class TaskCluster(Cluster):
    """A cluster that reports its threads once its tasks were looked at so often."""

    def __init__(self, *, looks: int = 0, tasks: Response | None = LIST) -> None:
        super().__init__([HOT], [REPORT])
        self._answers: dict[str, Response | None] = {
            "os,jvm,thread_pool": replied({}),
            "thread_pool": replied(pools()),
            "level=shards": replied(shards(orders=100)),
            "/_tasks?": tasks,
            "/_tasks/": replied(coordinating({"query": {"match": {"ssn": SECRET}}})),
            "stats/os": HOT,
        }
        self._looks_left = threading.Semaphore(0)
        self._looks = looks

    def __call__(self, peer: Peer) -> None:
        while request := peer.request():
            path = request.split()[1].decode()
            self.asked.append(path)
            if "hot_threads" in path:
                for _ in range(self._looks):
                    self._looks_left.acquire(timeout=240)
                peer.send(http(REPORT))
                continue
            answer = next((reply for part, reply in self._answers.items() if part in path), replied({}))
            if "/_tasks?" in path:
                self._looks_left.release()
            if answer is None:
                peer.wait_for_the_end()
                return
            peer.send(http(answer))

    def count(self, part: str) -> int:
        return sum(part in path for path in self.asked)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the report wait for the end of all looks, however busy the machine is."""
    monkeypatch.setattr("airflow_provider_mediaops.cluster.running_tasks.sampling.GRACE_SECONDS", 240.0)
    monkeypatch.setattr("airflow_provider_mediaops.cluster.running_tasks.replies._MAX_SECONDS", 240.0)


def written(folder: Path, name: str = "hot.json") -> Any:
    return json.loads((folder / name).read_text())


@pytest.mark.parametrize("form", FORMS)
class TestBothForms:
    @pytest.mark.usefixtures("unhurried")
    def test_the_groups_are_in_the_files_and_the_heaviest_in_the_result(
        self, tmp_path: Path, supervisor: Supervisor, form: str
    ) -> None:
        cluster = TaskCluster()
        task = Task(tmp_path, supervisor, form, running_tasks=True, formats=["txt", "json"], **QUICK)
        (heaviest,) = task.run_at(cluster)["groups"]
        (node,) = written(tmp_path)["running_tasks"]["nodes"]
        (group,) = node["groups"]
        assert (node["node"], heaviest.pop("node"), node["node_id"]) == ("node-1", "node-1", node_id("node-1"))
        assert node["pools"] == [{"pool": "search", "active": 4, "queue": 0, "rejected": 2}]
        assert (group["action"], group["opaque_id"], group["index"]) == (SEARCH, "report:nightly", "orders")
        assert (group["shape"], group["query"]) == ('{"query":{"match":{"ssn":"?"}}}', None)
        assert {"opaque_id", "index", "seen", "running", "longest_ms"} < set(heaviest)
        assert heaviest == {name: group[name] for name in heaviest}
        assert cluster.count("/_tasks?") == cluster.count(f"nodes={node_id('node-1')}") == 3

    @pytest.mark.usefixtures("unhurried")
    def test_the_query_is_in_the_files_only_where_asked_for_and_nowhere_else(
        self, tmp_path: Path, supervisor: Supervisor, form: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        for shows in ("False", "True"):
            task = Task(tmp_path, supervisor, form, running_tasks="True", show_queries=shows, formats="json", **QUICK)
            result = task.run_at(TaskCluster())
            assert SECRET not in json.dumps(result)
            assert (SECRET in (tmp_path / "hot.json").read_text()) == (shows == "True")
        assert SECRET not in caplog.text

    @pytest.mark.usefixtures("unhurried")
    def test_refused_list_of_tasks_is_logged_once_and_costs_no_capture(
        self, tmp_path: Path, supervisor: Supervisor, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, CaptureHotThreadsOperator if form == "worker" else CaptureHotThreadsTrigger)
        cluster = TaskCluster(tasks=FORBIDDEN)
        task = Task(tmp_path, supervisor, form, running_tasks=True, captures=3, every=0.01, formats="json", **QUICK)
        result = task.run_at(cluster)
        assert [taken["groups"] for taken in [result, *result["later_captures"]]] == [[], [], []]
        assert result["failures"] == []
        (told,) = [line for line in lines if "WARNING" in line and "tasks" in line]
        assert "the connection's user may not. Give it" in told
        assert SECRET not in str(lines)
        assert cluster.count("/_tasks?") == 1
        for number in (1, 2, 3):
            (remark,) = written(tmp_path, f"hot.{number}.json")["running_tasks"]["remarks"]
            assert remark in told

    def test_list_of_tasks_that_never_comes_costs_no_capture(
        self, tmp_path: Path, supervisor: Supervisor, form: str
    ) -> None:
        task = Task(tmp_path, supervisor, form, running_tasks=True, formats="json", **QUICK)
        # The report comes while the list is under way, and nobody answers that one.
        result = task.run_at(TaskCluster(tasks=None, looks=1))
        assert result["bytes"]
        assert written(tmp_path)["running_tasks"]["nodes"][0]["groups"] == []
        assert not [
            thread for thread in threading.enumerate() if thread.name == "mediaops-beside" and not thread.daemon
        ]


@pytest.mark.usefixtures("unhurried")
def test_notifier_writes_the_groups(supervisor: Supervisor, tmp_path: Path) -> None:
    with Loopback(TaskCluster()) as server:
        supervisor.connect("mediaops_cluster_default", connection(server.base))
        CaptureHotThreadsNotifier(
            destination=f"{tmp_path}/hot.txt", running_tasks=True, formats=["json", "html"], **QUICK
        )({})

    assert written(tmp_path)["running_tasks"]["nodes"][0]["groups"][0]["opaque_id"] == "report:nightly"
    assert SECRET not in (tmp_path / "hot.html").read_text()


def test_queries_of_tasks_that_nobody_asks_for_are_refused() -> None:
    for make in (
        lambda **given: CaptureHotThreadsOperator(task_id="t", destination="/tmp/a.txt", **given),  # noqa: S108
        CaptureHotThreadsNotifier,
    ):
        with pytest.raises(InvalidArgumentError, match="give running_tasks=True"):
            make(show_queries=True)
        make(show_queries=True, running_tasks="{{ params.tasks }}")
        make(show_queries="{{ params.tasks }}")
