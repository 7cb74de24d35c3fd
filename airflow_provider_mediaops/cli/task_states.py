"""Ask Airflow's database whether a task is still to come back: running, deferred or waiting for its next try."""

from __future__ import annotations

from typing import NamedTuple

_UNFINISHED = frozenset(
    {"scheduled", "queued", "running", "restarting", "deferred", "up_for_retry", "up_for_reschedule"}
)
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
    :returns: for example ``deferred``; None if it is done, has never begun, or Airflow's database does not know it.
    :raises OSError: if the database cannot be read.
    """
    found = TaskInstanceId.of(task)
    if found is None:
        return None
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    named = {getattr(TaskInstance, name) == value for name, value in found._asdict().items()}
    try:
        with create_session() as session:
            state = session.scalar(select(TaskInstance.state).where(*named))
    except SQLAlchemyError as error:
        # Its message may hold the address of the database.
        raise OSError(f"Airflow's database cannot be read ({type(error).__name__})") from None
    return str(getattr(state, "value", state)) if state in _UNFINISHED else None
