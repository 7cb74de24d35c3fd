"""The operator that captures hot threads: the files it writes, what it returns, and how it ends."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec import filesystem

from airflow_provider_mediaops.exceptions import InvalidReplyError, NotFoundError, PermanentError, ReplyTimeoutError
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.unit.log_lines import log_lines
from tests.unit.permanent import permanent
from tests.unit.search_cluster import COUNTERS, connection, report, stats

if TYPE_CHECKING:
    from requests_mock import Mocker

    from tests.unit.conftest import Supervisor

BASE = "http://cluster.example:9200"


@pytest.fixture(autouse=True)
def _connection(supervisor: Supervisor, requests_mock: Mocker) -> None:
    supervisor.connect("mediaops_cluster_default", connection(BASE))
    requests_mock.get(COUNTERS, json={})


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "reports" / "today" / "hot.txt"


def serve(mocker: Mocker, text: str | bytes, cpu: dict[str, float | None], nodes: str = "") -> None:
    """Have the cluster answer both calls."""
    part = f"/{nodes}" if nodes else ""
    mocker.get(f"{BASE}/_nodes{part}/stats/os,process", json=stats(cpu))
    content = text if isinstance(text, bytes) else text.encode()
    mocker.get(f"{BASE}/_nodes{part}/hot_threads", content=content)


def capture(destination: object, map_index: int = -1, **arguments: Any) -> dict[str, Any]:
    """Capture as a task instance does."""
    operator = CaptureHotThreadsOperator(task_id="capture", destination=str(destination), **arguments)
    ti = SimpleNamespace(dag_id="d", run_id="r1", task_id="capture", map_index=map_index, try_number=1, max_tries=0)
    context: Any = {"ti": ti}
    result: dict[str, Any] = operator.execute(context)
    return result


class TestFiles:
    def test_the_text_is_written_byte_for_byte_and_the_rest_beside_it(
        self, requests_mock: Mocker, destination: Path
    ) -> None:
        body = report("node-1").encode().replace(b"\n", b"\r\n") + b"::: {\xff}\n"
        serve(requests_mock, body, {"node-1": 95})
        result = capture(destination)
        suffixes = ["txt", "json", "folded", "html"]
        assert result["paths"] == {suffix: str(destination.with_suffix(f".{suffix}")) for suffix in suffixes}
        assert destination.read_bytes() == body
        read = json.loads(destination.with_suffix(".json").read_bytes())
        assert read["nodes"][0]["threads"][0]["percent"] == 97.5
        assert sorted(path.name for path in destination.parent.iterdir()) == sorted(f"hot.{name}" for name in suffixes)

    def test_failed_capture_leaves_the_older_file(self, requests_mock: Mocker, destination: Path) -> None:
        destination.parent.mkdir(parents=True)
        destination.write_text("older")
        serve(requests_mock, b"<html>Sign in</html>", {"node-1": 95})
        with pytest.raises(permanent(InvalidReplyError), match="web page"):
            capture(destination)
        assert destination.read_text() == "older"

    def test_any_object_store_will_do(self, requests_mock: Mocker) -> None:
        attach("memory", "attic", fs=filesystem("memory"))
        serve(requests_mock, report("node-1"), {"node-1": 95})
        result = capture("memory://attic@captures/deep/down/hot.txt")
        assert ObjectStoragePath(result["paths"]["txt"]).read_text() == report("node-1")
        assert json.loads(ObjectStoragePath(result["paths"]["json"]).read_text())["nodes"]


class TestDestination:
    @pytest.fixture(autouse=True)
    def _cluster(self, requests_mock: Mocker) -> None:
        serve(requests_mock, report("node-1"), {"node-1": 95})

    def test_relative_destination_is_made_absolute_with_one_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        lines = log_lines(monkeypatch, CaptureHotThreadsOperator)
        assert capture("today/hot.txt", formats="txt")["paths"] == {"txt": f"{tmp_path}/today/hot.txt"}
        [warning] = [line for line in lines if line.startswith("WARNING")]
        assert f"means '{tmp_path}/today/hot.txt' here" in warning
        assert "write an absolute path" in warning

    @pytest.mark.parametrize(
        ("suffix", "how"), [("txt", {}), ("html", {}), ("txt", {"deferrable": True, "when_cpu_above": 99})]
    )
    def test_mapped_task_with_the_destination_of_another_does_not_overwrite_its_capture(
        self, requests_mock: Mocker, tmp_path: Path, suffix: str, how: dict[str, Any]
    ) -> None:
        capture(f"{tmp_path}/hot.txt", map_index=0)
        written = (tmp_path / "hot.txt").stat().st_mtime_ns
        requests_mock.reset_mock()
        with pytest.raises(permanent(PermanentError), match=r"hot is the capture of d/r1/capture/0"):
            capture(f"{tmp_path}/hot.{suffix}", map_index=1, **how)
        # Nothing was waited for.
        assert not requests_mock.called
        assert (tmp_path / "hot.txt").stat().st_mtime_ns == written


class TestResult:
    def test_result_of_a_capture_says_in_short_what_was_captured(
        self, requests_mock: Mocker, destination: Path
    ) -> None:
        serve(requests_mock, report("node-1"), {"node-1": 95}, nodes="node-1")
        result = capture(destination, nodes=["node-1"], formats=["txt"])
        assert datetime.now(timezone.utc) - datetime.fromisoformat(result["taken"]) < timedelta(minutes=1)
        assert (result["paths"], result["bytes"]) == ({"txt": str(destination)}, len(report("node-1")))
        assert result["nodes"] == [{"node": "node-1", "threads": 1}]
        assert result["cpu"] == [{"node": "node-1", "percent": 95.0, "source": "os"}]
        assert result["hottest"] == [{"node": "node-1", "percent": 97.5, "thread": "opensearch[node-1][search][T#1]"}]
        assert [(kind["kind"], kind["share_percent"]) for kind in result["kinds"]] == [("search.other", 100.0)]
        assert not any(result[name] for name in ("missing", "unparsed", "left_out", "later_captures", "failures"))


class TestEnd:
    @pytest.mark.parametrize(
        ("cpu", "error_class"),
        [
            # The cluster knows nodes, and none has answered in time.
            ({"json": stats({"node-1": 95})}, ReplyTimeoutError),
            # Nothing says that there is such a node.
            ({"status_code": 403, "text": ""}, permanent(NotFoundError)),
        ],
    )
    def test_capture_without_a_node_is_retried_only_if_there_may_be_one(
        self, requests_mock: Mocker, destination: Path, cpu: dict[str, Any], error_class: Any
    ) -> None:
        requests_mock.get(f"{BASE}/_nodes/a/stats/os,process", **cpu)
        requests_mock.get(f"{BASE}/_nodes/a/hot_threads", text="")
        with pytest.raises(error_class):
            capture(destination, nodes="a")
        assert not destination.exists()


class TestArguments:
    def test_every_parameter_reaches_the_cluster_rendered(self, requests_mock: Mocker, tmp_path: Path) -> None:
        query = {
            "ignore_idle_threads": "false",
            "interval": "2s",
            "snapshots": "4",
            "threads": "9999",
            "type": "wait",
            "master_timeout": "2m",
            "timeout": "2m",
        }
        own = {"nodes": "a,b", "formats": "json, txt", "cluster_conn_id": "mediaops_cluster_default"}
        params = {**query, **own}
        templates: dict[str, Any] = {name: f"{{{{ params.{name} }}}}" for name in params}
        operator = CaptureHotThreadsOperator(
            task_id="capture", destination=f"{tmp_path}/{{{{ params.type }}}}.txt", **templates
        )
        operator.render_template_fields({"params": params})
        serve(requests_mock, report("a", "b"), {"a": 1, "b": 2}, nodes="a,b")
        paths = operator.execute({})["paths"]
        assert paths == {"txt": f"{tmp_path}/wait.txt", "json": f"{tmp_path}/wait.json"}
        assert requests_mock.request_history[1].qs == {name: [value] for name, value in query.items()}

    @pytest.mark.parametrize(
        ("name", "rendered", "message"),
        [
            ("snapshots", "few", "snapshots"),
            ("destination", "", "destination"),
            ("nodes", [], r"leave nodes out, or write '_all': .* or '_all' \}\}"),
            ("nodes", " ", "leave nodes out"),
        ],
    )
    def test_rendered_argument_that_is_wrong_spends_no_request(
        self, requests_mock: Mocker, name: str, rendered: object, message: str
    ) -> None:
        arguments: dict[str, Any] = {"destination": "/out/hot.txt", name: "{{ x }}"}
        operator = CaptureHotThreadsOperator(task_id="capture", **arguments)
        setattr(operator, name, rendered)
        with pytest.raises(permanent(ValueError), match=message):
            operator.execute({})
        assert not requests_mock.called
