"""Requests for tests of the transports, and the checks of a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Request, Response, TransportError
from airflow_provider_mediaops.http.transport_settings import TransportSettings

if TYPE_CHECKING:
    from tests.unit.loopback import Peer

Send = Callable[[Request], Response]
Open = Callable[[TransportSettings], Send]

SECRET = "s3cr3t-k€y/+"
QUICK = TransportSettings(connect_timeout=0.5, read_timeout=0.5)


def failure_of(send: Send, request: Request) -> TransportError:
    """Return the failure that a request ends in."""
    with pytest.raises(TransportError) as caught:
        send(request)
    # The libraries' own errors hold the whole address, so none may hang on ours.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def ask(base: str, path: str = "/path") -> Request:
    """Return a request with a credential in its query."""
    return Request("GET", path, params=(("part", "id"),), base=base, secret_params=(("key", SECRET),))


def read_and(*parts: bytes, then: str = "close") -> Callable[[Peer], None]:
    """Return a server that reads the request, sends the parts, and then closes, stalls or resets the connection."""

    def serve(peer: Peer) -> None:
        peer.request()
        for part in parts:
            peer.send(part)
        if then == "stall":
            peer.pause()
        elif then == "reset":
            peer.reset()

    return serve
