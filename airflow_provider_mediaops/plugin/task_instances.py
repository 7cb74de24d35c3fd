"""Find task instances that took captures in Airflow's database, with their rendered template fields. May block."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.plugin.rendered_fields import OWN_FIELD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy.sql import Select

# As many runs as Airflow keeps rendered fields of by default.
_MOST_OTHERS = 30


@dataclass(frozen=True, slots=True)
class TaskInstanceKey:
    """
    The names of a task instance.

    :param dag_id: its DAG.
    :param run_id: its run.
    :param task_id: its task.
    :param map_index: the index of a mapped task; -1 if the task is not mapped.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


_KEY_COLUMNS = tuple(field.name for field in fields(TaskInstanceKey))


@dataclass(frozen=True, slots=True)
class TaskInstanceFacts:
    """
    What the pages use of a task instance.

    :param key: its names.
    :param state: its state; None before it is scheduled.
    :param try_number: the number of its last try.
    :param started: when that try started; None if it has not.
    :param ended: when it ended; None if it has not.
    :param fields: the rendered template fields of the last try; None if Airflow has none, or no longer.
    """

    key: TaskInstanceKey
    state: str | None
    try_number: int
    started: datetime | None
    ended: datetime | None
    fields: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ListPosition:
    """
    A position in the list of captures, newest first.

    :param ended: the end of the last task instance before it.
    :param skipped: how many before it ended at just that moment.
    """

    ended: datetime
    skipped: int


@dataclass(frozen=True, slots=True)
class CaptureFilter:
    """
    Which captures are listed.

    :param dag_ids: the DAGs that the reader may see.
    :param since: those that ended then or later; None for all.
    :param until: those that ended before; None for all.
    :param cluster: a part of the id of the connection to the cluster; empty for all.
    """

    dag_ids: Collection[str]
    since: datetime | None = None
    until: datetime | None = None
    cluster: str = ""


def find(key: TaskInstanceKey) -> TaskInstanceFacts | None:
    """
    Find a task instance.

    :param key: its names.
    :returns: what is known of it; None if there is none.
    """
    from airflow.models.taskinstance import TaskInstance

    wanted = _select(outer=True).where(*(getattr(TaskInstance, name) == getattr(key, name) for name in _KEY_COLUMNS))
    return next(iter(_read(wanted)), None)


def others_of(key: TaskInstanceKey) -> list[TaskInstanceFacts]:
    """
    List the last successful instances of a task, with the same map index, but for one.

    :param key: the names of that one.
    :returns: those that took captures, newest first.
    """
    from airflow.models.taskinstance import TaskInstance

    wanted = _select_captures().where(
        TaskInstance.dag_id == key.dag_id,
        TaskInstance.task_id == key.task_id,
        TaskInstance.map_index == key.map_index,
        TaskInstance.run_id != key.run_id,
        TaskInstance.end_date.is_not(None),
    )
    return _read(wanted.order_by(TaskInstance.end_date.desc()).limit(_MOST_OTHERS))


def recent(wanted: CaptureFilter, after: ListPosition | None, most: int) -> list[TaskInstanceFacts]:
    """
    List the task instances that took captures, newest first.

    :param wanted: which ones.
    :param after: the position from which on; None for the newest.
    :param most: the most to list.
    :returns: the task instances; that of another operator may be among them if it has fields of the same names.
    """
    from airflow.models.taskinstance import TaskInstance

    query = _select_captures().where(TaskInstance.dag_id.in_(wanted.dag_ids), TaskInstance.end_date.is_not(None))
    if wanted.since is not None:
        query = query.where(TaskInstance.end_date >= wanted.since)
    if wanted.until is not None:
        query = query.where(TaskInstance.end_date < wanted.until)
    # As JSON, other names may be written with escapes.
    if wanted.cluster.isascii() and wanted.cluster.replace("_", "").replace("-", "").isalnum():
        query = query.where(_fields_as_text().contains(wanted.cluster, autoescape=True))
    if after is not None:
        query = query.where(TaskInstance.end_date <= after.ended).offset(after.skipped)
    key = (getattr(TaskInstance, name) for name in _KEY_COLUMNS)
    return _read(query.order_by(TaskInstance.end_date.desc(), *key).limit(most))


def position_after(rows: Collection[TaskInstanceFacts], before: ListPosition | None) -> ListPosition | None:
    """
    Return the position after rows of the list.

    :param rows: rows that :func:`recent` returned, in that order.
    :param before: the position at which they began; None for the newest.
    :returns: the position; None if there are no rows.
    """
    ended = [row.ended for row in rows if row.ended is not None]
    if not ended:
        return None
    skipped = ended.count(ended[-1])
    if before is not None and before.ended == ended[-1]:
        skipped += before.skipped
    return ListPosition(ended[-1], skipped)


def _select(*, outer: bool = False) -> Select[Any]:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import and_, select

    same = (getattr(RenderedTaskInstanceFields, name) == getattr(TaskInstance, name) for name in _KEY_COLUMNS)
    return select(
        *(getattr(TaskInstance, name) for name in _KEY_COLUMNS),
        TaskInstance.state,
        TaskInstance.try_number,
        TaskInstance.start_date,
        TaskInstance.end_date,
        RenderedTaskInstanceFields.rendered_fields,
    ).join(RenderedTaskInstanceFields, and_(*same), isouter=outer)


def _select_captures() -> Select[Any]:
    from airflow.models.taskinstance import TaskInstance

    # The name of the operator's class would leave out classes that are derived from it.
    return _select().where(TaskInstance.state == "success", _fields_as_text().contains(f'"{OWN_FIELD}"'))


def _fields_as_text() -> Any:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from sqlalchemy import String, cast

    return cast(RenderedTaskInstanceFields.rendered_fields, String)


def _read(query: Select[Any]) -> list[TaskInstanceFacts]:
    from airflow.utils.session import create_session

    with create_session() as session:
        rows = session.execute(query).all()
    return [TaskInstanceFacts(TaskInstanceKey(*row[:4]), row[4] and str(row[4]), *row[5:]) for row in rows]
