"""What happens to a request before its service: it is recorded, and a fault that the switchboard arms may befall it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.middleware.base import BaseHTTPMiddleware

from airflow_provider_mediaops.sandbox.clock import moment
from airflow_provider_mediaops.sandbox.refusals import refusal_of_status

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.types import ASGIApp

    from airflow_provider_mediaops.sandbox.state import SandboxState

#: A service, as faults and the recorded requests name it; ``token`` is the video platform's token endpoint.
Service = Literal["video", "token", "cluster", "books"]

TOKEN_PATH = "/video/oauth2/token"  # noqa: S105 - an address, not a token

_ROOTS: dict[str, Service] = {TOKEN_PATH: "token", "/video": "video", "/cluster": "cluster", "/books": "books"}
# Parameters that may hold a credential.
_SECRET_PARAMETERS = {"key", "authorization", "access_token"}

Work: TypeAlias = Callable[[Request], Awaitable[Response]]


def service_of(path: str) -> Service | None:
    """Return the service to which a path belongs; None for the switchboard and the manual."""
    for root, service in _ROOTS.items():
        if path == root or path.startswith(f"{root}/"):
            return service
    return None


class _Armed(BaseModel):
    """The fields that all faults have."""

    model_config = ConfigDict(extra="forbid")

    service: Service = Field(description="Whose requests it befalls; `token` is the video platform's token endpoint.")
    count: int = Field(default=1, ge=1, description="How many requests it befalls.")
    after: int = Field(default=0, ge=0, description="How many matching requests it lets pass first.")
    path: str | None = Field(default=None, description="Only requests whose path contains this text.")


class StatusFault(_Armed):
    """Answer with a status, without doing the work."""

    kind: Literal["status"] = "status"
    status: int = Field(ge=200, le=599, description="The HTTP status.")
    retry_after: int | None = Field(default=None, ge=0, description="Seconds for a `Retry-After` header.")
    body: Any = Field(
        default=None,
        description="The reply: a string is sent as HTML if it begins with `<`, else as plain text; anything else is "
        "sent as JSON. Without one, an error comes in the service's own shape.",
    )


class DelayFault(_Armed):
    """Delay the work, or the reply to it."""

    kind: Literal["delay"] = "delay"
    seconds: float = Field(gt=0, le=600, description="How long the request waits.")
    point: Literal["before_work", "before_reply"] = Field(
        default="before_work", description="Whether it waits before it is worked on, or for its reply."
    )


class DropFault(_Armed):
    """Close the connection."""

    kind: Literal["drop"] = "drop"
    point: Literal["before_work", "before_reply", "mid_body"] = Field(
        default="mid_body",
        description="`before_work`: nothing was done. `before_reply`: the work was done, no byte of the reply is sent. "
        "`mid_body`: the reply announces its whole length and ends half-way.",
    )


class LimitFault(_Armed):
    """Answer that the limit is reached, without doing the work."""

    kind: Literal["limit"] = "limit"


#: Any fault.
Fault: TypeAlias = StatusFault | DelayFault | DropFault | LimitFault


class FaultBoard:
    """The armed faults."""

    def __init__(self) -> None:
        #: The faults still to come, in the order in which they were armed; ``count`` and ``after`` are what is left.
        self.armed: list[Fault] = []

    def arm(self, fault: Fault) -> None:
        """Arm a fault."""
        self.armed.append(fault.model_copy())

    def take(self, service: Service, path: str) -> Fault | None:
        """Find the fault that befalls a request: the first that matches and has nothing more to let pass."""
        for fault in self.armed:
            if fault.service != service or (fault.path or "") not in path:
                continue
            if fault.after:
                fault.after -= 1
                continue
            fault.count -= 1
            self.armed = [each for each in self.armed if each.count]
            return fault
        return None


class RequestRecord(BaseModel):
    """A request to one of the services, without anything secret."""

    at: datetime = Field(description="When it came, UTC.")
    service: Service
    method: str
    path: str
    query: dict[str, str] = Field(description="Its parameters; the values of keys and tokens are `***`.")
    status: int | None = Field(default=None, description="The reply's status; null if no reply was begun.")
    fault: str | None = Field(default=None, description="The kind of fault that befell it.")


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
            case DropFault(point="before_reply"):
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
    # Of SandboxServer; other servers give an application no way to its connection.
    request.state.hang_up()
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
