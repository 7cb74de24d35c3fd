"""
The connections of the asynchronous transport, which are closed if their task is cancelled.

httpcore leaves a connection open if its task is cancelled during the TLS handshake. A handshake through a proxy that
fails or is cancelled leaves the connection in the pool, where it takes the place of others for good. It also keeps a
request, and the place of its connection, if its task is cancelled while the reply is closed.

On Python 3.10, ``anyio.connect_tcp`` loses the connection or the cancellation if both come in the same turn of the
event loop. There, :func:`_connect` takes its place. It tries the addresses of a host one after another, as the
transport of workers does; anyio begins with the next one after 250 ms (Happy Eyeballs).
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import httpcore

try:
    # httpcore has no public name for the stream that its own function returns.
    from httpcore._backends.anyio import AnyIOStream
except ImportError:
    AnyIOStream = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator, Mapping

# A version of httpcore that has moved the stream connects as it does by itself.
_LOSES_CANCELLATIONS = sys.version_info < (3, 11) and AnyIOStream is not None


async def release_places(pools: Iterable[Any], ended: Mapping[str, Any]) -> None:
    """
    Close abandoned connections of pools, and assign their places to waiting requests.

    A connection is abandoned if no request uses it and none can use it again.

    :param pools: pools of httpcore.
    :param ended: the extensions of a request that has failed or was cancelled. It is removed, too.
    """
    abandoned: list[Any] = []
    for pool in pools:
        # Another version of httpcore may have other pools. Its connections stay; the request's own error counts.
        with suppress(AttributeError, TypeError):
            abandoned.extend(_removed(pool, ended))
    # Nobody else closes them: one failure, or a second cancellation, must not keep the others open.
    closing = (connection.aclose() for connection in abandoned)
    await asyncio.shield(asyncio.gather(*closing, return_exceptions=True))


def _removed(pool: Any, ended: Mapping[str, Any]) -> Iterator[Any]:
    """
    Remove a request and the abandoned connections from a pool; yield each connection that is to be closed.

    All of it happens in one turn of the event loop: later, other requests take and return connections. A connection
    that was never made cannot be closed, so it has to be removed.
    """
    requests, connections = pool._requests, pool._connections  # noqa: SLF001
    assign = pool._assign_requests_to_connections  # noqa: SLF001
    requests[:] = [each for each in requests if each.request.extensions is not ended]
    in_use = [each.connection for each in requests]
    abandoned = [
        connection
        for connection in pool.connections
        if not (connection.is_idle() or connection.is_closed() or connection in in_use)
    ]
    for connection in abandoned:
        connections.remove(connection)
        yield connection
    # By itself, httpcore assigns places only when a request arrives or ends.
    yield from assign()


class ClosingBackend(httpcore.AnyIOBackend):
    """A network backend of httpcore, whose connections are closed if their TLS handshake is cancelled."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """
        Connect to a host, as :class:`httpcore.AnyIOBackend` does.

        :param host: its name, or an address.
        :param port: the port.
        :param timeout: the time limit for all addresses of the host, in seconds; on Python 3.10, for each of them. None
            for none.
        :param local_address: the address to connect from; None for any.
        :param socket_options: options of the socket.
        :returns: the connection.
        :raises httpcore.ConnectTimeout: if no address answers in time.
        :raises httpcore.ConnectError: if none can be connected to.
        """
        if _LOSES_CANCELLATIONS and not (local_address or socket_options):
            return _ClosingStream(await _connect(host, port, timeout))
        return _ClosingStream(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class _ClosingStream(httpcore.AsyncNetworkStream):
    """
    Closes its connection if the TLS handshake is cancelled.

    :param stream: the connection, as httpcore has made it.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            return _ClosingStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))
        except asyncio.CancelledError:
            # httpcore closes it after an Exception, which CancelledError is not.
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _connect(host: str, port: int, timeout_seconds: float | None) -> httpcore.AsyncNetworkStream:
    """
    Connect to the first address of a host that answers.

    :param host: its name, or an address.
    :param port: the port.
    :param timeout_seconds: the time limit for each address; None for none.
    :raises httpcore.ConnectTimeout: if the last address does not answer in time.
    :raises httpcore.ConnectError: if no address can be connected to.
    """
    last_error: OSError | None = None
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        found, last_error = [], error
    for family, kind, protocol, _, address in found:
        try:
            with anyio.fail_after(timeout_seconds):
                return AnyIOStream(await _connect_to(socket.socket(family, kind, protocol), address))
        except OSError as error:
            last_error = error
    # httpcore's pools drop the cause of an error, but not its arguments.
    if isinstance(last_error, TimeoutError):
        raise httpcore.ConnectTimeout(last_error) from last_error
    raise httpcore.ConnectError(last_error) from last_error


async def _connect_to(unconnected: socket.socket, address: Any) -> anyio.abc.SocketStream:
    """Connect a socket to an address; close it if that fails or is cancelled."""
    try:
        unconnected.settimeout(0)
        await asyncio.get_running_loop().sock_connect(unconnected, address)
    except BaseException:
        unconnected.close()
        raise
    # From here on, the event loop closes it.
    return await anyio.abc.SocketStream.from_socket(unconnected)
