"""
Connections of urllib3 that keep to one deadline for a whole exchange, and to a limit of the size of the headers.

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
import os
import re
import socket
import ssl
import time
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import urllib3.connection
import urllib3.exceptions
from urllib3.util.ssl_match_hostname import CertificateError

from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.settings import MAX_HEAD_BYTES, MAX_HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer
    from urllib3.response import BaseHTTPResponse

    from airflow_provider_mediaops.http.stop import Stop


HEAD_TOO_LARGE = f"its headers are larger than {MAX_HEAD_BYTES:,} bytes, or more than {MAX_HEADERS}"
NO_CONNECTION = "no connection within the time limit"
NO_REPLY = "no reply within the time limit"
STILL_COMING = "the reply was still coming in at the time limit"
PROXY_WANTS_CREDENTIALS = (
    "the proxy refused the connection with 407: it asks for a user and password, which belong in its address, "
    "http://user:password@proxy:3128"
)
NO_CLIENT_CERTIFICATE = "the server asks for a certificate of the client: client_cert and client_key"
CLIENT_CERTIFICATE_REFUSED = "the server refuses the certificate in client_cert"
NO_HTTP_PORT = (
    "the port speaks no HTTP, it is the one over which the nodes of a cluster talk (9300 as a rule); that for HTTP is "
    "9200 as a rule"
)

# What urllib3 leaves as it is when it escapes the target of a request.
_ESCAPED_TARGET = re.compile(r"/(?:[A-Za-z0-9/._~!$&'()*+,;=:@?-]|%[0-9A-F]{2})*")
# So a reply of usual size arrives in one wait, together with its headers.
_BUFFER_BYTES = 64 * 1024
# http.client has no exception type for this.
_REFUSED_BY_PROXY = re.compile("Tunnel connection failed: ([0-9]{3})")
_ALERTS_ABOUT_CERTIFICATES = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
)
# All that a node answers on the port for its transport.
_NO_HTTP_PORT = re.compile(b"This is not an? HTTP port")
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


class NotConnectedError(urllib3.exceptions.NewConnectionError):
    """Raised for any error while a connection is made. Nothing of the request was sent."""

    def __init__(self, connection: urllib3.connection.HTTPConnection, failure: TransportError) -> None:
        super().__init__(connection, failure.detail)
        self.failure = failure.failure
        self.detail = failure.detail


class HeadTooLargeError(http.client.HTTPException):
    """The reply's headers and interim replies are larger than the limit."""


class _Incoming(io.RawIOBase):
    """The bytes that a connection receives for one exchange, each wait bounded by the deadline."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket) -> None:
        super().__init__()
        self._raw = raw
        self._socket = connected
        self._limit: float = connected.gettimeout() or 0.0
        self._deadline = current_deadline.get()
        self.head_bytes_left: int | None = MAX_HEAD_BYTES
        self._start = b""
        self.ended = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Buffer) -> int | None:
        if self.ended:
            return None
        self._socket.settimeout(self._deadline.left(self._limit))
        if self.head_bytes_left is None:
            return self._raw.readinto(buffer)
        if self.head_bytes_left <= 0:
            raise HeadTooLargeError
        head = memoryview(buffer)[: self.head_bytes_left]
        count: int | None = self._raw.readinto(head)
        if not count and self.head_bytes_left < MAX_HEAD_BYTES:
            # http.client would take the end of the connection for the end of the headers.
            raise http.client.IncompleteRead(self._start)
        self._start = self._start or bytes(head[:_START_BYTES])
        self.head_bytes_left -= count or 0
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()

    def stop_reuse(self) -> None:
        """End the connection, so that the pool makes another one for the next request."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class _Reply(http.client.HTTPResponse):
    """A reply that must arrive before the deadline, with headers of limited size."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._incoming = _Incoming(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._incoming, _BUFFER_BYTES)
        # Only the head of a proxy's reply to CONNECT is read, without begin().
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        super().begin()
        self._incoming.head_bytes_left = None
        if (
            not self.chunked
            and self.length != 0
            and ("transfer-encoding" in self.headers or (self.length is None and "content-length" in self.headers))
        ):
            # http.client would read until the connection ends, so it would notice no body that is cut short.
            raise http.client.UnknownTransferEncoding

    def _close_conn(self) -> None:
        self._incoming.ended = True
        # A connection cannot be trusted on which more arrived than the reply. Behind a proxy's reply begins the tunnel.
        if self._has_begun and not self.fp.closed and self.fp.peek():
            self._incoming.stop_reuse()
        super()._close_conn()  # type: ignore[misc]


class _Connection(urllib3.connection.HTTPConnection):
    """A connection that must be made, and must send, before the deadline."""

    response_class = _Reply
    _connecting = False

    def connect(self) -> None:
        self._connecting = True
        try:
            super().connect()
        except (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError) as error:
            raise NotConnectedError(self, _why_not_connected(error)) from error
        finally:
            self._connecting = False

    def _new_conn(self) -> socket.socket:
        # urllib3 gives each address of a host the whole time limit, however many there are.
        last_error: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self._dns_host, self.port, type=socket.SOCK_STREAM
        ):
            try:
                return self._connected(socket.socket(family, kind, protocol), address)
            except OSError as error:
                last_error = error
        raise last_error or OSError("the host has no address")

    def _connected(self, new: socket.socket, address: Any) -> socket.socket:
        deadline, limit = current_deadline.get(), self.timeout or 0.0
        try:
            for option in self.socket_options or ():
                new.setsockopt(*option)
            new.settimeout(deadline.left(limit))
            new.connect(address)
            # For the TLS handshake.
            new.settimeout(deadline.left(limit))
        except BaseException:
            # urllib3's own function leaves it open if a signal handler raises.
            new.close()
            raise
        return new

    def _connect_tls_proxy(self, hostname: str, sock: socket.socket) -> Any:
        # Python does TLS within TLS by many waits in one call.
        return _BoundedSocket(super()._connect_tls_proxy(hostname, sock))  # type: ignore[misc]

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


class _BoundedSocket:
    """A TLS connection within TLS to a proxy, each wait bounded by the deadline."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected

    def recv(self, *arguments: Any) -> bytes:
        self._arm()
        return self._socket.recv(*arguments)

    def sendall(self, *arguments: Any) -> None:
        self._arm()
        self._socket.sendall(*arguments)

    def shutdown(self, how: int) -> None:
        # It has no such method of its own.
        self._socket.socket.shutdown(how)  # type: ignore[attr-defined]

    def _arm(self) -> None:
        self._socket.settimeout(current_deadline.get().left(self._socket.gettimeout() or 0.0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _Pool(urllib3.HTTPConnectionPool):
    """Connections to one host, over which each request is sent once and as it is."""

    ConnectionCls = _Connection

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str], timeout: Any, **options: Any
    ) -> BaseHTTPResponse:
        """
        Send a request that requests has prepared, and read the headers of its reply.

        urllib3 would escape the target again, character by character, and work out retries and redirects, of which
        requests asks for none. It does so here for a proxy, and for a target that is not escaped.
        """
        if self.proxy is not None or not _ESCAPED_TARGET.fullmatch(url):
            return super().urlopen(method, url, body=body, headers=headers, timeout=timeout, **options)
        connection = self._get_conn()
        try:
            return self._make_request(
                connection,
                method,
                url,
                body=body,
                headers=headers,
                timeout=timeout,
                response_conn=connection,
                preload_content=False,
                decode_content=False,
            )
        except BaseException:
            connection.close()
            # It leaves an empty place behind, which a new connection takes.
            self._put_conn(None)
            raise


class _TLSPool(_Pool, urllib3.HTTPSConnectionPool):
    """The same over TLS."""

    ConnectionCls = _TLSConnection


#: The pools to use in place of urllib3's own, by scheme.
POOLS = {"http": _Pool, "https": _TLSPool}


def _why_not_connected(error: Exception) -> TransportError:
    causes = causes_of(error)
    if any(isinstance(cause, CertificateError) for cause in causes):
        return TransportError(Failure.UNTRUSTED, detail_of(causes))
    return failure_before_sending(causes)


def causes_of(error: BaseException) -> list[BaseException]:
    """List an error, as the library raised it, and those that it wraps; the system's own is the last."""
    return list(_walk(error))


def _walk(error: BaseException) -> Iterator[BaseException]:
    found: list[BaseException] = [error]
    for each in found:
        yield each
        wrapped = (*each.args, getattr(each, "reason", None), each.__cause__)
        found += [part for part in wrapped if isinstance(part, BaseException) and part not in found]


def detail_of(causes: list[BaseException]) -> str:
    """
    Describe an error in one line: its type, and the system's message if there is one.

    The libraries' own texts hold the whole address with its query.
    """
    for cause in causes:
        if message := _system_message(cause):
            return f"{type(cause).__name__}: {message}"
    return type(causes[-1]).__name__


def _is_head_too_large(causes: list[BaseException]) -> bool:
    """Return whether a reply was refused for the size or the number of its headers."""
    return any(
        isinstance(cause, (http.client.LineTooLong, HeadTooLargeError))
        # http.client has no type for too many headers.
        or type(cause) is http.client.HTTPException
        for cause in causes
    )


def failure_before_sending(causes: list[BaseException]) -> TransportError:
    """Return the failure of an exchange in which no part of the request was sent."""
    if refusal := _client_refused(causes):
        return refusal
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return TransportError(Failure.UNTRUSTED, detail_of(causes))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return TransportError(Failure.TLS, detail_of(causes))
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TransportError(Failure.NOT_SENT, NO_CONNECTION)
    if _is_head_too_large(causes):
        # Only a proxy replies before the request.
        return TransportError(Failure.NOT_SENT, "the headers of the proxy's reply are too large")
    return TransportError(Failure.NOT_SENT, detail_of(causes))


def failure_after_sending(causes: list[BaseException], time_limit: str) -> TransportError:
    """Return the failure of an exchange of which a part may have been sent."""
    if refusal := _client_refused(causes):
        return refusal
    if time_limit:
        return TransportError(Failure.TIMEOUT, time_limit)
    if _is_head_too_large(causes):
        return TransportError(Failure.TOO_LARGE, HEAD_TOO_LARGE)
    return TransportError(Failure.BROKEN, detail_of(causes))


def _client_refused(causes: list[BaseException]) -> TransportError | None:
    """Return the failure if a proxy wants credentials, or a server another certificate: it reads no request then."""
    for cause in causes:
        if _refused_with(cause) == "407":
            return TransportError(Failure.CONFIGURATION, PROXY_WANTS_CREDENTIALS)
        alert = (cause.reason or "") if isinstance(cause, ssl.SSLError) else ""
        if alert.endswith("ALERT_CERTIFICATE_REQUIRED"):
            return TransportError(Failure.CONFIGURATION, f"{NO_CLIENT_CERTIFICATE} ({alert})")
        if alert.endswith(_ALERTS_ABOUT_CERTIFICATES):
            return TransportError(Failure.CONFIGURATION, f"{CLIENT_CERTIFICATE_REFUSED} ({alert})")
    return None


def _refused_with(error: BaseException) -> str:
    """Return the status with which a proxy refused a tunnel; empty for another error."""
    refusal = _REFUSED_BY_PROXY.match(str(error))
    return refusal[1] if refusal else ""


def _system_message(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if status := _refused_with(error):
        return f"the proxy refused the connection with {status}"
    start: object = getattr(error, "partial", None)
    # urllib3's own has a number there.
    if isinstance(start, bytes) and _NO_HTTP_PORT.match(start):
        return NO_HTTP_PORT
    if not isinstance(error, OSError):
        return ""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""
