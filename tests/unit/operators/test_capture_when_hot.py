"""The operator that waits for a spike: its arguments, its deferral, and the same files and end in both forms."""

from __future__ import annotations

import errno
import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_provider_mediaops.exceptions import StorageError, TemporaryError
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger
from airflow_provider_mediaops.version_compat import AirflowSensorTimeout, AirflowSkipException
from tests.airflow_names import TaskDeferred
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback
from tests.unit.operators.capture_task import COOL, DOWN, FORMS, HOT, REPORT, Cluster, Task
from tests.unit.search_cluster import connection, node_id, replied, report, stats

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor


# Of a cluster whose connection asks for a measure that its nodes do not have.
SILENT = replied(stats({"node-1": 95}))
NO_WAIT: dict[str, Any] = {"when_cpu_above": None, "poll_interval": 30, "wait_timeout": None}


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ({"when_cpu_above": 100.1}, "when_cpu_above"),
            ({"when_cpu_above": "hot", "nodes": "{{ x }}"}, "when_cpu_above"),
            ({"nodes": []}, "nodes"),
            ({"sustained_for": -1}, "sustained_for"),
            ({"sustained_for": 60, "wait_timeout": 60}, "sustained_for"),
            ({"require": "some"}, "require"),
            ({"poll_interval": 0}, "poll_interval"),
            ({"wait_timeout": float("inf")}, "wait_timeout"),
            ({"on_timeout": "retry", "nodes": "{{ x }}"}, "on_timeout"),
            ({"captures": 0}, "captures"),
            ({"every": timedelta(0)}, "every"),
            ({"destination": "/out/"}, "destination"),
            ({"formats": "txt,pdf"}, "formats"),
            ({"interval": "0.5s"}, "interval"),
            ({"snapshots": 0}, "snapshots"),
            ({"threads": 0, "when_cpu_above": "{{ x }}"}, "threads"),
            ({"type": "mem"}, "type"),
            ({"master_timeout": "30"}, "master_timeout"),
            ({"timeout": 30}, "timeout"),
            ({"ignore_idle_threads": "perhaps"}, "ignore_idle_threads"),
            ({"deferrable": "perhaps"}, "deferrable"),
        ],
    )
    def test_arguments_that_can_never_be_used_raise_at_parse_time(self, arguments: dict[str, Any], word: str) -> None:
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
    def test_argument_of_a_wait_without_one_raises(self, argument: dict[str, Any]) -> None:
        (name,) = argument
        with pytest.raises(ValueError, match=f"^{name} .*when_cpu_above"):
            CaptureHotThreadsOperator(task_id="capture", destination="/out/hot.txt", **argument)
        # Whether a template gives one is known when it is rendered.
        CaptureHotThreadsOperator(task_id="t", destination="/out/hot.txt", when_cpu_above="{{ x }}", **argument)


class TestDeferral:
    def test_there_is_one_only_where_there_is_a_wait(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", **NO_WAIT)
        with Loopback(Cluster([COOL], [REPORT])) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            assert task.make().execute({})["bytes"]

    def test_texts_of_templates_reach_the_triggerer_as_what_they_mean(
        self, tmp_path: Path, supervisor: Supervisor
    ) -> None:
        texts = {"when_cpu_above": "85", "formats": "txt, json", "nodes": "node-1, node-2", "captures": "1"}
        texts |= {"ignore_idle_threads": "no", "sustained_for": "0", "poll_interval": "0.01"}
        result = Task(tmp_path, supervisor, "triggerer", **texts).run([COOL, HOT])
        assert list(result["paths"]) == ["txt", "json"]

    # The time limit of sensors is the default: a week.
    @pytest.mark.parametrize(("wait_timeout", "limit"), [(timedelta(hours=1), 3600), (None, 7 * 86_400)])
    def test_airflows_own_limit_leaves_time_for_the_captures(
        self, tmp_path: Path, supervisor: Supervisor, wait_timeout: timedelta | None, limit: float
    ) -> None:
        task = Task(tmp_path, supervisor, "triggerer", wait_timeout=wait_timeout, captures=3, every=10)
        with pytest.raises(TaskDeferred) as caught:
            task.make().execute({})
        assert caught.value.timeout is not None
        assert limit + 3 * 10 < caught.value.timeout.total_seconds() < limit + 600

    @pytest.mark.parametrize(("on_timeout", "cls"), [("skip", AirflowSkipException), ("fail", AirflowSensorTimeout)])
    def test_wait_without_a_triggerer_ends_as_at_the_time_limit(
        self, tmp_path: Path, supervisor: Supervisor, on_timeout: str, cls: type[Exception]
    ) -> None:
        task, cluster = Task(tmp_path, supervisor, "triggerer", on_timeout=on_timeout), Cluster([COOL], [REPORT])
        with Loopback(cluster) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            with pytest.raises(cls, match="No spike in wait_timeout=20 s"):
                task.make().resume_execution("__fail__", {"error": "Trigger timeout"}, {})
        assert len(cluster.asked) == 1

    @pytest.mark.parametrize(
        ("arguments", "timed_out"),
        [
            ({"on_timeout": "capture", "captures": 2, "every": 0.01}, True),
            ({**NO_WAIT, "captures": 2, "every": 0.01}, False),
        ],
        ids=["on_timeout is capture", "there is no spike to wait for"],
    )
    def test_worker_captures_after_a_deferral_without_a_triggerer(
        self, tmp_path: Path, supervisor: Supervisor, arguments: dict[str, Any], *, timed_out: bool
    ) -> None:
        task = Task(tmp_path, supervisor, "triggerer", **arguments)
        with Loopback(Cluster([COOL], [REPORT])) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            with pytest.raises(TaskDeferred):
                task.make().execute({})
            result = task.make().resume_execution("__fail__", {"error": "Trigger timeout"}, {})
        assert result["timed_out"] is timed_out
        assert len(result["later_captures"]) == 1


@pytest.mark.parametrize("form", FORMS)
class TestBothForms:
    def test_the_spike_is_captured_as_it_is_seen(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        task = Task(tmp_path / "deep", supervisor, form)
        result = task.run([COOL, COOL, HOT, COOL])
        *asked, counters = task.cluster.asked
        assert asked == [*["/_nodes/stats/os,process"] * 3, f"/_nodes/{node_id('node-1')}/hot_threads"]
        assert counters == f"/_nodes/{node_id('node-1')}/stats/os,jvm,thread_pool"
        assert task.destination.read_text() == report("node-1")
        names = ["txt", "json", "folded", "html"]
        assert result["paths"] == {name: str(task.destination.with_suffix(f".{name}")) for name in names}
        assert sorted(path.name for path in task.destination.parent.iterdir()) == sorted(
            f"hot.{name}" for name in names
        )
        assert result["cpu"] == [{"node": "node-1", "percent": 95.0, "source": "os"}]
        assert result["hottest"][0]["thread"] == "opensearch[node-1][search][T#1]"
        assert not result["timed_out"]
        assert result["later_captures"] == []

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

    @pytest.mark.parametrize(
        ("on_timeout", "cls"),
        [("skip", AirflowSkipException), (" skip ", AirflowSkipException), ("fail", AirflowSensorTimeout)],
        ids=["skip", "skip in blanks", "fail"],
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
    @pytest.mark.parametrize(
        ("answer", "error"), [(DOWN, "no master"), (SILENT, "no node reports its CPU by cpu_measure=cgroup, as the")]
    )
    def test_cpu_that_nobody_could_read_is_no_calm(
        self, tmp_path: Path, supervisor: Supervisor, form: str, *, on_timeout: str, answer: Response, error: str
    ) -> None:
        task = Task(tmp_path, supervisor, form, on_timeout=on_timeout, wait_timeout=0.1)
        known = r"The CPU is not known within wait_timeout=0\.1 s: no reading worked since 20\d\d-[-\d]{5} [:\d]{8} UTC"
        with pytest.raises(TemporaryError, match=f"^{known}. The last error: .*{error}"):
            task.run([answer], cpu_measure="cgroup")
        assert list(tmp_path.iterdir()) == []

    def test_skip_says_how_many_readings_failed(self, tmp_path: Path, supervisor: Supervisor, form: str) -> None:
        # As below: a busy machine may make no second reading.
        for wait_timeout in (0.3, 3, 30, 240):
            task = Task(tmp_path, supervisor, form, wait_timeout=wait_timeout)
            with pytest.raises(AirflowSkipException, match=r"the CPU was not at 85 % or more[.;]") as skipped:
                task.run([COOL, DOWN])
            if len(task.cluster.asked) > 1:
                break
        assert re.search(r"; \d of \d readings failed since .* UTC\. The last error: .*no master", str(skipped.value))

    def test_capture_at_the_time_limit_is_taken_though_nobody_could_read_the_cpu(
        self, tmp_path: Path, supervisor: Supervisor, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, CaptureHotThreadsOperator if form == "worker" else CaptureHotThreadsTrigger)
        task = Task(tmp_path, supervisor, form, on_timeout="capture", wait_timeout=0.1)
        assert task.run([DOWN])["timed_out"]
        assert any("capturing anyway; no reading worked since" in line for line in lines)

    @pytest.mark.parametrize("on_timeout", ["skip", "fail"])
    def test_spike_that_could_not_be_captured_is_no_calm(
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

    @pytest.mark.parametrize("page_fits", [True, False])
    def test_full_disk_ends_a_series_and_what_was_captured_is_on_the_page(
        self, tmp_path: Path, supervisor: Supervisor, form: str, monkeypatch: pytest.MonkeyPatch, *, page_fits: bool
    ) -> None:
        def write(path: Path, content: bytes) -> None:
            if path.name == "hot.2.json" or (path.name == "hot.html" and not page_fits):
                raise OSError(errno.ENOSPC, f"no space for {path.name}")
            path.write_bytes(content)

        monkeypatch.setattr("airflow_provider_mediaops.cluster.capture.files.write_whole", write)
        task = Task(tmp_path, supervisor, form, captures=3, every=0.01)
        with pytest.raises((OSError, StorageError), match=r"no space for hot\.2\.json"):
            task.run([HOT])
        assert not list(tmp_path.glob("hot.3.*"))
        assert (tmp_path / "hot.html").exists() == page_fits
        if page_fits:
            assert "opensearch[node-1][search][T#1]" in (tmp_path / "hot.html").read_text()
