"""The sandbox as an ASGI application: three services, a switchboard, and the gate before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from airflow_provider_mediaops.sandbox import switchboard
from airflow_provider_mediaops.sandbox.books import routes as books
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.gate import Gate
from airflow_provider_mediaops.sandbox.refusals import (
    RefusedError,
    books_refusal,
    token_refusal,
    video_refusal,
)
from airflow_provider_mediaops.sandbox.services import Service, service_of
from airflow_provider_mediaops.sandbox.video import models as video_models
from airflow_provider_mediaops.sandbox.video import routes as video

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.state import SandboxState

_MANUAL = """
A stand-in for the video platform, the search cluster and the book database, with invented data.
It keeps their rules and limits; the switchboard under `/_sandbox` makes them fail.
"""


def create_app(state: SandboxState) -> Gate:
    """Build the sandbox.

    :param state: its settings, clock and memory; it serves one application.
    :returns: an ASGI application. Its own manual is at ``/docs``.
    """
    app = FastAPI(title="MediaOps sandbox", description=_MANUAL, redirect_slashes=False)
    app.state.sandbox = state
    app.include_router(video.router)
    app.include_router(cluster.router)
    for plan in books.PLANS:
        app.include_router(books.router, prefix=plan.root)
    app.include_router(switchboard.router)
    app.exception_handler(RefusedError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_invalid)
    app.exception_handler(HTTPException)(_refuse_unknown)
    return Gate(app, state=state)


async def _refuse(_: Request, refusal: RefusedError) -> Response:
    return refusal.response()


async def _refuse_invalid(request: Request, invalid: RequestValidationError) -> Response:
    """Say in a service's own shape that a request does not fit its model."""
    service, error = service_of(request.url.path), invalid.errors()[0]
    if service == "video":
        return video_models.refusal_of_invalid(error).response()
    if service == "books":
        return books_refusal(400, f"{error['loc'][-1]}: {error['msg']}").response()
    return await request_validation_exception_handler(request, invalid)


async def _refuse_unknown(request: Request, unknown: HTTPException) -> Response:
    """Say in a service's own shape that there is no such address, or not with that method."""
    service = service_of(request.url.path)
    if service is None:
        return await http_exception_handler(request, unknown)
    return _unknown_endpoint(service, unknown.status_code, f"{request.method} {request.url.path}").response()


def _unknown_endpoint(service: Service, status: int, what: str) -> RefusedError:
    if service == "video":
        return video_refusal(status, "notFound", f"There is no endpoint {what}.")
    if service == "token":
        return token_refusal(status, "invalid_request", f"There is no endpoint {what}.")
    return books_refusal(status, f"There is no endpoint {what}.")
