"""Tasks of the provider run by Airflow: mapped, refused, deferred."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_provider_mediaops.sandbox.faults import StatusFault
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from tests.contract import dag_runs
from tests.contract.tasks import SENSORS, TASKS, Task, name_of

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.faults import Service
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


@pytest.mark.parametrize("deferrable", [False, True], ids=["poke", "defer"])
@pytest.mark.parametrize("task", SENSORS, ids=name_of)
def test_a_wrong_key_fails_the_sensor_at_once(
    task: Task,
    deferrable: bool,  # noqa: FBT001 - given by pytest
    sandbox: SandboxServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """No retry, no skip for `soft_fail`, and the error's own name in the log."""
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


# What each sensor may wait for in vain, and the path of the requests that tell it so.
IN_VAIN: dict[type[BaseOperator], tuple[dict[str, Any], Service, str]] = {
    SubscriptionSensor: ({"for_channel_ids": ["UC-nobody-subscribed-to"]}, "video", "/subscriptions"),
    ClusterCpuSensor: ({"threshold": 99.9}, "cluster", "/stats"),
    BookSensor: ({"isbn": "9780439064873"}, "books", "/9780439064873"),
}


@pytest.mark.parametrize("task", SENSORS, ids=name_of)
def test_a_refusal_in_the_triggerer_comes_back_as_itself(
    task: Task, sandbox: SandboxServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The key is good at first, and refused at the third look, which the trigger makes."""
    arguments, service, path = IN_VAIN[task.kind]
    sandbox.state.faults.arm(StatusFault(service=service, path=path, status=401, after=2))
    with DAG("is_refused_later", schedule=None) as dag:
        task.make(deferrable=True, soft_fail=True, retries=3, poke_interval=0.1, **arguments)
    run = dag_runs.run(dag)
    assert run.tasks == {"task": "failed"}
    assert "running trigger in line" in caplog.text
    assert not sandbox.state.faults.armed
    output = capfd.readouterr()
    assert "AuthenticationError" in output.out + output.err


@pytest.mark.usefixtures("sandbox")
def test_a_run_without_a_scheduler_does_not_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deferred task in `dag.test()` need not be kept from resuming soon, as one under a scheduler is."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def recorded(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", recorded)
    with DAG("is_tested", schedule=None) as dag:
        ClusterCpuSensor(task_id="task", threshold=0, sustained_for=0.01, deferrable=True)
    assert dag_runs.run(dag).tasks == {"task": "success"}
    assert slept
    assert max(slept) < 1
