"""The sandbox as an ASGI application: three services, a switchboard, and the layers before them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from airflow_provider_mediaops.sandbox import manual, switchboard
from airflow_provider_mediaops.sandbox.books.plans import PLANS
from airflow_provider_mediaops.sandbox.books.routes import admit as admit_to_books
from airflow_provider_mediaops.sandbox.books.routes import router as books_router
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.gate import Gate
from airflow_provider_mediaops.sandbox.head import HeadAsGet
from airflow_provider_mediaops.sandbox.hosts import OwnHosts
from airflow_provider_mediaops.sandbox.refusals import (
    RefusedError,
    books_refusal,
    token_refusal,
    video_refusal,
)
from airflow_provider_mediaops.sandbox.services import Service, service_of
from airflow_provider_mediaops.sandbox.video import routes as video
from airflow_provider_mediaops.sandbox.video.access import admit_reader
from airflow_provider_mediaops.sandbox.video.token_endpoint import router as token_router

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from airflow_provider_mediaops.sandbox.state import SandboxState

_TITLE = "MediaOps sandbox"
_DESCRIPTION = """
A stand-in for the video platform, the search cluster and the book database, with invented data.
It keeps their rules and limits; the switchboard under `/_sandbox` makes them fail.
"""


def create_app(state: SandboxState, *, host: str) -> ASGIApp:
    """
    Build the sandbox.

    :param state: its settings, clock and memory; it serves one application.
    :param host: the name or address on which it is served: it answers to this name and those of the machine itself.
    :returns: an ASGI application. Its own manual is at ``/docs``.
    """
    # FastAPI's own manual loads scripts from a network.
    app = FastAPI(title=_TITLE, description=_DESCRIPTION, redirect_slashes=False, docs_url=None, redoc_url=None)
    app.state.sandbox = state
    app.include_router(video.router)
    app.include_router(token_router)
    app.include_router(cluster.router)
    for plan in PLANS:
        app.include_router(books_router, prefix=plan.root)
    app.include_router(switchboard.router)
    app.exception_handler(RefusedError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_invalid)
    app.exception_handler(HTTPException)(_refuse_unknown)

    @app.get("/docs", include_in_schema=False)
    async def show_manual() -> HTMLResponse:
        return HTMLResponse(manual.page(app.openapi()), headers={"Content-Security-Policy": manual.CONTENT_POLICY})

    return OwnHosts(Gate(HeadAsGet(app), state=state), host=host)


async def _refuse(_: Request, refusal: RefusedError) -> Response:
    return refusal.response()


async def _refuse_invalid(request: Request, invalid: RequestValidationError) -> Response:
    """Reply with the service's own error to a request that does not pass validation."""
    service, error = service_of(request.url.path), invalid.errors()[0]
    if service == "video":
        return video.refusal_of_invalid(error).response()
    if service == "books":
        return books_refusal(400, f"{error['loc'][-1]}: {error['msg']}").response()
    return await request_validation_exception_handler(request, invalid)


async def _refuse_unknown(request: Request, unknown: HTTPException) -> Response:
    """
    Reply with the service's own error to a request for an unknown address, or with a wrong method.

    The credential is checked first, and the request counts against the limits, as at the service's own addresses.
    """
    service = service_of(request.url.path)
    if service is None:
        return await http_exception_handler(request, unknown)
    try:
        _admit(service, request)
    except RefusedError as refusal:
        return refusal.response()
    return _unknown_endpoint(service, unknown.status_code, f"{request.method} {request.url.path}").response()


def _admit(service: Service, request: Request) -> None:
    state: SandboxState = request.app.state.sandbox
    if service == "video":
        admit_reader(request, state)
    elif service == "books":
        admit_to_books(request, state)


def _unknown_endpoint(service: Service, status: int, what: str) -> RefusedError:
    message = f"There is no endpoint {what}."
    if service == "video":
        return video_refusal(status, "notFound" if status == HTTPStatus.NOT_FOUND else "methodNotAllowed", message)
    if service == "token":
        return token_refusal(status, "invalid_request", message)
    return books_refusal(status, message)
