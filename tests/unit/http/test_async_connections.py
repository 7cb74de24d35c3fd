"""Connections whose making is cancelled."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from airflow_provider_mediaops.http.async_transport import AsyncTransport
from airflow_provider_mediaops.http.exchange import Request
from airflow_provider_mediaops.http.transport_settings import TransportSettings
from tests.unit.loopback import Loopback, Peer
from tests.unit.until import until

# It takes no more turns of the event loop until all that a client sends first has been sent.
_TURNS = 60
_LAST = b"the last connection"


class Ends:
    """A server that answers nothing, and counts the connections that their clients have closed."""

    def __init__(self) -> None:
        self.count = 0
        self.last_has_come = False
        self._lock = threading.Lock()

    def __call__(self, peer: Peer) -> None:
        received = b""
        with suppress(ConnectionResetError):
            while part := peer.socket.recv(65536):
                received += part
        with self._lock:
            self.count += 1
            # The queue of a listener is in order, so no further one comes.
            self.last_has_come |= received == _LAST


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_request_that_is_cancelled_leaves_no_connection_open(scheme: str, host: str) -> None:
    ends = Ends()
    with Loopback(ends) as server:
        transport = AsyncTransport(TransportSettings())
        for turns in range(_TURNS):
            sending = asyncio.ensure_future(
                transport.send(Request("GET", "/", base=f"{scheme}://{host}:{server.port}"))
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        # One that was made before its request was cancelled waits for the next request.
        await transport.aclose()
        with socket.create_connection(("127.0.0.1", server.port)) as last:
            last.sendall(_LAST)
        await until(lambda: ends.last_has_come and ends.count == server.accepted)
