"""Mapped captures run by Airflow: a destination each, as a text or a path object, and none that two share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, ObjectStoragePath

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.contract import dag_runs

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("airflow_db", "sandbox")
QUICK: dict[str, Any] = {"interval": "10ms", "snapshots": 2, "formats": "txt"}


def test_the_second_instance_does_not_overwrite_the_capture_of_the_first(tmp_path: Path) -> None:
    nodes = ["sandbox-1", "sandbox-2"]
    with DAG("shares", schedule=None) as dag:
        CaptureHotThreadsOperator.partial(task_id="task", destination=tmp_path / "hot.txt", retries=2, **QUICK).expand(
            nodes=nodes
        )
    run = dag_runs.run(dag)
    # Which of them comes first is Airflow's to decide; a permanent error is not tried again.
    assert sorted(run.tasks.values()) == ["failed", "success"]
    (done,) = [int(name[-2]) for name, state in run.tasks.items() if state == "success"]
    assert nodes[done] in (tmp_path / "hot.txt").read_text()

    # A later run replaces the file of an older one.
    (tmp_path / "hot.txt").write_text("older")
    assert sorted(dag_runs.run(dag).tasks.values()) == ["failed", "success"]
    assert (tmp_path / "hot.txt").read_text() != "older"


@pytest.mark.parametrize("path", [Path, ObjectStoragePath])
def test_instances_are_mapped_over_path_objects(tmp_path: Path, path: Callable[[str], Any]) -> None:
    with DAG("paths", schedule=None) as dag:
        CaptureHotThreadsOperator.partial(task_id="task", **QUICK).expand(
            destination=[path(f"{tmp_path}/{name}.txt") for name in "ab"]
        )
    assert dag_runs.run(dag).tasks == {"task[0]": "success", "task[1]": "success"}
    written = sorted(file.name for file in tmp_path.iterdir() if not file.name.startswith("."))
    assert written == ["a.txt", "b.txt"]
