"""Ask Airflow's database whether a task is still to come back: running, deferred, cleared or waiting for a retry."""

from __future__ import annotations

from typing import NamedTuple

_UNFINISHED = frozenset(
    {"scheduled", "queued", "running", "restarting", "deferred", "up_for_retry", "up_for_reschedule"}
)
_UNFINISHED_RUN = frozenset({"queued", "running"})
_LEAST_SLASHES = 3


class TaskInstanceId(NamedTuple):
    """A task instance, as the owner of a dataset names it."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int

    @classmethod
    def of(cls, task: str) -> TaskInstanceId | None:
        """
        Read the name of a task instance.

        :param task: DAG, run, task and map index with slashes between; the run's id may hold slashes, too.
        :returns: the task instance; None if it is none.
        """
        if task.count("/") < _LEAST_SLASHES:
            return None
        dag_id, *run, task_id, index = task.split("/")
        if not index.removeprefix("-").isdecimal():
            return None
        return cls(dag_id, "/".join(run), task_id, int(index))


def unfinished_state(task: str) -> str | None:
    """
    Return the state of a task that is still to come back.

    :param task: the task instance, as the owner of a dataset names it.
    :returns: for example ``deferred``, or ``cleared`` until the scheduler has given it a state again; None if it is
        done, or Airflow's database does not know it.
    :raises OSError: if the database cannot be read.
    """
    found = TaskInstanceId.of(task)
    if found is None:
        return None
    try:
        states = _states_of(found)
    except Exception as error:  # noqa: BLE001 - any of SQLAlchemy's or a driver's; it may quote the address
        raise OSError(f"Airflow's database cannot be read ({type(error).__name__})") from None
    if states is None:
        return None
    state, of_run = states
    if state is None:
        # It has staged something, so it has had a state before.
        return "cleared" if of_run in _UNFINISHED_RUN else None
    return state if state in _UNFINISHED else None


def _states_of(task: TaskInstanceId) -> tuple[str | None, str | None] | None:
    """Return the states of a task instance and of its run; None if there is no such task instance."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import and_, select

    run = and_(DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id)
    named = [getattr(TaskInstance, name) == value for name, value in task._asdict().items()]
    with create_session() as session:
        row = session.execute(select(TaskInstance.state, DagRun.state).join(DagRun, run).where(*named)).first()
    # They are members of an enumeration, or texts.
    return (_text(row[0]), _text(row[1])) if row else None


def _text(state: object) -> str | None:
    return None if state is None else str(getattr(state, "value", state))
