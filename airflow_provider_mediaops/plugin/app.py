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
from fastapi import Depends, FastAPI, Path, Query, Request
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
    EarlierRun,
    comparable,
    fields_of,
    origin_remark,
    read_captures,
    read_earlier,
    report_page,
    state_in_words,
)
from airflow_provider_mediaops.plugin.task_instances import NotAllowedError, ReadableTaskInstances, TaskInstanceKey
from airflow_provider_mediaops.report_urls import LIST_PATH, NOT_MAPPED, REPORT_PATH, URL_PREFIX

if TYPE_CHECKING:
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

_UNKNOWN = "Airflow does not know it, or has deleted it."


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


class Pages:
    """The pages; ``seconds`` is how long one waits for a store, and to be made."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # A few for each store, so that some that hang leave room for the others.
        self._threads = RequestThreads(32, 4, "mediaops-page")

    async def report(
        self,
        request: Request,
        readable: _Readable,
        *,
        dag_id: _Name,
        task_id: _Name,
        map_index: _MapIndex,
        run_id: _Name,
        before: str = "",
    ) -> HTMLResponse:
        """Return the page of a task instance, compared with that of an earlier run if ``before`` names one."""
        key = TaskInstanceKey(dag_id, run_id, task_id, map_index)
        list_url = _list_url(request)
        facts = await run_in_threadpool(readable.find, key)
        if facts is None:
            return _html(_message("No such task instance", [_UNKNOWN], key, list_url), HTTPStatus.NOT_FOUND)
        try:
            fields = fields_of(facts)
            others = await run_in_threadpool(readable.others_of, key)
            found = await self._work_at(fields.texts[0], partial(read_captures, fields))
            earlier = await self._earlier(facts, others, before) if before else None
            made = partial(report_page, facts, fields, found, others, earlier, list_url=list_url)
            return _html(await self._answer_of("The API server", made))
        except NothingToShowError as error:
            sentences = [error.sentence, *state_in_words(facts)]
            return _html(_message(error.title, sentences, key, list_url), error.status)

    async def _earlier(self, facts: TaskInstanceFacts, others: list[TaskInstanceFacts], run_id: str) -> EarlierRun:
        """Read the capture of an earlier run, whose store may be another one and hang; else say what is wrong."""
        chosen = next((choice for choice in comparable(facts, others) if choice.key.run_id == run_id), None)
        if chosen is None:
            return EarlierRun(run_id, notice="There is no earlier capture of this task in that run.")
        try:
            path = read_fields(chosen.fields or {}).texts[0]
            return EarlierRun(run_id, await self._work_at(path, partial(read_earlier, chosen)))
        except NothingToShowError as error:
            return EarlierRun(run_id, notice=f"The capture of {run_id} cannot be shown: {error}")

    async def list(self, request: Request, readable: _Readable, asked: Annotated[Asked, Query()]) -> HTMLResponse:
        """Return the list of captures: a page of those that fit of the next ones."""
        found = await run_in_threadpool(readable.recent, asked, _MOST_LOOKED_AT)
        # The query finds those of similar names, too.
        fitting = [facts for facts in found if _is_of_cluster(facts, asked.cluster)]
        shown = fitting[:_ROWS]
        older = None
        if len(fitting) > _ROWS:
            older = asked.skip + found.index(shown[-1]) + 1
        elif len(found) == _MOST_LOOKED_AT:
            older = asked.skip + len(found)
        seen: set[str] = set()
        rows = await asyncio.gather(*(self._row(facts, seen) for facts in shown))
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


def build_app(seconds: float = 15) -> FastAPI:
    """Build the app, to be mounted below :data:`~airflow_provider_mediaops.report_urls.URL_PREFIX`."""
    app = FastAPI(
        title="Hot threads",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(get_user)],
    )
    for error in (HTTPException, NotAllowedError, RequestValidationError):
        app.add_exception_handler(error, _refuse)
    pages = Pages(seconds)

    app.get(LIST_PATH)(pages.list)
    # The path of the run takes the rest: its id may contain slashes.
    app.get(f"{REPORT_PATH}/{{dag_id}}/{{task_id}}/{{map_index}}/{{run_id:path}}")(pages.report)
    return app


_REFUSALS = {
    HTTPStatus.UNAUTHORIZED: ("Not signed in", "Sign in to Airflow, then reload this page."),
    HTTPStatus.FORBIDDEN: (
        "Not allowed",
        "You may not read the task instances of this DAG. An administrator of Airflow can permit it.",
    ),
    HTTPStatus.NOT_FOUND: ("No such page", _UNKNOWN),
}


async def _refuse(_: Request, error: Exception) -> HTMLResponse:
    # An address that cannot be read is that of no page.
    status = HTTPStatus.NOT_FOUND
    if isinstance(error, NotAllowedError):
        status = HTTPStatus.FORBIDDEN
    elif isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
    title, sentence = _REFUSALS.get(status, (status.phrase, status.description))
    return _html(_message(title, [sentence]), status)


def _message(title: str, sentences: list[str], key: TaskInstanceKey | None = None, list_url: str = "") -> str:
    """Return a page without a report; one about a task instance has links."""
    values = {"title": title, "sentences": sentences, "key": key, "list_url": list_url}
    return render("message.html", values, in_airflow=True)


def _html(text: str, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    return HTMLResponse(text, status, _HEADERS)


def _base_url(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/").removesuffix(URL_PREFIX)


def _list_url(request: Request) -> str:
    return f"{_base_url(request)}{URL_PREFIX}{LIST_PATH}"
