"""Connections whose making is cancelled."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import threading
from collections import deque
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.http import async_transport
from airflow_provider_mediaops.http.async_connections import release_places
from airflow_provider_mediaops.http.async_transport import AsyncTransport
from airflow_provider_mediaops.http.exchange import Request, TransportError
from airflow_provider_mediaops.http.transport_settings import TransportSettings
from tests.unit.http.sending import PATIENT, MovedClock
from tests.unit.loopback import Loopback, Peer, answering, http_reply
from tests.unit.until import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# It takes no more turns of the event loop until all that a client sends first has been sent.
_TURNS = 60
_LAST = b"the last connection"


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python from closing what nobody else closes."""
    gc.disable()
    yield
    gc.enable()


class Ends:
    """A server that answers nothing but CONNECT, and counts the connections that their clients have closed."""

    def __init__(self) -> None:
        self.count = 0
        #: Whether the first bytes for the service have come.
        self.has_begun = False
        self.last_has_come = False
        self._lock = threading.Lock()

    def __call__(self, peer: Peer) -> None:
        received = b""
        with suppress(ConnectionResetError):
            while part := peer.socket.recv(65536):
                received += part
                if received.startswith(b"CONNECT") and received.endswith(b"\r\n\r\n"):
                    received = b""
                    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
                else:
                    self.has_begun = True
        with self._lock:
            self.count += 1
            # The queue of a listener is in order, so no further one comes.
            self.last_has_come |= received == _LAST


def through(proxy: Loopback | None) -> TransportSettings:
    """Return settings with time limits that only bound a hang."""
    proxies = {"https": proxy.base} if proxy else {}
    return TransportSettings(PATIENT.connect_timeout, PATIENT.read_timeout, proxies=proxies)


async def cancelled(sending: asyncio.Task[Any]) -> None:
    """Cancel a request, and make sure that it ends by that."""
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


@pytest.mark.parametrize("has_proxy", [False, True])
async def test_a_cancelled_handshake_closes_its_connection(has_proxy: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    # The second request gets no connection unless the first one has given back its place.
    monkeypatch.setattr(async_transport, "MAX_CONNECTIONS", 1)
    ends = Ends()
    with Loopback(ends) as server:
        base = "https://service.example" if has_proxy else f"https://127.0.0.1:{server.port}"
        transport = AsyncTransport(through(server if has_proxy else None))
        for number in (1, 2):
            ends.has_begun = False
            sending = asyncio.ensure_future(transport.send(Request("GET", "/", base=base)))
            # The client's first words, which nobody answers.
            await until(lambda: ends.has_begun)
            await cancelled(sending)
            await until(lambda number=number: ends.count == number)  # type: ignore[misc]
        await transport.aclose()


async def test_a_failed_handshake_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_transport, "MAX_CONNECTIONS", 1)

    def speak_no_tls(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        # The client has begun its handshake before it is answered. Its end is waited for: a server that closes what it
        # has not read resets the connection, at times before the client has read the answer.
        peer.socket.recv(65536)
        peer.send(b"no TLS")
        with suppress(ConnectionResetError):
            peer.wait_for_the_end()

    details = []
    with Loopback(speak_no_tls) as server:
        transport = AsyncTransport(through(server))
        for _ in range(2):
            with pytest.raises(TransportError) as caught:
                await transport.send(Request("GET", "/", base="https://service.example"))
            details.append((caught.value.failure, caught.value.detail))
        await transport.aclose()
    # The second did not wait for a place in vain.
    assert details[0] == details[1]
    assert server.accepted == 2


async def test_a_request_that_waits_gets_the_place_of_a_cancelled_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_transport, "MAX_CONNECTIONS", 1)
    ends = Ends()
    with Loopback(ends) as server:
        transport = AsyncTransport(through(server))
        request = Request("GET", "/", base="https://service.example")
        first = asyncio.ensure_future(transport.send(request))
        await until(lambda: ends.has_begun)
        ends.has_begun = False
        second = asyncio.ensure_future(transport.send(request))
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        assert server.accepted == 1
        await cancelled(first)
        await until(lambda: ends.has_begun)
        await cancelled(second)
        await transport.aclose()
    assert server.accepted == 2


class AtTheEnd(logging.Handler):
    """
    Does something a number of turns of the event loop after httpcore has begun to give a connection back to its pool.

    :param turns: the number of turns.
    :param do: does it, once.
    """

    def __init__(self, turns: int, do: Callable[[], object]) -> None:
        super().__init__()
        self.has_begun = False
        self._turns = turns
        self._do = do

    def emit(self, record: logging.LogRecord) -> None:
        if not self.has_begun and record.getMessage().startswith("response_closed.started"):
            self.has_begun = True
            self._later(self._turns)

    def _later(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, turns - 1)
        else:
            self._do()


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize("turns", range(6))
async def test_a_request_that_is_cancelled_at_its_end_gives_its_place_to_one_that_waits(
    turns: int, size: int, connection: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(async_transport, "MAX_CONNECTIONS", 1)
    log = logging.getLogger("httpcore.http11")
    caplog.set_level(logging.DEBUG, log.name)
    with Loopback(answering(http_reply(body=b" " * size, connection=connection))) as server:
        transport = AsyncTransport(PATIENT)
        first, waiting = (
            asyncio.ensure_future(transport.send(Request("GET", "/", base=server.base))) for _ in range(2)
        )
        ending = AtTheEnd(turns, first.cancel)
        monkeypatch.setattr(log, "handlers", [ending])
        # The connection has gone back before it was cancelled, or it was closed.
        with suppress(asyncio.CancelledError):
            await first
        assert ending.has_begun
        await until(waiting.done)
        assert waiting.result().status == 200
        assert (await transport.send(Request("GET", "/", base=server.base))).status == 200
        await transport.aclose()


class PoolConnection:
    """
    A connection of a pool.

    :param is_used: whether a request uses it.
    :param meanwhile: what happens while it is closed.
    """

    def __init__(self, *, is_used: bool, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.is_used = is_used
        self.was_closed = False
        self._meanwhile = meanwhile

    def is_idle(self) -> bool:
        return not self.is_used

    def is_closed(self) -> bool:
        return self.was_closed

    async def aclose(self) -> None:
        self._meanwhile()
        await asyncio.sleep(0)
        self.was_closed = True


def pool_of(
    connections: list[PoolConnection],
    requests: list[SimpleNamespace] | None = None,
    evicted: Sequence[PoolConnection] = (),
) -> SimpleNamespace:
    """Return what is used of a pool."""
    return SimpleNamespace(
        _requests=[] if requests is None else requests,
        _connections=connections,
        connections=list(connections),
        _assign_requests_to_connections=lambda: list(evicted),
    )


async def test_a_connection_that_a_request_takes_meanwhile_stays_open() -> None:
    idle, requests = PoolConnection(is_used=False), list[SimpleNamespace]()

    def take() -> None:
        idle.is_used = True
        requests.append(SimpleNamespace(connection=idle, request=SimpleNamespace(extensions={})))

    abandoned = [PoolConnection(is_used=True, meanwhile=take), PoolConnection(is_used=True)]
    left = [abandoned[0], idle, abandoned[1]]
    await release_places([pool_of(left, requests)], {})

    assert left == [idle]
    assert [each.was_closed for each in (*abandoned, idle)] == [True, True, False]


async def test_a_connection_that_a_request_uses_stays_open() -> None:
    used, abandoned = PoolConnection(is_used=True), PoolConnection(is_used=True)
    left = [used, abandoned]
    requests = [SimpleNamespace(connection=used, request=SimpleNamespace(extensions={}))]
    await release_places([pool_of(left, requests)], {})

    assert left == [used]
    assert [each.was_closed for each in (used, abandoned)] == [False, True]


async def test_each_abandoned_connection_is_closed_whatever_happens_to_another() -> None:
    def fail() -> None:
        raise OSError("broken")

    abandoned = [PoolConnection(is_used=True, meanwhile=fail), PoolConnection(is_used=True)]
    evicted = PoolConnection(is_used=False)
    await release_places([pool_of(list(abandoned), evicted=[evicted])], {})

    assert [each.was_closed for each in (*abandoned, evicted)] == [False, True, True]


@pytest.mark.parametrize(
    "other", [SimpleNamespace(), SimpleNamespace(**{**vars(pool_of([])), "_requests": deque()})], ids=["names", "types"]
)
async def test_a_pool_of_another_version_of_httpcore_is_left_as_it_is(other: SimpleNamespace) -> None:
    abandoned = PoolConnection(is_used=True)
    await release_places([other, pool_of([abandoned])], {})

    assert abandoned.was_closed


async def test_what_was_removed_is_closed_even_if_places_cannot_be_assigned() -> None:
    abandoned = PoolConnection(is_used=True)
    pool = pool_of([abandoned])
    vars(pool)["_assign_requests_to_connections"] = lambda: None
    await release_places([pool], {})

    assert abandoned.was_closed


async def test_a_second_cancellation_leaves_no_abandoned_connection_open() -> None:
    def cancel() -> None:
        closing.cancel()

    abandoned = [PoolConnection(is_used=True, meanwhile=cancel) for _ in range(4)]
    pools = [pool_of(abandoned[:2]), pool_of(abandoned[2:])]
    closing = asyncio.ensure_future(release_places(pools, {}))
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: all(each.was_closed for each in abandoned))


@pytest.mark.parametrize("turns", range(6))
async def test_a_request_that_is_cancelled_as_it_connects_closes_its_connection(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    connect, ends = loop.sock_connect, Ends()

    async def cancel_soon() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        sending.cancel()

    async def connect_and_cancel(*arguments: Any) -> None:
        await connect(*arguments)
        cancelling.append(asyncio.ensure_future(cancel_soon()))

    cancelling: list[asyncio.Task[None]] = []
    monkeypatch.setattr(loop, "sock_connect", connect_and_cancel)
    with Loopback(ends) as server:
        transport = AsyncTransport(PATIENT)
        sending = asyncio.ensure_future(transport.send(Request("GET", "/", base=server.base)))
        with pytest.raises(asyncio.CancelledError):
            await sending
        await transport.aclose()
        await until(lambda: ends.count == 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_request_that_is_cancelled_in_any_turn_leaves_no_connection_open(scheme: str, host: str) -> None:
    ends = Ends()
    with Loopback(ends) as server:
        transport = AsyncTransport(PATIENT)
        for turns in range(_TURNS):
            request = Request("GET", "/", base=f"{scheme}://{host}:{server.port}")
            sending = asyncio.ensure_future(transport.send(request))
            for _ in range(turns):
                await asyncio.sleep(0)
            await cancelled(sending)
        with socket.create_connection(("127.0.0.1", server.port)) as last:
            last.sendall(_LAST)
        await until(lambda: ends.last_has_come and ends.count == server.accepted)
        await transport.aclose()


async def test_an_address_that_does_not_answer_leaves_the_next_one_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, clock = asyncio.get_running_loop(), MovedClock()
    # anyio tries the next address after 250 ms. On Python 3.10, it is tried once the time of the first is up.
    pause = PATIENT.connect_timeout + 1 if sys.version_info < (3, 11) else 1.0
    connect = loop.sock_connect
    with Loopback(answering(http_reply())) as server:

        async def two_addresses(*_: object, **__: object) -> list[tuple[Any, ...]]:
            kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
            return [(*kind, (address, server.port)) for address in ("192.0.2.1", "127.0.0.1")]

        async def connect_or_wait(unconnected: socket.socket, address: Any) -> None:
            if address[0] == "127.0.0.1":
                await connect(unconnected, address)
            else:
                clock.ahead += pause
                await asyncio.sleep(PATIENT.connect_timeout)

        for name, call in {
            "time": clock.monotonic,
            "getaddrinfo": two_addresses,
            "sock_connect": connect_or_wait,
        }.items():
            monkeypatch.setattr(loop, name, call)
        transport = AsyncTransport(PATIENT)
        reply = await transport.send(Request("GET", "/", base=f"http://service.example:{server.port}"))
        await transport.aclose()
    assert reply.status == 200
