"""The layer before the services: every request is recorded, and an armed fault may befall it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

from fastapi import Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from airflow_provider_mediaops.sandbox.clock import moment
from airflow_provider_mediaops.sandbox.cluster.parameters import HotThreadsParameters
from airflow_provider_mediaops.sandbox.faults import (
    ContentTypeFault,
    DelayFault,
    DropFault,
    ExpireTokenFault,
    Fault,
    LimitFault,
    StatusFault,
    TruncateFault,
)
from airflow_provider_mediaops.sandbox.refusals import RefusedError, expired_refusal, refusal_of_status
from airflow_provider_mediaops.sandbox.services import Service, service_of
from airflow_provider_mediaops.sandbox.state import RequestRecord, SandboxState
from airflow_provider_mediaops.sandbox.video.parameters import shown_names

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: The ASGI extension by which the server lets an application close its connection.
HANG_UP = "mediaops.hang_up"

_LOGIN_PAGE = (
    "<!DOCTYPE html><html><head><title>Sign in</title></head>"
    "<body><h1>Sign in</h1><form><input name='user'></form></body></html>"
)
# The parameters whose values are worth seeing and never secret.
_SHOWN_PARAMETERS = {*shown_names(), *HotThreadsParameters.model_fields}


@dataclass(slots=True)
class _Reply:
    """A whole reply, held back to be altered."""

    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    async def keep(self, message: Message) -> None:
        """Keep what the application sends."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], tuple(message["headers"])
        else:
            self.body += message.get("body", b"")

    def set_header(self, name: bytes, value: str) -> None:
        """Set a header, instead of those of the same name."""
        others = tuple(header for header in self.headers if header[0].lower() != name)
        self.headers = (*others, (name, value.encode("latin-1")))

    async def send(self, send: Send, *, part: int | None = None) -> None:
        """Send the reply, or so many bytes of its body only, and then leave it unfinished."""
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        body = self.body if part is None else self.body[:part]
        await send({"type": "http.response.body", "body": body, "more_body": part is not None})


class Gate:
    """
    An ASGI layer around the services that records requests and lets faults befall them.

    :param app: the application with the services and the switchboard.
    :param state: holds the faults and the record of requests.
    """

    def __init__(self, app: ASGIApp, *, state: SandboxState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, as ASGI asks."""
        service = service_of(scope["path"]) if scope["type"] == "http" else None
        if service is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        fault = self._state.faults.take(service, scope["path"])
        record = RequestRecord(
            at=moment(self._state.clock.now()),
            service=service,
            method=scope["method"],
            path=scope["path"],
            query=_shown(request.query_params),
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
                await self._status_reply(fault)(scope, receive, send)
            case LimitFault():
                await self._refusal(fault.service, self._state.limit_refusal(fault.service))(scope, receive, send)
            case ExpireTokenFault():
                authorization = Request(scope).headers.get("Authorization", "")
                self._state.tokens.revoke(authorization.partition(" ")[2])
                await self._refusal(fault.service, expired_refusal(fault.service))(scope, receive, send)
            case ContentTypeFault(login_page=True):
                await Response(_LOGIN_PAGE, media_type=fault.content_type)(scope, receive, send)
            case DelayFault(point="before_work"):
                await self._state.clock.sleep(fault.seconds)
                await self._app(scope, receive, send)
            case DelayFault():
                reply = await self._work(scope, receive)
                await self._state.clock.sleep(fault.seconds)
                await reply.send(send)
            case DropFault():
                await self._drop(fault, scope, receive, send)
            case TruncateFault():
                reply = await self._work(scope, receive)
                reply.body = reply.body[: int(len(reply.body) * fault.keep)]
                reply.set_header(b"content-length", str(len(reply.body)))
                await reply.send(send)
            case _:  # the true reply under a wrong content type
                reply = await self._work(scope, receive)
                reply.set_header(b"content-type", fault.content_type)
                await reply.send(send)

    def _refusal(self, service: Service, refusal: RefusedError) -> Response:
        return self._state.cluster_dialect.refusal_reply(refusal) if service == "cluster" else refusal.response()

    def _status_reply(self, fault: StatusFault) -> Response:
        response: Response
        if fault.body is None:
            response = self._refusal(fault.service, refusal_of_status(fault.service, fault.status))
        elif isinstance(fault.body, str):
            response = PlainTextResponse(fault.body, status_code=fault.status)
        else:
            response = JSONResponse(fault.body, status_code=fault.status)
        if fault.retry_after is not None:
            due = moment(self._state.clock.now()) + timedelta(seconds=fault.retry_after)
            as_date = fault.retry_after_as == "date"
            response.headers["Retry-After"] = format_datetime(due, usegmt=True) if as_date else str(fault.retry_after)
        return response

    async def _drop(self, fault: DropFault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.point != "before_work":
            reply = await self._work(scope, receive)
            if fault.point == "mid_body":
                reply.set_header(b"content-length", str(len(reply.body) or 1))
                await reply.send(send, part=len(reply.body) // 2)
        await _hang_up(scope, receive)

    async def _work(self, scope: Scope, receive: Receive) -> _Reply:
        """Have the service do its work, and hold its reply back."""
        reply = _Reply()
        await self._app(scope, receive, reply.keep)
        return reply


def _shown(query: QueryParams) -> dict[str, str]:
    return {name: ",".join(query.getlist(name)) if name in _SHOWN_PARAMETERS else "***" for name in query}


async def _hang_up(scope: Scope, receive: Receive) -> None:
    close = scope.get("extensions", {}).get(HANG_UP)
    if close is None:
        raise ConnectionResetError("The connection is dropped here; SandboxServer can do that, this server cannot.")
    close()
    while (await receive())["type"] != "http.disconnect":
        pass
