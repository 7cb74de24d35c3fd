"""
The transport of workers, over requests.

It is a plain session, with what belongs to other programs switched off: redirects are not resolved, cookies are not
kept, ``.netrc`` is not read. Proxies and certificates of the environment are honoured; they are looked up once for each
base address, because requests would look for them at each request.

Time. requests bounds the pause between two parts of a reply, so a reply that trickles in would last for ever. Here one
deadline holds for the whole exchange. No other thread is needed for it: each wait for the socket (to connect, to send,
and to receive, be it a header, a chunk or an interim reply) is given what is left until the deadline. That is why the
connections and their replies are subclasses of those of urllib3 and http.client. The deadline belongs to the exchange
and not to the connection, so it cannot strike a connection that has gone back to the pool. One wait is beyond it: the
lookup of the host's name, which the system's resolver bounds.

What was sent. Whatever goes wrong while a connection is made leaves :meth:`_Connection.connect` as one type of error,
so that no later error is taken for one before the request was sent.
"""

from __future__ import annotations

import http.client
import http.cookiejar
import io
import socket
import ssl
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import requests
import requests.adapters
import urllib3.connection
import urllib3.exceptions
from requests.utils import get_environ_proxies
from urllib3.util.connection import create_connection
from urllib3.util.ssl_match_hostname import CertificateError

from airflow_provider_mediaops.http.decoding import BodyReader
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.redaction import hiding_credentials
from airflow_provider_mediaops.http.transport_errors import causes_of, detail_of
from airflow_provider_mediaops.http.transport_settings import (
    HEAD_TOO_LARGE,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    NO_CONNECTION,
    NO_REPLY,
    STILL_COMING,
    TransportSettings,
    check_address,
    check_headers,
    merge_headers,
    trust_context,
    untrustworthy,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer, Self

__all__ = ["SyncTransport", "TransportSettings"]

_CHUNK_BYTES = 64 * 1024
_FIRST_FINAL_STATUS = 200


@dataclass(frozen=True, slots=True)
class _Base:
    """A base address as requests writes it, and the proxies on the way there."""

    address: str
    proxies: dict[str, str] = field(repr=False)


class SyncTransport:
    """
    One pooled session over requests.

    :param settings: time limits, proxies, headers and certificates.
    """

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._headers = settings.default_headers()
        self._trust = settings.trust()
        self._bases: dict[str, _Base] = {}
        self._session = _Session()

    def send(self, request: Request) -> Response:
        """
        Send one request and read its reply whole.

        :param request: the request.
        :returns: the reply, whatever its status.
        :raises TransportError: if no whole reply was received.
        """
        base = self._base(request.base)
        prepared = self._prepare(request, base.address)
        limit = self._settings.read_limit(request)
        deadline = _Deadline(self._settings.total_limit(request))
        before = _deadline.set(deadline)
        try:
            with (
                hiding_credentials(request),
                self._session.send(
                    prepared,
                    stream=True,
                    allow_redirects=False,
                    timeout=(self._settings.connect_timeout, limit),
                    verify=self._trust,
                    proxies=base.proxies,
                ) as reply,
            ):
                return _read(reply, self._settings.max_bytes(request))
        except (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError) as error:
            failure = _failure_of(error, deadline)
        finally:
            _deadline.reset(before)
        # Outside the handler, so that the library's error is not kept: its text holds the address with its query.
        raise failure

    def _prepare(self, request: Request, base: str) -> requests.PreparedRequest:
        headers = merge_headers(self._headers, request.headers)
        check_headers(headers)
        # By its parts: as a whole, requests takes an address to pieces again that is put together and escaped already.
        prepared = requests.PreparedRequest()
        prepared.prepare_method(request.method)
        prepared.url = base + request.url.removeprefix(request.base)
        prepared.prepare_headers(headers)
        prepared.prepare_body(request.body, None)
        return prepared

    def _base(self, address: str) -> _Base:
        found = self._bases.get(address)
        if found is None:
            check_address(address)
            if address.startswith("https:"):
                self._check_trust()
            # requests would read all of the environment at each request, which takes as long as sending it.
            proxies = dict(self._settings.proxies) or get_environ_proxies(f"{address}/")
            found = self._bases[address] = _Base(_normalized(address), proxies)
        return found

    def _check_trust(self) -> None:
        try:
            trust_context(self._trust)
            return
        except OSError:
            failure = untrustworthy(self._trust)
        raise failure

    def close(self) -> None:
        """Close the session's connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _normalized(base: str) -> str:
    prepared = requests.PreparedRequest()
    try:
        prepared.prepare_url(f"{base}/", None)
        return str(prepared.url)[:-1]
    except ValueError as error:
        failure = TransportError(Failure.CONFIGURATION, type(error).__name__)
    raise failure


class _Session(requests.Session):
    """A session that follows, keeps and reads nothing of its own accord."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=()))
        adapter = _Adapter(pool_maxsize=MAX_CONNECTIONS)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Find no redirect: to resolve one, requests reads its whole body and decodes its Location."""


class _Deadline:
    """
    The end of one exchange.

    :param seconds: how long it may take from now.
    """

    __slots__ = ("_ends",)

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._ends

    def left(self, limit: float) -> float:
        """Return the seconds that one wait may take; raise TimeoutError if none are left."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError(STILL_COMING)
        return min(left, limit)


_deadline: ContextVar[_Deadline] = ContextVar("deadline")


class _NotConnectedError(urllib3.exceptions.NewConnectionError):
    """Raised instead of any error that is met while a connection is made, when nothing of the request was sent."""

    def __init__(self, connection: urllib3.connection.HTTPConnection, failure: Failure, detail: str) -> None:
        super().__init__(connection, detail)
        self.failure = failure
        self.detail = detail


class _HeadTooLargeError(http.client.HTTPException):
    """The reply's headers and interim replies are larger than the limit."""


class _Incoming(io.RawIOBase):
    """
    The bytes that a connection receives for one exchange, each wait bounded by the deadline.

    :param raw: the socket as a file; closing it closes the socket, if nobody else uses it.
    :param connected: the socket.
    """

    def __init__(self, raw: io.RawIOBase, connected: socket.socket) -> None:
        super().__init__()
        self._raw = raw
        self._socket = connected
        self._limit: float = connected.gettimeout() or 0.0
        self._deadline = _deadline.get()
        self.head_bytes_left: int | None = MAX_HEAD_BYTES

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Buffer) -> int | None:
        if self.head_bytes_left is not None and self.head_bytes_left <= 0:
            raise _HeadTooLargeError
        self._socket.settimeout(self._deadline.left(self._limit))
        count: int | None = self._raw.readinto(buffer)
        if self.head_bytes_left is not None and count:
            self.head_bytes_left -= count
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()


class _Reply(http.client.HTTPResponse):
    """A reply that is received by the exchange's deadline, with headers of limited size."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._incoming = _Incoming(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._incoming)

    def begin(self) -> None:
        super().begin()
        self._incoming.head_bytes_left = None


class _Connection(urllib3.connection.HTTPConnection):
    """A connection that is made, and sends, by the exchange's deadline."""

    response_class = _Reply

    def connect(self) -> None:
        try:
            super().connect()
        except (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError) as error:
            raise _NotConnectedError(self, *_why_not_connected(error)) from error

    def _new_conn(self) -> socket.socket:
        # urllib3 gives each address of a host the whole time limit, however many there are.
        deadline, limit = _deadline.get(), self.timeout or 0.0
        trouble: OSError | None = None
        for *_, address in socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM):
            try:
                place = str(address[0]), int(address[1])
                made = create_connection(place, deadline.left(limit), socket_options=self.socket_options)
                # For the TLS handshake.
                made.settimeout(deadline.left(limit))
            except OSError as error:
                trouble = error
            else:
                return made
        raise trouble or OSError("the host has no address")

    def _connect_tls_proxy(self, hostname: str, sock: socket.socket) -> Any:
        # TLS within TLS is done in Python, by many waits in one call.
        return _Paced(super()._connect_tls_proxy(hostname, sock))  # type: ignore[misc]

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self.sock.settimeout(_deadline.get().left(self.timeout or 0.0))
        super().send(data)


class _TLSConnection(_Connection, urllib3.connection.HTTPSConnection):
    """The same over TLS."""


class _Paced:
    """
    A socket to a proxy that speaks TLS, each wait bounded by the deadline.

    :param connected: the socket.
    """

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected

    def recv(self, *arguments: Any) -> bytes:
        self._arm()
        return self._socket.recv(*arguments)

    def sendall(self, *arguments: Any) -> None:
        self._arm()
        self._socket.sendall(*arguments)

    def _arm(self) -> None:
        self._socket.settimeout(_deadline.get().left(self._socket.gettimeout() or 0.0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class _Adapter(requests.adapters.HTTPAdapter):
    """Sends as requests does, over connections that know the deadline."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


_POOLS = {"http": _Pool, "https": _TLSPool}


def _read(reply: requests.Response, max_bytes: int) -> Response:
    if reply.status_code < _FIRST_FINAL_STATUS:
        # The final reply is still to come; it must not be taken for the reply to another request.
        raise TransportError(Failure.BROKEN, f"an interim reply ({reply.status_code}) came where the final one belongs")
    body = BodyReader(reply.headers.get("content-encoding", ""), max_bytes)
    # read1 returns what has arrived; the library's own iterator waits for a full chunk.
    while chunk := reply.raw.read1(_CHUNK_BYTES, decode_content=False):
        body.add(chunk)
    return Response(reply.status_code, dict(reply.headers.lower_items()), body.finish())


def _failure_of(error: Exception, deadline: _Deadline) -> TransportError:
    """Name the failure by the types of the error and of its causes."""
    causes = causes_of(error)
    for cause in causes:
        if isinstance(cause, _NotConnectedError):
            return TransportError(cause.failure, cause.detail)
    if any(isinstance(cause, _UNUSABLE) for cause in causes):
        return TransportError(Failure.CONFIGURATION, type(error).__name__)
    if any(isinstance(cause, _NO_CONNECTION) for cause in causes):
        return TransportError(Failure.NOT_SENT, detail_of(causes))
    if any(isinstance(cause, _TIME_LIMITS) for cause in causes):
        return TransportError(Failure.TIMEOUT, STILL_COMING if deadline.passed else NO_REPLY)
    if any(isinstance(cause, _HEAD_ERRORS) or type(cause) is http.client.HTTPException for cause in causes):
        return TransportError(Failure.TOO_LARGE, HEAD_TOO_LARGE)
    return TransportError(Failure.BROKEN, detail_of(causes))


# Raised before a connection is looked for. No redirect is resolved, so these are never about an address in a reply.
_UNUSABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)
# Raised by programs that stand in for the network, as requests-mock does; here connections raise an error of their own.
_NO_CONNECTION = (requests.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError)
_TIME_LIMITS = (TimeoutError, requests.Timeout, urllib3.exceptions.ReadTimeoutError)
# Beside these, http.client has no type for too many headers.
_HEAD_ERRORS = (http.client.LineTooLong, _HeadTooLargeError)


def _why_not_connected(error: Exception) -> tuple[Failure, str]:
    causes = causes_of(error)
    if any(isinstance(cause, (ssl.SSLCertVerificationError, CertificateError)) for cause in causes):
        return Failure.UNTRUSTED, detail_of(causes)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return Failure.TLS, detail_of(causes)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return Failure.NOT_SENT, NO_CONNECTION
    return Failure.NOT_SENT, detail_of(causes)
