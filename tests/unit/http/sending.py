"""Requests for tests of the transports, and the checks of a failure."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Request, Response, TransportError
from airflow_provider_mediaops.http.settings import TransportSettings

if TYPE_CHECKING:
    from tests.unit.loopback import Peer

Send = Callable[[Request], Response]
Open = Callable[[TransportSettings], Send]

SECRET = "s3cr3t-k€y/+"
#: Time limits that only bound a hang.
PATIENT = TransportSettings(connect_timeout=240.0, read_timeout=240.0)
#: Time limits for servers that never answer, or never accept: one of the two expires, however busy the machine is.
QUICK_READ = TransportSettings(connect_timeout=240.0, read_timeout=0.3)
QUICK_CONNECT = TransportSettings(connect_timeout=0.3, read_timeout=240.0)
#: Seconds by which a server moves the clock on, past the limit of the whole exchange.
PAST_THE_DEADLINE = 1_000.0


class WholeExchangeSettings(TransportSettings):
    """Limit the whole exchange to less than each wait in it, so that this limit alone expires."""

    __slots__ = ()

    def read_limit(self, request: Request) -> float:
        """Return seconds that no test waits for."""
        del request
        return 100 * PAST_THE_DEADLINE

    def total_limit(self, request: Request) -> float:
        """Return half of the time by which a server moves the clock on."""
        del request
        return PAST_THE_DEADLINE / 2


class MovedClock:
    """The transports' clock, which a server may move on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return time.monotonic() + self.ahead


def trickling(head: bytes, drop: bytes, clock: MovedClock) -> Callable[[Peer], None]:
    """Send a little again and again, and move the clock past the deadline meanwhile."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(head)
        for moves in (False, True):
            clock.ahead += PAST_THE_DEADLINE * moves
            for _ in range(5):
                peer.send(drop)
                peer.pause(0.01)
        peer.pause()

    return serve


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


def through(proxy: str, *, verify: bool | str = True, limit: float = 240.0) -> TransportSettings:
    proxies = {"http": proxy, "https": proxy}
    return TransportSettings(connect_timeout=limit, read_timeout=limit, proxies=proxies, verify=verify)


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
