"""The operator that waits for a spike: in a worker and in the triggerer, with the same files, result and end."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from html import unescape
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    NotFoundError,
    ServiceUnavailableError,
    StorageError,
    TemporaryError,
)
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.triggers.event import done_event
from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY
from tests.unit.conversations import on_a_loop
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, Peer
from tests.unit.search_cluster import connection, error, http, node_id, replied, report, stats
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
PERMANENT = AirflowFailException if not HAS_RETRY_POLICY else AuthenticationError


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
        self.cluster = Cluster(cpu, reports or [REPORT])
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
        trigger.settled_after = 0.0
        payload = on_a_loop(asyncio.wait_for(first_event(trigger), 240))
        assert len(json.dumps(payload)) < 5000
        return self.make().resume_execution(caught.value.method_name, {"event": payload}, self.context)


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    form: str = request.param
    return form


class TestBothForms:
    def test_the_spike_is_captured_as_it_is_seen(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        task = Task(tmp_path / "deep", supervisor, form)
        result = task.run([COOL, COOL, HOT, COOL])
        *asked, cores = task.cluster.asked
        assert asked == [*["/_nodes/stats/os,process"] * 3, f"/_nodes/{node_id('node-1')}/hot_threads"]
        assert cores == f"/_nodes/{node_id('node-1')}/os?timeout=5s"
        assert task.destination.read_text() == report("node-1")
        names = ["txt", "json", "folded", "html"]
        assert result["paths"] == {name: str(task.destination.with_suffix(f".{name}")) for name in names}
        assert sorted(path.name for path in task.destination.parent.iterdir()) == sorted(
            f"hot.{name}" for name in names
        )
        assert result["cpu"] == [{"node": "node-1", "percent": 95.0, "source": "os"}]
        assert result["hottest"][0]["thread"] == "opensearch[node-1][search][T#1]"
        assert not result["timed_out"]
        assert len(result["captures"]) == 1

    @pytest.mark.parametrize(
        ("cpu", "on_timeout", "cause"),
        [(HOT, "skip", "CPU ≥ 85 %, any of"), (COOL, "capture", "at the time limit of the wait; not seen: CPU ≥ 85 %")],
    )
    def test_the_page_says_why_and_for_which_attempt(
        self, tmp_path: Path, supervisor: Supervisor, form: str, *, cpu: Response, on_timeout: str, cause: str
    ) -> None:
        task = Task(tmp_path, supervisor, form, on_timeout=on_timeout, wait_timeout=0.5 if cpu is COOL else 240)
        ti = SimpleNamespace(dag_id="nightly", run_id="<r1>", task_id="c", try_number=2, map_index=7)
        task.context = cast("Context", {"ti": ti})
        task.run([cpu])
        header = unescape((tmp_path / "hot.html").read_text().partition('<h2 id="hot">')[0])
        for shown in (cause, "nightly", "<r1>", "<dt>Try</dt><dd>2</dd>", "<dt>Map index</dt><dd>7</dd>"):
            assert shown in header

    def test_it_may_have_to_last(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        task = Task(tmp_path, supervisor, form, sustained_for=timedelta(seconds=0.05), formats=["txt"])
        task.run([HOT, COOL, HOT])
        assert len(task.cluster.asked) >= 3 + 2
        assert task.destination.is_file()

    def test_a_failed_capture_is_noted_and_the_wait_goes_on(
        self, tmp_path: Path, supervisor: Supervisor, form: str
    ) -> None:
        result = Task(tmp_path, supervisor, form, poll_interval=0.001).run([HOT], [DOWN, REPORT])
        (failure,) = result["failures"]
        assert failure["error"] == "ServiceUnavailableError"
        assert result["failure_count"] == 1
        assert result["bytes"]

    def test_several_are_taken_and_shown_together(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        task = Task(tmp_path, supervisor, form, captures=3, every=0.01, formats=["txt", "html"])
        result = task.run([HOT], [REPORT, replied(report("node-1", share=50))])
        assert [taken["paths"]["txt"][-9:] for taken in result["captures"]] == ["hot.1.txt", "hot.2.txt", "hot.3.txt"]
        assert result["paths"] == {"txt": f"{tmp_path}/hot.1.txt", "html": f"{tmp_path}/hot.html"}
        assert result["hottest"][0]["percent"] == 97.5
        assert [taken["hottest"][0]["percent"] for taken in result["captures"]] == [97.5, 50, 50]
        assert len(list(tmp_path.iterdir())) == 4

    @pytest.mark.parametrize(
        ("on_timeout", "cls"), [("skip", AirflowSkipException), ("fail", AirflowSensorTimeout)], ids=["skip", "fail"]
    )
    def test_the_time_limit_ends_it(
        self, tmp_path: Path, supervisor: Supervisor, form: str, on_timeout: str, cls: type[Exception]
    ) -> None:
        task = Task(tmp_path, supervisor, form, on_timeout=on_timeout, wait_timeout=0.1, sustained_for=0.05)
        with pytest.raises(
            cls, match=r"No spike in wait_timeout=0\.1 s: the CPU was not at 85 % or more for 0\.05 s\.$"
        ):
            task.run([COOL])
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("on_timeout", ["skip", "fail"])
    def test_a_spike_that_could_not_be_captured_is_no_calm(
        self, tmp_path: Path, supervisor: Supervisor, form: str, on_timeout: str
    ) -> None:
        # A busy machine may need longer than the limit for its first reading: then it is tried with a longer one.
        for wait_timeout in (0.3, 3, 30, 240):
            task = Task(tmp_path, supervisor, form, on_timeout=on_timeout, wait_timeout=wait_timeout)
            with pytest.raises((TemporaryError, AirflowSkipException, AirflowSensorTimeout)) as failed:
                task.run([HOT], [DOWN])
            if any("hot_threads" in path for path in task.cluster.asked):
                break
        assert isinstance(failed.value, TemporaryError)
        assert re.search(r"none of [1-9]\d* captures worked. The last error: .*no master", str(failed.value))

    def test_then_all_nodes_may_be_captured(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        task = Task(tmp_path, supervisor, form, on_timeout="capture", wait_timeout=0.1, nodes=["node-1"])
        result = task.run([COOL])
        assert result["timed_out"]
        # In the triggerer, shared readings may go on meanwhile; of hot threads there is this one request.
        assert [path for path in task.cluster.asked if "hot_threads" in path] == ["/_nodes/node-1/hot_threads"]
        assert task.destination.is_file()

    def test_a_refusal_is_raised_with_its_type(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        with pytest.raises(PERMANENT, match="401"):
            Task(tmp_path, supervisor, form).run([replied("Unauthorized", 401)])

    def test_nodes_that_the_cluster_does_not_know_are_named(
        self, tmp_path: Path, supervisor: Supervisor, form: str
    ) -> None:
        with pytest.raises(NotFoundError if HAS_RETRY_POLICY else AirflowFailException, match="'node-8' or 'node-9'"):
            Task(tmp_path, supervisor, form, nodes="node-8,node-9").run([replied(stats({}))])

    def test_a_place_that_cannot_be_written_is_told_before_anything_is_asked(
        self, tmp_path: Path, supervisor: Supervisor, form: str
    ) -> None:
        (tmp_path / "hot.json").mkdir()
        task = Task(tmp_path, supervisor, form)
        supervisor.connect("mediaops_cluster_default", connection("http://cluster.example"))
        with pytest.raises(OSError, match=r"hot\.json cannot be written"):
            task.make().execute({})


class TestDeferral:
    def test_there_is_one_only_where_there_is_a_wait(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", when_cpu_above=None, poll_interval=30, wait_timeout=None)
        with Loopback(Cluster([COOL], [REPORT])) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            assert task.make().execute({})["bytes"]

    def test_several_captures_at_once_wait_in_between(self, tmp_path: Path, supervisor: Supervisor) -> None:
        arguments = {"when_cpu_above": None, "poll_interval": 30, "wait_timeout": None, "captures": 2, "every": 0.01}
        result = Task(tmp_path, supervisor, "triggerer", **arguments).run([COOL])
        assert len(result["captures"]) == 2

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

    def test_the_default_is_that_of_airflow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def make() -> CaptureHotThreadsOperator:
            return CaptureHotThreadsOperator(task_id="capture", destination="/out/hot.txt", when_cpu_above=85)

        assert not make().deferrable
        monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
        assert make().deferrable

    @pytest.mark.parametrize(("on_timeout", "cls"), [("skip", AirflowSkipException), ("fail", AirflowSensorTimeout)])
    def test_a_triggerer_that_was_not_there_counts_as_the_time_limit(
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
        assert len(result["captures"]) == 2

    def test_an_event_of_version_0_1_about_files_is_read(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer")
        event = done_event({"unwritable": [13, "/out/hot.txt cannot be written: Permission denied"]})
        with pytest.raises(StorageError, match=r"hot\.txt cannot be written"):
            task.make().execute_complete({}, event)


class TestLog:
    def test_a_long_wait_says_what_changes_and_no_more(
        self, tmp_path: Path, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, CaptureHotThreadsOperator)
        Task(tmp_path, supervisor, "worker", formats=["txt"], nodes="node-1,node-9").run([COOL] * 20 + [HOT])
        assert lines == [
            "WARNING: Only some of the nodes are watched: the cluster knows no node node-9.",
            "INFO: Waiting: no node's CPU is at 85 % or more",
            (
                f"INFO: Captured the hot threads of 1 node(s): {tmp_path}/hot.txt; "
                "hottest: 97.5 % opensearch[node-1][search][T#1] on node-1, Search.run"
            ),
        ]


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ({"when_cpu_above": 100.1}, "when_cpu_above"),
            ({"when_cpu_above": -1}, "when_cpu_above"),
            ({"when_cpu_above": "hot"}, "when_cpu_above"),
            ({"nodes": []}, "nodes"),
            ({"sustained_for": -1}, "sustained_for"),
            ({"sustained_for": "long"}, "sustained_for"),
            ({"sustained_for": 60, "wait_timeout": 60}, "sustained_for"),
            ({"require": "some"}, "require"),
            ({"poll_interval": 0}, "poll_interval"),
            ({"wait_timeout": 0}, "wait_timeout"),
            ({"wait_timeout": float("inf")}, "wait_timeout"),
            ({"on_timeout": "retry"}, "on_timeout"),
            ({"captures": 0}, "captures"),
            ({"captures": "few"}, "captures"),
            ({"every": timedelta(0)}, "every"),
            ({"formats": ["svg"]}, "formats"),
            ({"threads": 0, "when_cpu_above": "{{ params.threshold }}"}, "threads"),
            ({"on_timeout": "retry", "nodes": "{{ params.nodes }}"}, "on_timeout"),
        ],
    )
    def test_what_can_never_be_is_refused_when_the_dag_is_parsed(self, arguments: dict[str, Any], word: str) -> None:
        with pytest.raises(ValueError, match=f"^{word} "):
            CaptureHotThreadsOperator(
                task_id="capture", **{"destination": "/out/hot.txt", "when_cpu_above": 85, **arguments}
            )

    @pytest.mark.parametrize(
        "argument",
        [
            {"sustained_for": 60},
            {"require": "all"},
            {"poll_interval": 10},
            {"wait_timeout": 3600},
            {"on_timeout": "capture"},
        ],
    )
    def test_what_is_about_a_wait_needs_one(self, argument: dict[str, Any]) -> None:
        (name,) = argument
        with pytest.raises(ValueError, match=f"^{name} .*when_cpu_above"):
            CaptureHotThreadsOperator(task_id="capture", destination="/out/hot.txt", **argument)

    def test_the_time_limit_of_sensors_is_the_default(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", wait_timeout=None)
        with pytest.raises(TaskDeferred) as caught:
            task.make().execute({})
        assert caught.value.timeout is not None
        assert caught.value.timeout > timedelta(days=7)

    def test_templates_are_rendered_and_then_judged(self, tmp_path: Path, supervisor: Supervisor) -> None:
        names = ("when_cpu_above", "sustained_for", "poll_interval", "wait_timeout", "captures", "every", "on_timeout")
        task = Task(tmp_path, supervisor, "worker", **{name: f"{{{{ params.{name} }}}}" for name in names})
        operator = task.make()
        values = {
            "when_cpu_above": 80.5,
            "sustained_for": 60,
            "poll_interval": 5,
            "wait_timeout": 30,
            "captures": 2,
            "every": 4,
            "on_timeout": "fail",
        }
        operator.render_template_fields({"params": values})
        with pytest.raises(ValueError if HAS_RETRY_POLICY else AirflowFailException, match=r"sustained_for \(60 s\)"):
            operator.execute({})
        assert [getattr(operator, name) for name in names] == [str(values[name]) for name in names]


def test_an_error_of_the_triggerer_keeps_its_class(tmp_path: Path, supervisor: Supervisor) -> None:
    task = Task(tmp_path, supervisor, "triggerer", cluster_conn_id="nowhere")
    with pytest.raises(TaskDeferred) as caught:
        task.make().execute({})
    trigger = made_again(caught.value.trigger)
    trigger.settled_after = 0.0
    event = on_a_loop(first_event(trigger))
    with pytest.raises(InvalidConnectionError if HAS_RETRY_POLICY else AirflowFailException, match="'nowhere'"):
        task.make().execute_complete({}, event)


def test_a_temporary_error_is_left_to_the_tasks_retries(tmp_path: Path, supervisor: Supervisor) -> None:
    task = Task(tmp_path, supervisor, "worker", on_timeout="capture", wait_timeout=0.05)
    with pytest.raises(ServiceUnavailableError):
        task.run([COOL], [DOWN])
