"""The notifier that captures hot threads: where it writes, what, and that its failure stays its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier
from tests.callback_contexts import RUN_ID, of_a_dag, of_a_deadline, of_a_task
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import COUNTERS, connection, http, replied, report, stats

if TYPE_CHECKING:
    import requests_mock

    from tests.unit.conftest import Supervisor

BASE = "http://cluster.example:9200"


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor, tmp_path: Path) -> Path:
    """Have Airflow's log folder."""
    supervisor.connect("mediaops_cluster_default", connection(BASE))
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))
    return tmp_path / "logs"


@pytest.fixture
def cluster(requests_mock: requests_mock.Mocker) -> requests_mock.Mocker:
    requests_mock.get(f"{BASE}/_nodes/stats/os,process", json=stats({"node-1": 95}))
    requests_mock.get(f"{BASE}/_nodes/hot_threads", text=report("node-1"))
    requests_mock.get(COUNTERS, json={})
    return requests_mock


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return log_lines(monkeypatch, CaptureHotThreadsNotifier)


def files(folder: Path) -> list[str]:
    """Give the paths of all files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestAsCallback:
    @pytest.mark.usefixtures("cluster")
    def test_notifier_writes_to_the_rendered_destination(self, tmp_path: Path, lines: list[str]) -> None:
        notifier = CaptureHotThreadsNotifier(destination=f"{tmp_path}/{{{{ ti.task_id }}}}-{{{{ ti.try_number }}}}.txt")
        notifier(of_a_task())
        assert files(tmp_path) == ["load-2.json", "load-2.txt"]
        assert (tmp_path / "load-2.txt").read_text() == report("node-1")
        assert json.loads((tmp_path / "load-2.json").read_text())["nodes"][0]["name"] == "node-1"
        (line,) = lines
        assert line.startswith(f"INFO: Captured the hot threads of 1 node: {tmp_path}/load-2.{{txt,json}}; ")

    @pytest.mark.usefixtures("cluster")
    def test_its_page_names_the_attempt(self, tmp_path: Path) -> None:
        CaptureHotThreadsNotifier(destination=f"{tmp_path}/hot.html", formats="html")(of_a_task())
        header = (tmp_path / "hot.html").read_text().partition('<h2 id="hot">')[0]
        for shown in ("at once, by a notifier", "nightly", "<dd>load</dd>", "<dt>Try</dt><dd>2</dd>"):
            assert shown in header

    @pytest.mark.usefixtures("cluster")
    def test_each_try_and_each_dag_has_a_place_of_its_own_by_default(self, logs: Path) -> None:
        mapped = of_a_task()
        mapped["ti"].map_index = 3
        notifier = CaptureHotThreadsNotifier(formats=["txt"])
        for context in (of_a_task(), mapped, of_a_dag()):
            notifier(context)
        run = f"hot_threads/dag_id=nightly/run_id={RUN_ID}"
        of_the_dag, *of_the_tasks = files(logs)
        assert of_the_dag.startswith(f"{run}/attempt=2")
        assert of_the_tasks == [f"{run}/task_id=load/attempt=2.txt", f"{run}/task_id=load/map_index=3/attempt=2.txt"]

    @pytest.mark.usefixtures("cluster")
    @pytest.mark.parametrize("name", ["../../up", "a/b"])
    def test_no_name_leads_out_of_that_place(self, logs: Path, name: str) -> None:
        context = of_a_task()
        context["ti"].run_id = name
        CaptureHotThreadsNotifier(formats="txt")(context)
        (written,) = files(logs)
        assert written.startswith("hot_threads/dag_id=nightly/run_id=")
        assert len(Path(written).parts) == 5

    def test_the_query_reaches_the_cluster(self, cluster: requests_mock.Mocker, tmp_path: Path) -> None:
        cluster.get(f"{BASE}/_nodes/a,b/stats/os,process", json=stats({"a": 1, "b": 2}))
        cluster.get(f"{BASE}/_nodes/a,b/hot_threads", text=report("a", "b"))
        notifier = CaptureHotThreadsNotifier(
            destination=tmp_path / "{{ params.name }}.txt",
            nodes="{{ params.nodes }}",
            threads="{{ params.threads }}",
            type="{{ params.type }}",
        )
        notifier({"params": {"nodes": "a,b", "threads": 9999, "type": "wait", "name": "hot"}})
        assert (tmp_path / "hot.txt").exists()
        assert cluster.request_history[1].qs == {"threads": ["9999"], "type": ["wait"]}


class TestAsDeadlineAlert:
    async def test_notifier_on_an_event_loop_renders_the_context_of_the_run(
        self, supervisor: Supervisor, logs: Path, lines: list[str]
    ) -> None:
        answers = [http(replied(stats({"node-1": 95}))), http(replied(report("node-1")))]
        with Loopback(answering(*answers)) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            context: Any = of_a_deadline(run_id="r-1")
            await CaptureHotThreadsNotifier(formats=["txt"], context=context)
        (written,) = files(logs)
        assert written.startswith("hot_threads/dag_id=nightly/run_id=r-1/attempt=")
        assert (logs / written).read_text() == report("node-1")
        assert lines[0].startswith("INFO: Captured")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"nodes": []}, "nodes"), ({"formats": ["pdf"]}, "formats"), ({"destination": "/out/"}, "destination")],
)
def test_notifier_with_arguments_that_cannot_be_used_raises_at_parse_time(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word} "):
        CaptureHotThreadsNotifier(**arguments)
