"""The layer before the services: every request is recorded, and an armed fault may befall it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.middleware.base import BaseHTTPMiddleware

from airflow_provider_mediaops.sandbox.clock import moment
from airflow_provider_mediaops.sandbox.faults import DelayFault, DropFault, Fault, LimitFault, StatusFault, service_of
from airflow_provider_mediaops.sandbox.refusals import refusal_of_status
from airflow_provider_mediaops.sandbox.state import RequestRecord, SandboxState

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.types import ASGIApp

#: The ASGI extension by which the server lets an application close its connection.
HANG_UP = "mediaops.hang_up"

# Parameters that may hold a credential.
_SECRET_PARAMETERS = {"key", "authorization", "access_token"}

Work: TypeAlias = Callable[[Request], Awaitable[Response]]


class Gate(BaseHTTPMiddleware):
    """Records the requests to the services, and lets faults befall them."""

    def __init__(self, app: ASGIApp, state: SandboxState) -> None:
        super().__init__(app)
        self._state = state

    async def dispatch(self, request: Request, work: Work) -> Response:
        """Answer a request."""
        service = service_of(request.url.path)
        if service is None:
            return await work(request)
        fault = self._state.faults.take(service, request.url.path)
        record = RequestRecord(
            at=moment(self._state.clock.now()),
            service=service,
            method=request.method,
            path=request.url.path,
            query=_shown(request.query_params),
            fault=fault.kind if fault else None,
        )
        self._state.requests.append(record)
        response = await (self._befall(fault, request, work) if fault else work(request))
        record.status = None if response is None else response.status_code
        return response or Response()

    async def _befall(self, fault: Fault, request: Request, work: Work) -> Response | None:
        """Return the reply; None if the connection was dropped before it."""
        match fault:
            case StatusFault():
                return _status_reply(fault)
            case LimitFault():
                return self._state.limit_refusal(fault.service).response()
            case DelayFault(point="before_work"):
                await self._state.clock.sleep(fault.seconds)
                return await work(request)
            case DelayFault():
                response = await work(request)
                await self._state.clock.sleep(fault.seconds)
                return response
            case DropFault(point="mid_body"):
                return _half(request, await work(request))
            case DropFault():
                if fault.point == "before_reply":
                    await work(request)
                await _hang_up(request)
        return None


def _half(request: Request, whole: Response) -> Response:
    """Announce the whole body, at least a byte, send half of it, and hang up."""

    async def chunks() -> AsyncIterator[bytes]:
        body = b"".join([chunk async for chunk in whole.body_iterator])  # type: ignore[attr-defined] # starlette's own
        yield body[: len(body) // 2]
        await _hang_up(request)

    length = max(int(whole.headers["content-length"]), 1)
    return StreamingResponse(chunks(), whole.status_code, {**whole.headers, "content-length": str(length)})


async def _hang_up(request: Request) -> None:
    close = request.scope.get("extensions", {}).get(HANG_UP)
    if close is None:
        raise ConnectionResetError("The connection is dropped here; SandboxServer can do that, this server cannot.")
    close()
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _status_reply(fault: StatusFault) -> Response:
    if fault.body is None:
        message = f"{HTTPStatus(fault.status).phrase} (a fault armed at the sandbox's switchboard)"
        response: Response = refusal_of_status(fault.service, fault.status, message).response()
    elif isinstance(fault.body, str):
        media_type = "text/html" if fault.body.startswith("<") else "text/plain"
        response = Response(fault.body, status_code=fault.status, media_type=media_type)
    else:
        response = JSONResponse(fault.body, status_code=fault.status)
    if fault.retry_after is not None:
        response.headers["Retry-After"] = str(fault.retry_after)
    return response


def _shown(query: QueryParams) -> dict[str, str]:
    return {name: "***" if name.lower() in _SECRET_PARAMETERS else ",".join(query.getlist(name)) for name in query}
