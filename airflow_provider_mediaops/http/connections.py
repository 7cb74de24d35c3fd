"""
Connections of urllib3 that keep to one deadline for a whole exchange, and why an exchange failed.

Time. urllib3 bounds each wait for the socket, so a reply that trickles in would last for ever. Here each wait (to
connect, to send, and to receive, be it a header, a chunk or an interim reply) is given only what is left until the
deadline. So no other thread is needed. The deadline is a context variable that belongs to the exchange, not to the
connection, so it cannot strike a connection that has gone back to the pool. One wait is not bounded by it: the lookup
of the host's name, which the system's resolver bounds.

What was sent. A connection records in the exchange that it began to send the request. The request for a tunnel, which
only the proxy reads, does not count. So an error before that is known to be one of a request that was not sent.

Why it failed. The types of an error of the HTTP libraries and of its causes decide. The libraries' own texts hold the
whole address with its query, so none of them is told.
"""

from __future__ import annotations

import http.client
import io
import logging
import os
import socket
import ssl
import time
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import requests.exceptions
import urllib3.connection
import urllib3.exceptions
from urllib3.util.connection import create_connection
from urllib3.util.ssl_match_hostname import CertificateError

from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from airflow_provider_mediaops.http.stop import Stop


# So a reply of usual size arrives in one wait, together with its headers.
_BUFFER_BYTES = 64 * 1024
_STILL_COMING = "the reply was still coming in at the time limit"


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
            raise TimeoutError(_STILL_COMING)
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
        self._has_begun = False
        self.in_head = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        self._socket.settimeout(self._deadline.left(self._limit))
        count = self._raw.readinto(buffer)
        if self.in_head and self._has_begun and not count:
            # http.client would take the end of the connection for the end of the headers.
            raise http.client.IncompleteRead(b"")
        self._has_begun = True
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
        deadline, limit, options = current_deadline.get(), self.timeout or 0.0, self.socket_options
        failure = OSError("the host has no address")
        for *_, address in socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM):
            target = (str(address[0]), self.port)
            try:
                # The TLS handshake, too, has this time.
                return create_connection(target, deadline.left(limit), socket_options=options)
            except OSError as error:
                failure = error
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
    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


#: The pools to use in place of urllib3's own, by scheme.
POOLS = {"http": _Pool, "https": _TLSPool}


class _TooManyHeadersError(http.client.HTTPException):
    """Stands for the HTTPException itself, which http.client raises for too many headers only."""


_Row: TypeAlias = tuple[tuple[type[BaseException], ...], Failure, str]

# Of an address that cannot be used.
_UNUSABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)
# Stand-ins for the network such as requests-mock raise these, and record nothing.
_NO_CONNECTION = (requests.exceptions.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError)
# http.client has no exception type for this.
_REFUSED_BY_PROXY = "Tunnel connection failed: "
#: Of a 407, whether the proxy was asked for a tunnel or for the whole request.
PROXY_WANTS_CREDENTIALS = "the proxy answered 407: it asks for a user and password"
_WANTS_CLIENT_CERTIFICATE = "the server refuses the certificate of the client, client_cert, or asks for one"

# The failure of each type of error and, if the system's words do not say it, the detail; the first row that fits
# counts. Of a request that was not sent:
_UNSENT: tuple[_Row, ...] = (
    ((UnicodeError,), Failure.CONFIGURATION, "the address of the host or of the proxy cannot be sent"),
    ((ssl.SSLCertVerificationError, CertificateError), Failure.UNTRUSTED, ""),
    ((ssl.SSLError,), Failure.TLS, ""),
    ((TimeoutError, requests.exceptions.ConnectTimeout), Failure.NOT_SENT, "no connection within the time limit"),
    ((BaseException,), Failure.NOT_SENT, ""),
)
# Of a request that may have been sent:
_SENT: tuple[_Row, ...] = (
    (
        (TimeoutError, requests.Timeout, urllib3.exceptions.ReadTimeoutError),
        Failure.TIMEOUT,
        "no reply within the time limit",
    ),
    (
        (_TooManyHeadersError, http.client.LineTooLong),
        Failure.TOO_LARGE,
        "its headers are too large or too many",
    ),
    ((EOFError,), Failure.BROKEN, "the compressed reply ended too early"),
    ((zlib.error,), Failure.UNREADABLE, "its compression cannot be undone"),
    ((BaseException,), Failure.BROKEN, ""),
)


def failure_of(error: Exception, *, may_have_sent: bool | None, is_late: bool, proxy: str = "") -> TransportError:
    """
    Return the failure that an error of the libraries stands for.

    ``may_have_sent`` is None where nothing recorded it; then the safe answer is yes. ``proxy`` names the proxy of the
    request and who chose it, without its credentials; it is empty if there is none.
    """
    causes = list(_causes_of(error))
    for cause in causes:
        # In these cases, nobody reads the request.
        if str(cause).startswith(f"{_REFUSED_BY_PROXY}407"):
            return TransportError(Failure.PROXY, PROXY_WANTS_CREDENTIALS)
        alert = (cause.reason or "") if isinstance(cause, ssl.SSLError) else ""
        if "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert):
            return TransportError(Failure.CONFIGURATION, f"{_WANTS_CLIENT_CERTIFICATE} ({alert})")
    kinds = [_TooManyHeadersError if type(cause) is http.client.HTTPException else type(cause) for cause in causes]
    # No redirect is resolved, so the address is never one in a reply.
    if any(issubclass(kind, _UNUSABLE) for kind in kinds):
        return TransportError(Failure.CONFIGURATION, type(error).__name__)
    is_unsent = may_have_sent is False or any(issubclass(kind, _NO_CONNECTION) for kind in kinds)
    failure, detail = next(
        (failure, detail)
        for types, failure, detail in (_UNSENT if is_unsent else _SENT)
        if any(issubclass(kind, types) for kind in kinds)
    )
    if failure is Failure.TIMEOUT and is_late:
        detail = _STILL_COMING
    detail = detail or _detail_of(causes)
    is_of_proxy = any(issubclass(kind, urllib3.exceptions.ProxyError) for kind in kinds)
    if proxy and is_unsent and (is_of_proxy or failure is Failure.NOT_SENT):
        detail += f" ({proxy})"
        if failure in (Failure.NOT_SENT, Failure.TLS):
            failure = Failure.NOT_SENT_BY_PROXY
    return TransportError(failure, detail)


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, as the library raised it, and those that it wraps; the system's own is the last."""
    found: list[BaseException] = [error]
    for each in found:
        yield each
        wrapped = (*each.args, getattr(each, "reason", None), each.__cause__)
        found += [part for part in wrapped if isinstance(part, BaseException) and part not in found]


def _detail_of(causes: list[BaseException]) -> str:
    """Describe an error in one line: its type, and the system's message if there is one."""
    for cause in causes:
        if message := _system_message(cause):
            return f"{type(cause).__name__}: {message}"
    return type(causes[-1]).__name__


def _system_message(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if not isinstance(error, OSError):
        return ""
    if str(error).startswith(_REFUSED_BY_PROXY):
        return str(error)
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""
