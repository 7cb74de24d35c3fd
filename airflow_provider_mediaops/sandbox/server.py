"""The sandbox as a server of its own, in a thread of the program that wants it."""

from __future__ import annotations

import json
import socket
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from airflow_provider_mediaops.sandbox import books, cluster, video
from airflow_provider_mediaops.sandbox.app import create_app
from airflow_provider_mediaops.sandbox.faults import TOKEN_PATH
from airflow_provider_mediaops.sandbox.state import SandboxState, Settings

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import Self

    from airflow_provider_mediaops.sandbox.clock import Clock

VideoAuth = Literal["bearer", "refresh_token", "api_key"]

_START_SECONDS = 240.0
_STOP_SECONDS = 60.0


class _HangUpProtocol(H11Protocol):
    """HTTP whose connections the application can close in the middle of a reply."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in its base class
        super().connection_made(transport)
        # The state of each request of this connection.
        self.app_state = {"hang_up": transport.close}


class SandboxServer:
    """
    A sandbox that runs for as long as its ``with`` block lasts; it starts once.

    :param host: the name or IPv4 address to listen on; requests to other names than this one, ``localhost``,
        ``127.0.0.1`` and ``[::1]`` are refused. The sandbox's credentials are public, so keep it to this machine.
    :param port: the port to listen on; 0 picks a free one.
    :param settings: the settings of the sandbox.
    :param clock: the source of time; a test may bring its own.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        #: Its faults, its record of requests, its bulletins: all that the switchboard shows.
        self.state = SandboxState(settings, clock=clock)
        self._host = host
        self._port = port
        config = uvicorn.Config(
            create_app(self.state, host=host),
            http=_HangUpProtocol,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def __enter__(self) -> Self:
        """
        Start it; requests are answered from here on.

        :raises OSError: if the port is taken or the host is not one of this machine's.
        """
        self._socket = socket.create_server((self._host, self._port))
        self._port = self._socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="mediaops-sandbox", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self._stop()
                raise RuntimeError("The sandbox did not start; the log above this says why.")
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, breaking off what is not answered within a second."""
        self._stop()

    def _stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._socket.close()

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://{self._host}:{self._port}"

    def connections(self, *, video_auth: VideoAuth = "bearer") -> dict[str, str]:
        """Return the Airflow connections with which the provider finds it."""
        extra = {"auth": video_auth, "kind_prefix": self.state.settings.kind_prefix}
        login = {"password": video.API_KEY if video_auth == "api_key" else video.BEARER_TOKEN}
        if video_auth == "refresh_token":
            login = {"login": video.CLIENT_ID, "password": video.CLIENT_SECRET}
            token_url = f"{self.url}{TOKEN_PATH}"
            extra |= {"refresh_token": video.REFRESH_TOKEN, "token_url": token_url, "scopes": video.WRITE_SCOPE}
        connections = {
            "AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT": {
                "conn_type": "mediaops_video",
                "host": f"{self.url}/video",
                **login,
                "extra": extra,
            },
            "AIRFLOW_CONN_MEDIAOPS_CLUSTER_DEFAULT": {
                "conn_type": "mediaops_cluster",
                "host": f"{self.url}/cluster",
                "login": cluster.LOGIN,
                "password": cluster.PASSWORD,
                "extra": {"auth": "basic"},
            },
            "AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT": {
                "conn_type": "mediaops_books",
                "host": f"{self.url}{books.PRO.root}",
                "password": books.PRO.key,
                "extra": {"plan": books.PRO.name, "canary_isbn": books.KNOWN_ISBNS[0]},
            },
        }
        return {name: json.dumps(connection) for name, connection in connections.items()}
