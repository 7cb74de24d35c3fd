"""The sandbox as an ASGI application: three services, a switchboard, and the layers before them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from airflow_provider_mediaops.sandbox import switchboard
from airflow_provider_mediaops.sandbox.books import routes as books
from airflow_provider_mediaops.sandbox.books.plans import PLANS
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.gate import Gate
from airflow_provider_mediaops.sandbox.refusals import RefusedError, refusal_of_invalid, refusal_of_status
from airflow_provider_mediaops.sandbox.services import service_of
from airflow_provider_mediaops.sandbox.video import routes as video

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from airflow_provider_mediaops.sandbox.state import SandboxState

_DESCRIPTION = """
A stand-in for the video platform, the search cluster and the book database, with invented data.
It keeps their rules and limits; the switchboard under `/_sandbox` makes them fail.
"""


def create_app(state: SandboxState, *, host: str) -> ASGIApp:
    """Build the sandbox of one state, served on a host. Its manual is at ``/docs``."""
    app = FastAPI(title="MediaOps sandbox", description=_DESCRIPTION, redirect_slashes=False, redoc_url=None)
    app.state.sandbox = state
    app.include_router(video.router)
    app.include_router(cluster.router)
    for plan in PLANS:
        app.include_router(books.router, prefix=plan.root)
    app.include_router(switchboard.router)
    app.exception_handler(RefusedError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_invalid)
    app.exception_handler(HTTPException)(_refuse_unknown)
    # A web page can make its own host name lead to this machine, and have the browser ask the sandbox under that name.
    return TrustedHostMiddleware(Gate(app, state=state), allowed_hosts=[host, "127.0.0.1", "localhost"])


async def _refuse(_: Request, refusal: RefusedError) -> Response:
    return refusal.response()


async def _refuse_invalid(request: Request, invalid: RequestValidationError) -> Response:
    """Reply with the service's own error to a request that does not pass validation."""
    service = service_of(request.url.path)
    if service is None:
        return await request_validation_exception_handler(request, invalid)
    return refusal_of_invalid(service, invalid.errors()[0]).response()


async def _refuse_unknown(request: Request, unknown: HTTPException) -> Response:
    """Reply with the service's own error to a request for an unknown address, or with a wrong method."""
    service, path = service_of(request.url.path), request.url.path
    if service is None:
        return await http_exception_handler(request, unknown)
    status, message = unknown.status_code, f"There is no endpoint {request.method} {path}."
    if service == "cluster":
        message = f"no handler found for uri [{path.removeprefix('/cluster')}] and method [{request.method}]"
        status = 400 if status == HTTPStatus.NOT_FOUND else status
    return refusal_of_status(service, status, message).response()
