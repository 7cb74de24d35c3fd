"""Tasks of the provider run by Airflow: mapped, deferred, and retried after a bulletin was posted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, BaseOperator, ObjectStoragePath

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.contract import dag_runs
from tests.contract.tasks import TASKS, Task, name_of
from tests.fails_after_posting import FailsAfterPosting

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("airflow_db")


class GiveList(BaseOperator):
    """A task that returns a list for others to be mapped over."""

    def __init__(self, *, values: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.values = values

    def execute(self, context: Any) -> list[Any]:
        return self.values


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_mapped_tasks_run_once_for_each_value(tmp_path: Path) -> None:
    """One argument comes from another task; all others, with a templated connection, are the same for all."""
    with DAG("maps", schedule=None) as dag:
        for task in TASKS:
            map_over_given_values(task.writing_to(tmp_path / name_of(task)))
    run = dag_runs.run(dag)
    expected = [name for task in map(name_of, TASKS) for name in (f"give_{task}", f"{task}[0]", f"{task}[1]")]
    assert run.tasks == dict.fromkeys(expected, "success")
    assert all(run.values[name] for name in expected)


def map_over_given_values(task: Task) -> None:
    """Map a task over what another one returns."""
    ((name, values),) = task.mapped.items()
    rest = {key: value for key, value in task.arguments.items() if key != name}
    if "destination" in rest:
        # Else one task's file would be the other's.
        folder, _, file = rest["destination"].rpartition("/")
        rest["destination"] = f"{folder}/{{{{ ti.map_index }}}}/{file}"
    if task.connection:
        rest[task.connection] = f"{{{{ 'mediaops' }}}}_{task.connection.removesuffix('_conn_id')}_default"
    given = GiveList(task_id=f"give_{name_of(task)}", values=values)
    task.kind.partial(task_id=name_of(task), **rest).expand(**{name: given.output})


QUICK: dict[str, Any] = {"interval": "10ms", "snapshots": 2, "formats": "txt"}


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("path", [Path, ObjectStoragePath])
def test_instances_are_mapped_over_path_objects(tmp_path: Path, path: Callable[[str], Any]) -> None:
    destinations = [path(f"{tmp_path}/{name}.txt") for name in "ab"]
    with DAG("paths", schedule=None) as dag:
        CaptureHotThreadsOperator.partial(task_id="task", **QUICK).expand(destination=destinations)
    assert dag_runs.run(dag).tasks == {"task[0]": "success", "task[1]": "success"}
    assert sorted(file.name for file in tmp_path.glob("[!.]*")) == ["a.txt", "b.txt"]


@pytest.mark.long
@pytest.mark.parametrize(
    "journal",
    [pytest.param(False, marks=pytest.mark.airflow(">=3.3"), id="state store"), pytest.param(True, id="journal")],
)
def test_mapped_task_that_is_retried_after_success_returns_its_own_activity(
    sandbox: SandboxServer, tmp_path: Path, *, journal: bool
) -> None:
    how: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(0), "journal": str(tmp_path) if journal else None}
    with DAG("posts_once", schedule=None) as dag:
        FailsAfterPosting.partial(task_id="post", **how).expand(text=["one", "two"])

    run = dag_runs.run(dag)

    assert run.tasks == {"post[0]": "success", "post[1]": "success"}
    assert sorted(bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins) == ["one", "two"]
    assert [run.values[f"post[{number}]"]["snippet"]["description"] for number in (0, 1)] == ["one", "two"]


@pytest.mark.airflow("<3.3")
def test_below_airflow_3_3_a_retry_posts_again(sandbox: SandboxServer) -> None:
    with DAG("posts_again", schedule=None) as dag:
        FailsAfterPosting(task_id="post", text="one", retries=1, retry_delay=timedelta(0))

    assert dag_runs.run(dag).tasks == {"post": "success"}
    assert len(sandbox.state.bulletins) == 2
