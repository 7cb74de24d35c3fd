"""The layer before the services: every request is recorded, and an armed fault may befall it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from airflow_provider_mediaops.sandbox.clock import moment
from airflow_provider_mediaops.sandbox.faults import DelayFault, DropFault, Fault, LimitFault, StatusFault, service_of
from airflow_provider_mediaops.sandbox.refusals import refusal_of_status
from airflow_provider_mediaops.sandbox.state import RequestRecord, SandboxState

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: The ASGI extension by which the server lets an application close its connection.
HANG_UP = "mediaops.hang_up"

# Parameters that may hold a credential.
_SECRET_PARAMETERS = {"key", "authorization", "access_token"}


@dataclass(slots=True)
class _Reply:
    """A whole reply, held back."""

    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    async def keep(self, message: Message) -> None:
        """Keep a message of the application."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], tuple(message["headers"])
        else:
            self.body += message.get("body", b"")

    async def send(self, send: Send) -> None:
        """Send the reply."""
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": self.body})

    async def send_half(self, send: Send) -> None:
        """Announce the whole body, at least a byte, and send half of it."""
        others = [header for header in self.headers if header[0].lower() != b"content-length"]
        headers = [*others, (b"content-length", str(len(self.body) or 1).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body[: len(self.body) // 2], "more_body": True})


class Gate:
    """An ASGI layer around the services that records requests and lets faults befall them."""

    def __init__(self, app: ASGIApp, *, state: SandboxState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, as ASGI asks."""
        service = service_of(scope["path"]) if scope["type"] == "http" else None
        if service is None:
            await self._app(scope, receive, send)
            return
        fault = self._state.faults.take(service, scope["path"])
        record = RequestRecord(
            at=moment(self._state.clock.now()),
            service=service,
            method=scope["method"],
            path=scope["path"],
            query=_shown(Request(scope).query_params),
            fault=fault.kind if fault else None,
        )
        self._state.requests.append(record)

        async def send_noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
            await send(message)

        if fault is None:
            await self._app(scope, receive, send_noting)
        else:
            await self._befall(fault, scope, receive, send_noting)

    async def _befall(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        match fault:
            case StatusFault():
                await _status_reply(fault)(scope, receive, send)
            case LimitFault():
                await self._state.limit_refusal(fault.service).response()(scope, receive, send)
            case DelayFault(point="before_work"):
                await self._state.clock.sleep(fault.seconds)
                await self._app(scope, receive, send)
            case DelayFault():
                reply = await self._work(scope, receive)
                await self._state.clock.sleep(fault.seconds)
                await reply.send(send)
            case DropFault(point="before_work"):
                await _hang_up(scope, receive)
            case DropFault():
                reply = await self._work(scope, receive)
                if fault.point == "mid_body":
                    await reply.send_half(send)
                await _hang_up(scope, receive)

    async def _work(self, scope: Scope, receive: Receive) -> _Reply:
        """Have the service do its work, and hold its reply back."""
        reply = _Reply()
        await self._app(scope, receive, reply.keep)
        return reply


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


async def _hang_up(scope: Scope, receive: Receive) -> None:
    close = scope.get("extensions", {}).get(HANG_UP)
    if close is None:
        raise ConnectionResetError("The connection is dropped here; SandboxServer can do that, this server cannot.")
    close()
    while (await receive())["type"] != "http.disconnect":
        pass
