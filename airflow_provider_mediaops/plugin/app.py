"""
Serve the pages in Airflow's API server.

Nothing is anonymous, and there is no description of the app. A route reads task instances by its reader's
:class:`~airflow_provider_mediaops.plugin.task_instances.ReadableTaskInstances`, which asks Airflow for the right. What
may block for long runs in threads of which each store has a share: one that hangs does not hold up the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from pydantic import BeforeValidator
from starlette.exceptions import HTTPException

from airflow_provider_mediaops.cluster.page.assets import render
from airflow_provider_mediaops.http.request_threads import RequestThreads
from airflow_provider_mediaops.plugin.list_page import Asked, Row, list_page, summary_of
from airflow_provider_mediaops.plugin.rendered_fields import (
    NoAnswerError,
    NothingToShowError,
    cluster_of,
    is_capture,
    read_fields,
    store_of,
)
from airflow_provider_mediaops.plugin.report_page import (
    comparable,
    origin_remark,
    read_captures,
    read_earlier,
    report_page,
)
from airflow_provider_mediaops.plugin.task_instances import NotAllowedError, ReadableTaskInstances, TaskInstanceKey
from airflow_provider_mediaops.report_urls import LIST_PATH, NOT_MAPPED, REPORT_PATH, URL_PREFIX

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.plugin.rendered_fields import CaptureFields
    from airflow_provider_mediaops.plugin.task_instances import TaskInstanceFacts

Result = TypeVar("Result")

_HEADERS = {
    # Reports change, and are for this reader only.
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ROWS = 20
# How many task instances are looked at for a page in search of those of a cluster.
_MOST_LOOKED_AT = 100


class Pages:
    """The pages; ``seconds`` is how long one waits for a store, and to be made."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # A few for each store, so that some that hang leave room for the others.
        self._threads = RequestThreads(32, 4, "mediaops-page")

    async def report(
        self, request: Request, readable: ReadableTaskInstances, key: TaskInstanceKey, before: str
    ) -> HTMLResponse:
        """Return the page of a task instance, compared with that of an earlier run if ``before`` names one."""
        facts = await run_in_threadpool(readable.find, key)
        if facts is None:
            return _message(request, HTTPStatus.NOT_FOUND, "No such task instance", [_UNKNOWN], key=key)
        try:
            fields = _fields_of(facts)
            others = await run_in_threadpool(readable.others_of, key)
            captures, missing = await self._work_at(fields.texts[0], partial(read_captures, fields))
            earlier, notice = await self._earlier(facts, others, before)
            make = partial(
                report_page,
                facts,
                fields,
                captures,
                others,
                earlier,
                before=before,
                notices=[*missing, notice],
                list_url=_list_url(request),
            )
            return _html(await self._answer_of("The API server", make))
        except NothingToShowError as error:
            sentences = [error.sentence, *_about_state(facts)]
            return _message(request, error.status, error.title, sentences, key=key)

    async def _earlier(
        self, facts: TaskInstanceFacts, others: list[TaskInstanceFacts], before: str
    ) -> tuple[Capture | None, str]:
        """Read the capture of an earlier run, whose store may be another one and hang; else say what is wrong."""
        if not before:
            return None, ""
        chosen = next((choice for choice in comparable(facts, others) if choice.key.run_id == before), None)
        if chosen is None:
            return None, "There is no earlier capture of this task in that run."
        try:
            path = read_fields(chosen.fields or {}).texts[0]
            return await self._work_at(path, partial(read_earlier, chosen)), ""
        except NothingToShowError as error:
            return None, f"The capture of {before} cannot be shown: {error}"

    async def list(self, request: Request, readable: ReadableTaskInstances) -> HTMLResponse:
        """Return the list of captures: a page of those that fit of the next ones."""
        asked = Asked.from_query(request.query_params)
        found = await run_in_threadpool(readable.recent, asked, _MOST_LOOKED_AT)
        # The query finds those of similar names, too.
        fitting = [number for number, facts in enumerate(found, 1) if _is_of_cluster(facts, asked.cluster)]
        older = None
        if len(fitting) > _ROWS:
            older = asked.skip + fitting[_ROWS - 1]
        elif len(found) == _MOST_LOOKED_AT:
            older = asked.skip + len(found)
        seen: set[str] = set()
        rows = await asyncio.gather(*(self._row(found[number - 1], seen) for number in fitting[:_ROWS]))
        list_url, base_url = _list_url(request), _base_url(request)
        return _html(list_page(rows, asked, older=older, list_url=list_url, base_url=base_url))

    async def _row(self, facts: TaskInstanceFacts, seen: set[str]) -> Row:
        fields = facts.fields or {}
        cluster = cluster_of(fields)
        try:
            path = read_fields(fields).texts[0]
            is_replaced = path in seen
            seen.add(path)
            summary = await self._work_at(path, partial(summary_of, path))
        except NothingToShowError as error:
            return Row(facts, cluster, None, error.sentence)
        if is_replaced or origin_remark(summary.taken, facts):
            return Row(facts, cluster, None, "Its file is another capture by now: the destination is shared.")
        return Row(facts, cluster, summary)

    async def _work_at(self, path: str, work: Callable[[], Result]) -> Result:
        """Do what may block for long at the store of a file."""
        return await self._answer_of(store_of(path), work)

    async def _answer_of(self, store: str, work: Callable[[], Result]) -> Result:
        reading = asyncio.ensure_future(self._threads.run(store, work))
        try:
            await asyncio.wait([reading], timeout=self._seconds)
            if not reading.done():
                raise NoAnswerError(store)
            return reading.result()
        finally:
            reading.cancel()


def _is_of_cluster(facts: TaskInstanceFacts, part: str) -> bool:
    return is_capture(facts.fields) and part.casefold() in cluster_of(facts.fields).casefold()


_UNKNOWN = "Airflow does not know it, or has deleted it."
_NOT_STARTED = (None, "scheduled", "queued")
_UNDER_WAY = {
    "running": "The task is running. Its report appears here once it is captured.",
    "deferred": "The task waits in the triggerer. Its report appears here once it is captured.",
    "up_for_retry": "The task failed, and will be tried again.",
    "up_for_reschedule": "The task waits.",
    "restarting": "The task is restarting.",
    "skipped": "The task was skipped: no node ran hot within its wait_timeout, or a task before it decided so.",
    "failed": "The task failed. Its log says why.",
    "upstream_failed": "The task was not started: one before it failed.",
}


def _about_state(facts: TaskInstanceFacts) -> list[str]:
    return [_UNDER_WAY[facts.state]] if facts.state in _UNDER_WAY and is_capture(facts.fields) else []


def _fields_of(facts: TaskInstanceFacts) -> CaptureFields:
    if facts.fields is None:
        if facts.state in _NOT_STARTED:
            raise NothingToShowError("The task has not started.")
        raise NothingToShowError(
            "Airflow has no rendered template fields of this task instance, from which this page learns where its "
            "files are. It keeps those of the last runs; [core] num_dag_runs_to_retain_rendered_fields says of how "
            "many (older versions: max_num_rendered_ti_fields_per_task). The files themselves are where they were."
        )
    if not is_capture(facts.fields):
        raise NothingToShowError("This task captures no hot threads: it is not a CaptureHotThreadsOperator.")
    return read_fields(facts.fields)


def build_app(seconds: float = 15) -> FastAPI:
    """Build the app, to be mounted below :data:`~airflow_provider_mediaops.report_urls.URL_PREFIX`."""
    app = FastAPI(
        title="Hot threads",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(get_user)],
        default_response_class=HTMLResponse,
    )
    for error in (HTTPException, NotAllowedError, RequestValidationError):
        app.add_exception_handler(error, _refuse)
    pages = Pages(seconds)

    @app.get(LIST_PATH)
    async def captures(request: Request, readable: _Readable) -> HTMLResponse:
        return await pages.list(request, readable)

    # The path of the run takes the rest: its id may contain slashes.
    @app.get(f"{REPORT_PATH}/{{dag_id}}/{{task_id}}/{{map_index}}/{{run_id:path}}")
    async def report(
        request: Request,
        readable: _Readable,
        *,
        dag_id: _Name,
        task_id: _Name,
        map_index: _MapIndex,
        run_id: _Name,
        before: str = "",
    ) -> HTMLResponse:
        return await pages.report(request, readable, TaskInstanceKey(dag_id, run_id, task_id, map_index), before)

    return app


async def _readable(user: Annotated[Any, Depends(get_user)]) -> ReadableTaskInstances:
    return ReadableTaskInstances(user)


_Readable = Annotated[ReadableTaskInstances, Depends(_readable)]
# PostgreSQL takes no text with a NUL, and the column of the index in Airflow's database has four bytes.
_Name = Annotated[str, Path(pattern=r"^[^\x00]*$")]
# In place of the index of a task that is not mapped, Airflow leaves its placeholder.
_MapIndex = Annotated[
    int,
    BeforeValidator(lambda text: NOT_MAPPED if text == "{MAP_INDEX}" else text),
    Path(ge=NOT_MAPPED, lt=2**31),
]

_REFUSALS = {
    HTTPStatus.UNAUTHORIZED: ("Not signed in", "Sign in to Airflow, then reload this page."),
    HTTPStatus.FORBIDDEN: (
        "Not allowed",
        "You may not read the task instances of this DAG. An administrator of Airflow can permit it.",
    ),
    HTTPStatus.NOT_FOUND: ("No such page", _UNKNOWN),
}


async def _refuse(request: Request, error: Exception) -> HTMLResponse:
    # An address that cannot be read is that of no page.
    status = HTTPStatus.NOT_FOUND
    if isinstance(error, NotAllowedError):
        status = HTTPStatus.FORBIDDEN
    elif isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
    title, sentence = _REFUSALS.get(status, (status.phrase, status.description))
    return _message(request, status, title, [sentence], with_links=status not in _REFUSALS)


def _message(
    request: Request,
    status: HTTPStatus,
    title: str,
    sentences: list[str],
    *,
    key: TaskInstanceKey | None = None,
    with_links: bool = True,
) -> HTMLResponse:
    list_url = _list_url(request) if with_links else ""
    values = {"title": title, "sentences": sentences, "key": key, "list_url": list_url}
    return _html(render("message.html", values, in_airflow=True), status)


def _html(text: str, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    return HTMLResponse(text, status, _HEADERS)


def _base_url(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/").removesuffix(URL_PREFIX)


def _list_url(request: Request) -> str:
    return f"{_base_url(request)}{URL_PREFIX}{LIST_PATH}"
