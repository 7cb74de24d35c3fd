"""
Find task instances that took captures in Airflow's database, with their rendered template fields. May block.

The pages have no other way to a task instance, and this one begins with the question to Airflow whether the reader may
read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import String, and_, cast, select

from airflow_provider_mediaops.arguments import read_iso_time
from airflow_provider_mediaops.plugin.rendered_fields import OWN_FIELD
from airflow_provider_mediaops.report_urls import NOT_MAPPED

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from sqlalchemy.sql import Select

    from airflow_provider_mediaops.plugin.list_page import Asked

# As many runs as Airflow keeps rendered fields of by default.
_MOST_OTHERS = 30


@dataclass(frozen=True, slots=True)
class TaskInstanceKey:
    """The names of a task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int

    @property
    def task(self) -> str:
        """Return the task, with its index if it is mapped."""
        return self.task_id if self.map_index == NOT_MAPPED else f"{self.task_id}[{self.map_index}]"


_KEY_COLUMNS = tuple(field.name for field in fields(TaskInstanceKey))


@dataclass(frozen=True, slots=True)
class TaskInstanceFacts:
    """What the pages use of a task instance: its state, and the times and rendered template fields of its last try."""

    key: TaskInstanceKey
    state: str | None
    try_number: int
    started: datetime | None
    ended: datetime | None
    # None if Airflow has none, or no longer.
    fields: Mapping[str, Any] | None


class NotAllowedError(Exception):
    """The reader may not read the task instances of a DAG."""


class ReadableTaskInstances:
    """The task instances that a reader may read. Airflow is asked about each DAG once: make one for each request."""

    def __init__(self, user: BaseUser) -> None:
        self._user = user
        self._answers: dict[str, bool] = {}

    def find(self, key: TaskInstanceKey) -> TaskInstanceFacts | None:
        """
        Find a task instance.

        :raises NotAllowedError: if the reader may not read it, whether or not there is one.
        """
        self._check(key.dag_id)
        same = (getattr(TaskInstance, name) == getattr(key, name) for name in _KEY_COLUMNS)
        return next(iter(_read(_select(outer=True).where(*same))), None)

    def others_of(self, key: TaskInstanceKey) -> list[TaskInstanceFacts]:
        """List the last other instances of a task, with the same map index, that took captures: newest first."""
        self._check(key.dag_id)
        wanted = _select_captures().where(
            TaskInstance.dag_id == key.dag_id,
            TaskInstance.task_id == key.task_id,
            TaskInstance.map_index == key.map_index,
            TaskInstance.run_id != key.run_id,
        )
        return _read(wanted.order_by(TaskInstance.end_date.desc()).limit(_MOST_OTHERS))

    def recent(self, asked: Asked, most: int) -> list[TaskInstanceFacts]:
        """
        List the task instances that took captures, newest first, but those on the pages before.

        Those that the reader may not read do not count.

        That of another operator may be among them if it has fields of the same names.
        """
        found = _read(_select_recent(asked, self._dag_ids, most))
        if not all(self._may_read(each.key.dag_id) for each in found):
            # All that have captures at once: asked for page by page, they might be as many queries as DAGs.
            self._dag_ids = {dag_id for dag_id in _dags_with_captures(self._dag_ids) if self._may_read(dag_id)}
            found = _read(_select_recent(asked, self._dag_ids, most))
        return found

    @cached_property
    def _dag_ids(self) -> set[str]:
        # Airflow can say this of DAGs only. The right to their task instances is another one.
        dag_ids: set[str] = get_auth_manager().get_authorized_dag_ids(user=self._user, method="GET")
        return dag_ids

    def _check(self, dag_id: str) -> None:
        if not self._may_read(dag_id):
            raise NotAllowedError

    def _may_read(self, dag_id: str) -> bool:
        """Ask Airflow as its own route of a task instance does."""
        if dag_id not in self._answers:
            self._answers[dag_id] = get_auth_manager().is_authorized_dag(
                method="GET",
                access_entity=DagAccessEntity.TASK_INSTANCE,
                details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
                user=self._user,
            )
        return self._answers[dag_id]


def _select(*, outer: bool = False) -> Select[Any]:
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
    # The name of the operator's class would leave out classes that are derived from it.
    is_capture = _fields_as_text().contains(f'"{OWN_FIELD}"')
    return _select().where(TaskInstance.state == "success", TaskInstance.end_date.is_not(None), is_capture)


def _select_recent(asked: Asked, dag_ids: Collection[str], most: int) -> Select[Any]:
    part = asked.dag.casefold()
    query = _select_captures().where(TaskInstance.dag_id.in_([each for each in dag_ids if part in each.casefold()]))
    if since := read_iso_time(asked.since):
        query = query.where(TaskInstance.end_date >= since)
    if until := read_iso_time(asked.until):
        query = query.where(TaskInstance.end_date < until)
    # As JSON, other names may be written with escapes.
    if asked.cluster.isascii() and asked.cluster.replace("_", "").replace("-", "").isalnum():
        query = query.where(_fields_as_text().contains(asked.cluster, autoescape=True))
    key = (getattr(TaskInstance, name) for name in _KEY_COLUMNS)
    return query.order_by(TaskInstance.end_date.desc(), *key).offset(asked.skip).limit(most)


def _fields_as_text() -> Any:
    return cast(RenderedTaskInstanceFields.rendered_fields, String)


def _dags_with_captures(dag_ids: Collection[str]) -> list[str]:
    query = _select_captures().where(TaskInstance.dag_id.in_(dag_ids)).with_only_columns(TaskInstance.dag_id)
    with create_session() as session:
        return list(session.scalars(query.distinct()))


def _read(query: Select[Any]) -> list[TaskInstanceFacts]:
    with create_session() as session:
        rows = session.execute(query).all()
    return [
        TaskInstanceFacts(
            key=TaskInstanceKey(row.dag_id, row.run_id, row.task_id, row.map_index),
            state=row.state and str(row.state),
            try_number=row.try_number,
            started=row.start_date,
            ended=row.end_date,
            fields=row.rendered_fields,
        )
        for row in rows
    ]
