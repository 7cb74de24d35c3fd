"""HEAD requests: the headers that a GET would have, without the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.services import service_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """
    An ASGI layer that lets an application answer HEAD wherever it answers GET.

    The search cluster is left alone: real ones answer HEAD at some addresses only.

    :param app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, as ASGI asks. The server leaves the body of the reply out."""
        if scope["type"] == "http" and scope["method"] == "HEAD" and service_of(scope["path"]) != "cluster":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
