"""The sandbox as an ASGI application: three services and a switchboard, behind the gate where faults take effect."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Query, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import BaseRoute  # noqa: TC002 - of all routes, FastAPI reads the annotations

from airflow_provider_mediaops.sandbox import books, cluster, video
from airflow_provider_mediaops.sandbox.cluster_nodes import NODES, CpuPin
from airflow_provider_mediaops.sandbox.faults import Fault, Gate, RequestRecord, Service, service_of
from airflow_provider_mediaops.sandbox.refusals import RefusedError, refusal_of_invalid, refusal_of_status
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState

_DESCRIPTION = """
A stand-in for the video platform, the search cluster and the book database, with invented data.
It keeps their rules and limits; the switchboard under `/_sandbox` makes them fail.
"""

_switchboard = APIRouter(prefix="/_sandbox", tags=["switchboard"])


def create_app(state: SandboxState, *, host: str) -> FastAPI:
    """Build the sandbox of one state, served on a host. Its manual is at ``/docs``."""
    app = FastAPI(
        title="MediaOps sandbox", description=_DESCRIPTION, redirect_slashes=False, redoc_url=None, routes=[*_routes()]
    )
    app.state.sandbox = state
    app.exception_handler(RefusedError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_invalid)
    app.exception_handler(HTTPException)(_refuse_unknown)
    app.add_middleware(Gate, state=state)
    # A web page can make its own host name lead to this machine, and have the browser ask the sandbox under that name.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[host, "127.0.0.1", "localhost"])
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Return the routes of every sandbox of this process; a test may start one after the other."""
    router = APIRouter()
    router.include_router(video.router)
    router.include_router(cluster.router)
    for plan in books.PLANS:
        router.include_router(books.router, prefix=plan.root)
    router.include_router(_switchboard)
    return router.routes


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


@_switchboard.post("/faults", status_code=201)
async def arm_fault(fault: Annotated[Fault, Body(discriminator="kind")], sandbox: Sandbox) -> list[Fault]:
    """Arm a fault. It befalls the next requests that match, after those armed before it."""
    sandbox.faults.arm(fault)
    return sandbox.faults.armed


@_switchboard.get("/faults")
async def armed_faults(sandbox: Sandbox) -> list[Fault]:
    """Show the armed faults, with what is left of their counts."""
    return sandbox.faults.armed


@_switchboard.delete("/faults", status_code=204)
async def disarm_faults(sandbox: Sandbox) -> None:
    """Disarm all faults."""
    sandbox.faults.armed.clear()


@_switchboard.post("/cpu", status_code=201)
async def pin_cpu(pin: CpuPin, sandbox: Sandbox) -> list[CpuPin]:
    """Pin the CPU of one node, or of all."""
    if not sandbox.cluster.pin(pin):
        raise HTTPException(404, f"There is no node {pin.node!r}; there are {', '.join(node.name for node in NODES)}.")
    return list(sandbox.cluster.pins.values())


@_switchboard.get("/cpu")
async def pinned_cpu(sandbox: Sandbox) -> list[CpuPin]:
    """Show which nodes' CPU is pinned."""
    return list(sandbox.cluster.pins.values())


@_switchboard.delete("/cpu", status_code=204)
async def unpin_cpu(sandbox: Sandbox) -> None:
    """Unpin the CPU of all nodes: it rises and falls again."""
    sandbox.cluster.pins.clear()


@_switchboard.get("/requests")
async def seen_requests(
    sandbox: Sandbox, service: Annotated[Service | None, Query(description="Only this service's.")] = None
) -> list[RequestRecord]:
    """Show the last 10,000 requests to the services, oldest first, without secrets."""
    return [record for record in sandbox.requests if service in (None, record.service)]


@_switchboard.delete("/requests", status_code=204)
async def forget_requests(sandbox: Sandbox) -> None:
    """Forget the requests seen so far."""
    sandbox.requests.clear()


@_switchboard.get("/bulletins")
async def posted_bulletins(sandbox: Sandbox) -> list[dict[str, Any]]:
    """Show the bulletins that were posted, oldest first."""
    return sandbox.bulletins
