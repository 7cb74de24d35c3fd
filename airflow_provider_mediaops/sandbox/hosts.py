"""
The host names under which the sandbox answers.

A web page can make its own host name lead to this machine (DNS rebinding) and have the browser talk to the sandbox as
if it were the page's own server. Such a request names the page's host, so it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request
from fastapi.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80


class OwnHosts:
    """
    The outermost layer of the sandbox, an ASGI application that refuses requests to other hosts.

    :param app: the sandbox.
    :param host: the name or address on which the server listens; it is good beside those of this machine itself.
    """

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        self._app = app
        self._names = tuple(dict.fromkeys((host.lower(), *_LOCAL_NAMES)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, as ASGI asks."""
        app = self._app
        if scope["type"] == "http":
            own = self._own_hosts(scope)
            asked = Request(scope).headers.getlist("Host")
            if len(asked) != 1 or asked[0].lower() not in own:
                app = _refusal(", ".join(asked) or "no host", own)
        await app(scope, receive, send)

    def _own_hosts(self, scope: Scope) -> list[str]:
        port = (scope.get("server") or (None, None))[1]
        # Clients leave the port out if it is that of HTTP.
        without = list(self._names) if port in (None, _HTTP_PORT) else []
        return [*without, *(f"{name}:{port}" for name in self._names if port is not None)]


def _refusal(asked: str, own: list[str]) -> PlainTextResponse:
    text = (
        f"This request is for {asked}, and the sandbox answers as {', '.join(own)} only: otherwise web pages could "
        "reach it under names of their own. Use one of these names, or start the sandbox with yours as --host.\n"
    )
    return PlainTextResponse(text, status_code=421)
