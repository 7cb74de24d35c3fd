"""HEAD requests: the headers that a GET would have, without the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.services import service_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """An ASGI layer that lets an application answer HEAD wherever it answers GET.

    The search cluster is left alone: real ones answer HEAD at some addresses only.

    :param app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, as ASGI asks."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or service_of(scope["path"]) == "cluster":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
