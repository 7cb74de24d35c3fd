"""``airflow mediaops leftovers`` asks Airflow's own database which tasks are still to come back."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models import DagRun, TaskInstance
from airflow.models.taskinstance import clear_task_instances
from airflow.sdk import DAG, BaseOperator
from airflow.utils.session import create_session
from sqlalchemy import select, update

from airflow_provider_mediaops.cli.commands import COMMANDS
from airflow_provider_mediaops.cli.program import parser
from airflow_provider_mediaops.cli.run import run as run_command
from airflow_provider_mediaops.cli.task_states import unfinished_state
from airflow_provider_mediaops.cli.terminal import Terminal
from airflow_provider_mediaops.operators.dataset_owner import owner_of
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FlatView
from airflow_provider_mediaops.storage.ownership import Owner
from tests.contract import dag_runs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("airflow_db")


class SaysItsState(BaseOperator):
    """Returns the name under which the task stages, and the state that ``leftovers`` sees meanwhile."""

    template_fields = ("number",)

    def __init__(self, *, number: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> list[str | None]:
        owner = owner_of(context, {}).task
        return [owner, unfinished_state(owner)]


class GivenUpError(Exception):
    """Raised by a task that never comes back."""


@pytest.fixture
def ended() -> dag_runs.Run:
    """Return a run whose tasks have ended."""
    with DAG("leftover_states", schedule=None) as dag:
        SaysItsState(task_id="single")
        SaysItsState.partial(task_id="mapped").expand(number=[1, 2])
    return dag_runs.run(dag)


def set_state(run: dag_runs.Run, task_id: str, state: str | None, map_index: int = -1) -> None:
    names = {"dag_id": "leftover_states", "run_id": run.run_id, "task_id": task_id, "map_index": map_index}
    with create_session() as session:
        where = [getattr(TaskInstance, name) == value for name, value in names.items()]
        session.execute(update(TaskInstance).where(*where).values(state=state))


def leave(folder: Path, task: str) -> None:
    """Leave behind what a task has staged some days ago."""
    view = FlatView(columns={"n": int}, flatten=lambda record: record)
    with suppress(GivenUpError), Dataset(str(folder / "d.jsonl"), view=view).staging(Owner(task, "p")) as staging:
        staging.commit([{"n": 1}], None)
        raise GivenUpError
    written = time.time() - 8 * 86_400
    for file in folder.glob(".d.jsonl.*"):
        os.utime(file, (written, written))


def leftovers(folder: Path) -> Any:
    """Delete what is left in a folder; return what the command says."""
    output = StringIO()
    command = next(each for each in COMMANDS if each.name == "leftovers")
    options = parser().parse_args(["leftovers", str(folder), "--delete", "--yes", "-o", "json"])
    assert run_command(command, options, Terminal(output, StringIO(), StringIO())) == 0
    return json.loads(output.getvalue())


def test_a_running_task_is_found_by_the_name_under_which_it_stages(ended: dag_runs.Run) -> None:
    assert {task: state for task, (_, state) in ended.values.items()} == dict.fromkeys(
        ("single", "mapped[0]", "mapped[1]"), "running"
    )
    # Once they have ended, none of them comes back.
    assert [unfinished_state(owner) for owner, _ in ended.values.values()] == [None, None, None]


@pytest.mark.parametrize(
    "state", ["scheduled", "queued", "running", "restarting", "deferred", "up_for_retry", "up_for_reschedule"]
)
def test_an_unfinished_task_keeps_what_it_has_staged(ended: dag_runs.Run, tmp_path: Path, state: str) -> None:
    owner, _ = ended.values["single"]
    set_state(ended, "single", state)
    leave(tmp_path, owner)
    document = leftovers(tmp_path)
    assert document["note"] is None
    assert [(each["state"], each["note"]) for each in document["leftovers"]] == [("running", f"its task is {state}")]
    assert (tmp_path / ".d.jsonl.records").exists()


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "removed", "upstream_failed"])
def test_what_a_finished_task_has_left_is_deleted(ended: dag_runs.Run, tmp_path: Path, state: str) -> None:
    owner, _ = ended.values["single"]
    set_state(ended, "single", state)
    leave(tmp_path, owner)
    assert [each["deleted"] for each in leftovers(tmp_path)["leftovers"]] == [True]
    assert not list(tmp_path.iterdir())


def test_each_mapped_task_has_its_own_state(ended: dag_runs.Run) -> None:
    set_state(ended, "mapped", "deferred", map_index=1)
    assert [unfinished_state(ended.values[f"mapped[{index}]"][0]) for index in range(2)] == [None, "deferred"]


def test_a_cleared_task_that_is_not_scheduled_yet_is_still_to_come_back(ended: dag_runs.Run, tmp_path: Path) -> None:
    owner, _ = ended.values["single"]
    leave(tmp_path, owner)
    with create_session() as session:
        query = select(TaskInstance).filter_by(dag_id="leftover_states", run_id=ended.run_id, task_id="single")
        clear_task_instances([session.scalars(query).one()], session)
    # For as long as a task before it runs, or its DAG is paused, it has no state.
    (leftover,) = leftovers(tmp_path)["leftovers"]
    assert (leftover["deleted"], leftover["note"]) == (False, "its task is cleared")


def test_a_task_without_a_state_in_a_run_that_has_ended_does_not_come_back(ended: dag_runs.Run) -> None:
    set_state(ended, "single", None)
    assert unfinished_state(ended.values["single"][0]) is None


def test_what_a_deleted_run_has_left_is_deleted(ended: dag_runs.Run, tmp_path: Path) -> None:
    owner, _ = ended.values["single"]
    set_state(ended, "single", "running")
    leave(tmp_path, owner)
    with create_session() as session:
        session.delete(session.scalars(select(DagRun).filter_by(run_id=ended.run_id)).one())
    assert [each["deleted"] for each in leftovers(tmp_path)["leftovers"]] == [True]
