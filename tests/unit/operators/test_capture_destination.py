"""The destination of a capture: relative paths, and mapped tasks that share one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.unit.log_lines import log_lines
from tests.unit.permanent import permanent
from tests.unit.search_cluster import COUNTERS, connection, report, stats

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor

BASE = "http://cluster.example:9200"


@pytest.fixture(autouse=True)
def cluster(requests_mock: requests_mock.Mocker, supervisor: Supervisor) -> requests_mock.Mocker:
    supervisor.connect("mediaops_cluster_default", connection(BASE))
    requests_mock.get(f"{BASE}/_nodes/stats/os,process", json=stats({"node-1": 95}))
    requests_mock.get(f"{BASE}/_nodes/hot_threads", text=report("node-1"))
    requests_mock.get(f"{BASE}/_nodes/os", json={"nodes": {}})
    requests_mock.get(COUNTERS, json={})
    return requests_mock


def capture(destination: object, map_index: int = -1, run_id: str = "r1", **arguments: Any) -> dict[str, Any]:
    """Capture as a task instance does."""
    operator = CaptureHotThreadsOperator(task_id="capture", destination="{{ x }}", **arguments)
    # Rendered; a callable or the result of another task may be a path object.
    operator.destination = destination
    ti = SimpleNamespace(dag_id="d", run_id=run_id, task_id="capture", map_index=map_index, try_number=1, max_tries=0)
    context: Any = {"ti": ti}
    result: dict[str, Any] = operator.execute(context)
    return result


def test_relative_destination_is_made_absolute_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = log_lines(monkeypatch, CaptureHotThreadsOperator)
    assert capture("today/hot.txt", formats="txt")["paths"] == {"txt": f"{tmp_path}/today/hot.txt"}
    warnings = [line for line in lines if line.startswith("WARNING")]
    assert len(warnings) == 1
    assert f"means '{tmp_path}/today/hot.txt' here" in warnings[0]
    assert "write an absolute path" in warnings[0]


@pytest.mark.parametrize("how", [{}, {"deferrable": True, "when_cpu_above": 99}])
def test_mapped_task_with_the_destination_of_another_does_not_overwrite_its_capture(
    cluster: requests_mock.Mocker, tmp_path: Path, how: dict[str, Any]
) -> None:
    capture(f"{tmp_path}/hot.txt", map_index=0)
    written = (tmp_path / "hot.txt").stat().st_mtime_ns
    cluster.reset_mock()
    with pytest.raises(permanent(PermanentError), match=r"hot is the capture of d/r1/capture/0"):
        capture(f"{tmp_path}/hot.txt", map_index=1, **how)
    # Nothing was waited for.
    assert not cluster.called
    assert (tmp_path / "hot.txt").stat().st_mtime_ns == written


def test_destination_with_another_suffix_is_the_same_capture(tmp_path: Path) -> None:
    capture(f"{tmp_path}/hot.txt", map_index=0)
    with pytest.raises(permanent(PermanentError)):
        capture(f"{tmp_path}/hot.html", map_index=1)


def test_no_nodes_are_refused_with_what_a_template_can_write() -> None:
    operator = CaptureHotThreadsOperator(task_id="capture", destination="/out/hot.txt", nodes="{{ x }}")
    empty: list[Any] = ["", " ", []]
    for rendered in empty:
        operator.nodes = rendered
        with pytest.raises(permanent(ValueError), match=r"leave nodes out, or write '_all': .* or '_all' \}\}"):
            operator.execute({})


def test_the_sensors_word_for_the_threshold_is_explained() -> None:
    with pytest.raises(ValueError, match="threshold is called when_cpu_above"):
        CaptureHotThreadsOperator(task_id="capture", destination="/out/hot.txt", threshold=85)
