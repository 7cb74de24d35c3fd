"""
Connections of urllib3 that keep to one deadline for a whole exchange.

Time. urllib3 bounds each wait for the socket, so a reply that trickles in would last for ever. Here each wait (to
connect, to send, and to receive, be it a header, a chunk or an interim reply) is given only what is left until the
deadline. So no other thread is needed. The deadline is a context variable that belongs to the exchange, not to the
connection, so it cannot strike a connection that has gone back to the pool. One wait is not bounded by it: the lookup
of the host's name, which the system's resolver bounds.

What was sent. A connection records in the exchange that it began to send the request. The request for a tunnel, which
only the proxy reads, does not count. So an error before that is known to be one of a request that was not sent.
"""

from __future__ import annotations

import http.client
import io
import logging
import socket
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import urllib3.connection

from airflow_provider_mediaops.http.failures import STILL_COMING

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from airflow_provider_mediaops.http.stop import Stop


# So a reply of usual size arrives in one wait, together with its headers.
_BUFFER_BYTES = 64 * 1024
# The start of a reply that is kept, for the answer of a port that speaks no HTTP.
_START_BYTES = 32


class Deadline:
    """The time at which one exchange ends, or is ended, and whether and when its request began to be sent."""

    __slots__ = ("_ends", "_stops", "may_have_sent", "sent_at")

    def __init__(self, seconds: float, stops: tuple[Stop, ...]) -> None:
        self._ends = time.monotonic() + seconds
        self._stops = stops
        #: Whether anything of the request may have been sent; None before a connection is looked for, and with
        #: stand-ins for the network, such as requests-mock, which do not record it.
        self.may_have_sent: bool | None = None
        self.sent_at: float | None = None

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._ends

    def left(self, limit: float) -> float:
        """Return the time that one wait may take; raise if there is none, or the task is to end."""
        for stop in self._stops:
            stop.check()
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError(STILL_COMING)
        return min(left, limit)


#: The deadline of the exchange that this thread carries out.
current_deadline: ContextVar[Deadline] = ContextVar("current_deadline")


def _is_of_another_program(_: logging.LogRecord) -> bool:
    return current_deadline.get(None) is None


# urllib3's lines hold whole addresses and headers, with their credentials. So none is written about our requests.
for _name in ("connection", "connectionpool", "poolmanager", "response", "util.retry"):
    logging.getLogger(f"urllib3.{_name}").addFilter(_is_of_another_program)


class _Incoming(io.RawIOBase):
    """The bytes that a connection receives for one exchange, each wait bounded by the deadline."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket) -> None:
        super().__init__()
        self._raw = raw
        self._socket = connected
        self._limit: float = connected.gettimeout() or 0.0
        self._deadline = current_deadline.get()
        self.in_head = True
        self._start = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Buffer) -> int | None:
        self._socket.settimeout(self._deadline.left(self._limit))
        count = self._raw.readinto(buffer)
        if self.in_head:
            if not count and self._start:
                # http.client would take the end of the connection for the end of the headers.
                raise http.client.IncompleteRead(self._start)
            self._start = self._start or bytes(memoryview(buffer)[: min(count or 0, _START_BYTES)])
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()


class _Reply(http.client.HTTPResponse):
    """
    A reply that must arrive before the deadline.

    What arrives behind it is not the next reply: it is dropped with the buffer, and urllib3 uses no connection again on
    which more has arrived.
    """

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._incoming = _Incoming(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._incoming, _BUFFER_BYTES)

    def begin(self) -> None:
        super().begin()
        self._incoming.in_head = False
        if (
            not self.chunked
            and self.length != 0
            and ("transfer-encoding" in self.headers or (self.length is None and "content-length" in self.headers))
        ):
            # http.client would read until the connection ends, so it would notice no body that is cut short.
            raise http.client.UnknownTransferEncoding


class _Connection(urllib3.connection.HTTPConnection):
    """A connection that sends and receives before the deadline, and of which it is known whether it began to send."""

    response_class = _Reply
    _connecting = False

    def connect(self) -> None:
        self._connecting = True
        try:
            super().connect()
        finally:
            self._connecting = False

    def _new_conn(self) -> socket.socket:
        # urllib3 gives each address of a host the whole time limit, however many there are.
        deadline, limit = current_deadline.get(), self.timeout or 0.0
        failure = OSError("the host has no address")
        for *_, address in socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM):
            try:
                connected = socket.create_connection((str(address[0]), self.port), deadline.left(limit))
            except OSError as error:
                failure = error
                continue
            try:
                for option in self.socket_options or ():
                    connected.setsockopt(*option)
                # For the TLS handshake.
                connected.settimeout(deadline.left(limit))
            except BaseException:
                connected.close()
                raise
            return connected
        raise failure

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        deadline = current_deadline.get()
        self.sock.settimeout(deadline.left(self.timeout or 0.0))
        if not self._connecting:
            deadline.may_have_sent = True
            deadline.sent_at = time.monotonic()
        super().send(data)


class _TLSConnection(_Connection, urllib3.connection.HTTPSConnection):
    """The same over TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    """Connections to one host."""

    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):
    """The same over TLS."""

    ConnectionCls = _TLSConnection


#: The pools to use in place of urllib3's own, by scheme.
POOLS = {"http": _Pool, "https": _TLSPool}
