"""An Airflow database with task instances, readers who may see some of its DAGs, and the pages in its server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models import DagModel, DagRun, TaskInstance
from airflow.models.dagbundle import DagBundleModel
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import delete, insert

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.plugin.app import build_app
from airflow_provider_mediaops.report_urls import LIST_PATH, NOT_MAPPED, URL_PREFIX, report_url
from tests.unit.hot_threads_text import cpu, section, stack, thread

if TYPE_CHECKING:
    import pytest
    from httpx import Response

BUNDLE = "plugin-tests"
START = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
LIST_URL = URL_PREFIX + LIST_PATH


def text(method: str = "org.opensearch.search.Work.step", *, at: datetime = START, percent: float = 88.0) -> str:
    """Give a report with one thread that is hot in one method."""
    return section(
        "node-a",
        thread(
            "opensearch[node-a][search][T#1]",
            cpu(percent),
            stack(10, f"{method}(Work.java:1)", "java.lang.Thread.run(Thread.java:1583)"),
        ),
        at=f"{at:%Y-%m-%dT%H:%M:%S.000Z}",
    )


#: Before the name of a DAG that a reader may read, with its runs, but without its task instances.
DAG_ONLY = "dag only: "


class Readers(SimpleAuthManager):
    """Airflow's simple auth manager, but each reader may read the DAGs that are named in the role, with commas."""

    def is_authorized_dag(
        self,
        *,
        method: Any,
        user: SimpleAuthManagerUser,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        readable = (user.role or "").split(",")
        if access_entity is not DagAccessEntity.TASK_INSTANCE:
            readable = [name.removeprefix(DAG_ONLY) for name in readable]
        return method == "GET" and ("*" in readable or (details is not None and details.id in readable))


class World:
    """Airflow with what a test puts into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._readers = Readers()  # type: ignore[no-untyped-call]
        self._run_number = 0
        self._dags: set[str] = set()

    def add(
        self,
        dag_id: str = "hot",
        *,
        run_id: str = "",
        task_id: str = "capture",
        map_index: int = NOT_MAPPED,
        state: str | None = "success",
        ended: datetime | None = START + timedelta(minutes=1),
        minutes: float = 2,
        written: str | None = None,
        fields: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> str:
        """
        Add a task instance.

        :param written: the text at its destination; None writes none.
        :param fields: its rendered fields; None for those of the operator with the arguments; empty for none.
        """
        run_id = run_id or f"run-{len(self._dags)}-{self._next_run()}"
        self._add_run(dag_id, run_id)
        if fields is None:
            arguments = {"destination": str(self.folder / run_id / f"{task_id}.txt"), **arguments}
            fields = rendered(**arguments)
        if written is not None:
            file = self.folder / str(fields["destination"]).removeprefix(f"{self.folder}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(written, encoding="utf-8", errors="surrogateescape")
        key = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        started = ended - timedelta(minutes=minutes) if ended else None
        values = {**key, "pool": "default_pool", "state": state, "try_number": 1}
        with create_session() as session:
            session.execute(insert(TaskInstance.__table__).values(**values, start_date=started, end_date=ended))
            if fields:
                table: Any = RenderedTaskInstanceFields.__table__
                session.execute(insert(table).values(**key, rendered_fields=fields))
        return report_url(dag_id, run_id, task_id, map_index)

    def _next_run(self) -> int:
        self._run_number += 1
        return self._run_number

    def _add_run(self, dag_id: str, run_id: str) -> None:
        with create_session() as session:
            if dag_id not in self._dags:
                session.merge(DagBundleModel(name=BUNDLE))
                session.flush()
                self._dags.add(dag_id)
                limits = {"max_active_tasks": 1, "max_consecutive_failed_dag_runs": 0}
                dag = {"dag_id": dag_id, "bundle_name": BUNDLE, "has_task_concurrency_limits": False, **limits}
                session.execute(insert(DagModel.__table__).values(**dag))
            known = session.query(DagRun.id).filter_by(dag_id=dag_id, run_id=run_id).first()
            if known is None:
                run = {"dag_id": dag_id, "run_id": run_id, "run_type": "manual", "run_after": START}
                session.execute(insert(DagRun.__table__).values(**run, state="success"))

    def reader(self, *dags: str) -> TestClient:
        """Return the browser of a reader of these DAGs and their task instances; ``*`` for all."""
        root = FastAPI()
        root.mount(URL_PREFIX, build_app(seconds=self.seconds))
        headers = {"Authorization": f"Bearer {self.token(*dags)}"}
        return TestClient(root, headers=headers, raise_server_exceptions=False)

    #: How long a page waits for a store.
    seconds = 120.0

    def token(self, *dags: str) -> str:
        """Return the session of such a reader, as the browser's cookie holds it."""
        token: str = self._readers.generate_jwt(SimpleAuthManagerUser(username="reader", role=",".join(dags)))
        return token

    def get(self, url: str, *dags: str, **query: str) -> Response:
        """Open a page, by default as one who may read everything."""
        with self.reader(*(dags or ("*",))) as browser:
            response: Response = browser.get(url, params=query or None)
            return response

    def install(self, patch: pytest.MonkeyPatch, manager: SimpleAuthManager | None = None) -> None:
        """Have Airflow ask our readers' rights, or an auth manager for those of its users."""
        manager = manager or self._readers
        if hasattr(airflow_app, "_AuthManagerState"):
            patch.setattr(airflow_app._AuthManagerState, "instance", manager)  # noqa: SLF001
        else:
            patch.setattr(airflow_app, "auth_manager", manager)


def rendered(**arguments: Any) -> dict[str, Any]:
    """Return the rendered fields of a capturing task, as Airflow stores them."""
    task = CaptureHotThreadsOperator(task_id="capture", **arguments)
    fields = {name: getattr(task, name) for name in task.template_fields}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


@contextmanager
def empty_database() -> Iterator[None]:
    """Remove what other tests have left in the database, and what this one puts there."""
    _remove_all()
    try:
        yield
    finally:
        _remove_all()


def _remove_all() -> None:
    with create_session() as session:
        for table in (RenderedTaskInstanceFields, XComModel, TaskInstance, DagRun, DagModel):
            session.execute(delete(table))
        session.execute(delete(DagBundleModel).where(DagBundleModel.name == BUNDLE))


def runs_in(html: str, runs: Collection[str]) -> list[str]:
    """Return which runs a page names, in its order."""
    return sorted((run for run in runs if run in html), key=html.index)


def older(page: str) -> str:
    """Return the address of the next page of the list; empty if there is none."""
    found = re.search(r'<a href="([^"]*)" rel="next"', page)
    return found[1].replace("&amp;", "&") if found else ""
