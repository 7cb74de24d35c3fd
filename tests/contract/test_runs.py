"""Tasks of the provider run by Airflow: mapped, refused, deferred."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_provider_mediaops.sensors.books import BookSensor
from tests.contract import dag_runs
from tests.contract.tasks import SENSORS, TASKS, Task, name_of

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("airflow_db")


class GiveList(BaseOperator):
    """A task that returns a list for others to be mapped over."""

    def __init__(self, *, values: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.values = values

    def execute(self, context: Any) -> list[Any]:
        return self.values


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_a_mapped_task_runs_once_for_each_value(task: Task, tmp_path: Path) -> None:
    """One argument comes from another task; all others, with a templated connection, are the same for all."""
    task = task.writing_to(tmp_path)
    ((name, values),) = task.mapped.items()
    rest = {key: value for key, value in task.arguments.items() if key != name}
    rest[task.connection] = f"{{{{ 'mediaops' }}}}_{task.connection.removesuffix('_conn_id')}_default"
    with DAG("maps", schedule=None) as dag:
        given = GiveList(task_id="give", values=values)
        task.kind.partial(task_id="task", **rest).expand(**{name: given.output})
    run = dag_runs.run(dag)
    assert run.tasks == {"give": "success", "task[0]": "success", "task[1]": "success"}
    assert run.values["task[0]"]
    assert run.values["task[1]"]


@pytest.mark.parametrize("deferrable", [False, True], ids=["poke", "defer"])
@pytest.mark.parametrize("task", SENSORS, ids=name_of)
def test_a_wrong_key_fails_the_sensor_at_once(
    task: Task,
    deferrable: bool,  # noqa: FBT001 - given by pytest
    sandbox: SandboxServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The trigger's error comes back as itself: no retry, no skip for `soft_fail`, and its name in the log."""
    for variable, text in sandbox.connections().items():
        monkeypatch.setenv(variable, json.dumps({**json.loads(text), "password": "not-the-right-one"}))
    with DAG("is_refused", schedule=None) as dag:
        task.make(deferrable=deferrable, soft_fail=True, retries=3)
    run = dag_runs.run(dag)
    assert run.tasks == {"task": "failed"}
    output = capfd.readouterr()
    # The book database does not tell a wrong key from one of another plan.
    named = "PermissionDeniedError" if task.kind is BookSensor else "AuthenticationError"
    assert named in output.out + output.err
    assert "not-the-right-one" not in output.out + output.err
