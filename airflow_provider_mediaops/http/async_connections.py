"""
The connections of the asynchronous transport, which are closed if their task is cancelled while they are made.

httpcore leaves a connection open whose task is cancelled during the TLS handshake. On Python 3.10, anyio's own function
to connect leaves one open, too, if it is cancelled just then, or it ignores the cancellation.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import httpcore

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable


class Network(httpcore.AnyIOBackend):
    """Makes the connections of a pool of httpcore, which calls its methods."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host; see :class:`httpcore.AnyIOBackend`."""
        if sys.version_info >= (3, 11):
            return _Stream(await super().connect_tcp(host, port, timeout, local_address, socket_options))
        return _Stream(await _connected(host, port, timeout))


class _Stream(httpcore.AsyncNetworkStream):
    """
    A connection.

    :param stream: the one that httpcore has made.
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
            return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))
        except asyncio.CancelledError:
            # For an exception it does so itself.
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _connected(host: str, port: int, seconds: float | None) -> httpcore.AsyncNetworkStream:
    """
    Connect to the first address of a host that answers, one after the other.

    :param host: its name, or an address.
    :param port: the port.
    :param seconds: the time limit for all addresses; None for none.
    :raises httpcore.ConnectTimeout: if no address answers in time.
    :raises httpcore.ConnectError: if none can be connected to.
    """
    from httpcore._backends.anyio import AnyIOStream

    last_error = OSError("the host has no address")
    try:
        with anyio.fail_after(seconds):
            for family, kind, protocol, _, address in await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            ):
                try:
                    return AnyIOStream(await _connected_to(socket.socket(family, kind, protocol), address))
                except OSError as error:
                    last_error = error
    except TimeoutError as error:
        # httpcore's pools drop the cause of an error, but not its arguments.
        raise httpcore.ConnectTimeout(error) from error
    except OSError as error:
        last_error = error
    raise httpcore.ConnectError(last_error) from last_error


async def _connected_to(new: socket.socket, address: Any) -> anyio.abc.SocketStream:
    try:
        new.settimeout(0)
        await asyncio.get_running_loop().sock_connect(new, address)
        return await anyio.abc.SocketStream.from_socket(new)
    except BaseException:
        new.close()
        raise
