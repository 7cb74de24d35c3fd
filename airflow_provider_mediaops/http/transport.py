"""
The transport, over requests.

It is a plain session without some habits of requests: redirects are not resolved, cookies are not kept, ``.netrc`` is
not read. Proxies and certificates of the environment are honoured, and looked up once for each base address, because
requests would look for them at each request, which takes as long as sending it.

One deadline holds for the whole exchange, headers included; see ``connections``.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import requests
import requests.adapters
from requests.structures import CaseInsensitiveDict
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.gunzip import inflated
from airflow_provider_mediaops.http.connections import (
    POOLS,
    PROXY_WANTS_CREDENTIALS,
    Deadline,
    current_deadline,
    failure_of,
)
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.settings import (
    CA_VARIABLES,
    MAX_CONNECTIONS,
    ClientCertificate,
    TransportSettings,
    trust_problem,
)
from airflow_provider_mediaops.http.stop import Stop

if TYPE_CHECKING:
    from typing_extensions import Self


_CHUNK_BYTES = 64 * 1024
_FIRST_FINAL_STATUS = 200
# The second is the older name (RFC 9110).
_GZIP_NAMES = ("gzip", "x-gzip")


@dataclass(frozen=True, slots=True)
class _Base:
    """A base address as requests writes it, the proxies on the way there by scheme, and words for the one used."""

    address: str
    proxies: dict[str, str] = field(repr=False)
    proxy: str


class _PreparedRequest(requests.PreparedRequest):
    """
    A request whose parts are ready to be sent.

    requests.Request would parse and escape an address that is escaped already, and check the headers a second time.
    """

    def __init__(self, request: Request, base: _Base, headers: CaseInsensitiveDict[str]) -> None:
        super().__init__()
        self.base = base
        self.prepare_method(request.method)
        self.url = base.address + request.url.removeprefix(request.base)
        self.headers = headers
        self.prepare_body(request.body, None)


class Transport:
    """One pooled session over requests. Once ``stop`` is requested, nothing is sent, and a request under way ends."""

    def __init__(self, settings: TransportSettings, stop: Stop | None = None) -> None:
        self._settings = settings
        self._stop = stop or Stop()
        self._headers = settings.default_headers()
        self._trust = settings.trust()
        self._bases: dict[str, _Base] = {}
        self._session, self._process = _Session(settings.client_certificate), os.getpid()

    def send(self, request: Request, cancelled: Stop | None = None) -> Response:
        """
        Send one request and read its reply whole, whatever its status; raise a TransportError without a whole one.

        ``cancelled`` ends this request only.
        """
        stops = (self._stop, cancelled) if cancelled else (self._stop,)
        for stop in stops:
            stop.check()
        if self._process != os.getpid():
            # A process that was forked would read the replies to its parent's requests.
            self._session, self._process = _Session(self._settings.client_certificate), os.getpid()
        base = self._base(request.base)
        headers = CaseInsensitiveDict(self._headers)
        headers.update(request.headers)
        prepared = _PreparedRequest(request, base, headers)
        deadline = Deadline(self._settings.total_limit(request), stops)
        before = current_deadline.set(deadline)
        failure: BaseException
        try:
            with (
                self._stop.interruptible(),
                self._session.send(
                    prepared,
                    stream=True,
                    allow_redirects=False,
                    timeout=(self._settings.connect_timeout, self._settings.read_limit(request)),
                    verify=self._trust,
                    proxies=base.proxies,
                ) as reply,
            ):
                return _read(reply, self._settings.max_bytes(request), deadline.sent_at)
        except (OSError, ValueError, EOFError, zlib.error, HTTPError, HTTPException) as error:
            failure = failure_of(error, may_have_sent=deadline.may_have_sent, is_late=deadline.passed, proxy=base.proxy)
        except TaskStoppedError:
            # It may come before anything was done.
            failure = TaskStoppedError(sent=deadline.may_have_sent is True)
        finally:
            current_deadline.reset(before)
        # Outside the handler, so that the library's error is not kept: its text holds the address with its query.
        raise failure

    def _base(self, address: str) -> _Base:
        found = self._bases.get(address)
        if found is None:
            normalized = normalized_address(address)
            if address.startswith("https:") and (problem := trust_problem(self._trust)):
                named = f"{self._trust}, which the connection or {' or '.join(CA_VARIABLES)} names"
                raise TransportError(Failure.CONFIGURATION, f"{named}, cannot be used: {problem}")
            proxies = dict(self._settings.proxies) or get_environ_proxies(f"{address}/")
            found = self._bases[address] = _Base(normalized, proxies, self._proxy_in_words(normalized, proxies))
        return found

    def _proxy_in_words(self, address: str, proxies: dict[str, str]) -> str:
        """Name the proxy that requests chooses, without its credentials; raise a TransportError for one of SOCKS."""
        proxy = select_proxy(address, proxies)
        if not proxy:
            return ""
        source = "the connection" if self._settings.proxies else "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
        words = f"the proxy {proxy.rpartition('@')[2]}, which {source} names"
        if proxy.lower().startswith("socks"):
            raise TransportError(Failure.CONFIGURATION, f"a SOCKS proxy is not supported ({words})")
        return words

    def close(self) -> None:
        """Close the session's connections; that of a request under way is closed after its reply."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def normalized_address(base: str) -> str:
    """Return a base address as it is sent; raise a TransportError if it cannot be."""
    prepared = requests.PreparedRequest()
    try:
        prepared.prepare_url(f"{base}/", None)
        return str(prepared.url)[:-1]
    except ValueError as error:
        failure = TransportError(Failure.CONFIGURATION, type(error).__name__)
    raise failure


class _Session(requests.Session):
    """A session that follows no redirect, keeps no cookie and reads no environment."""

    def __init__(self, client_certificate: ClientCertificate | None) -> None:
        super().__init__()
        self.trust_env = False
        adapter = _Adapter(client_certificate)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: to resolve a redirect, requests would read its whole body and decode its Location."""


class _RawReply:
    """
    The methods of urllib3's reply that are used.

    It has no ``_original_response``. So requests looks for no cookies in it, which takes longer than to read headers.
    """

    def __init__(self, response: Any) -> None:
        self.read1 = response.read1
        self.close = response.close
        self.release_conn = response.release_conn
        self.ends_with_connection = response.length_remaining is None and not response.chunked


class _Adapter(requests.adapters.HTTPAdapter):
    """Sends as requests does, over connections that keep to the deadline, and remembers the pool of each base."""

    def __init__(self, client_certificate: ClientCertificate | None) -> None:
        super().__init__(pool_maxsize=MAX_CONNECTIONS)
        self._client_certificate = client_certificate
        self._pools: dict[str, Any] = {}

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        # From here on, the connection records it.
        current_deadline.get().may_have_sent = False
        return super().send(*args, **kwargs)

    def get_connection_with_tls_context(self, request: Any, verify: Any, *args: Any, **kwargs: Any) -> Any:
        pool: Any = self._pools.get(request.base.address)
        if pool is None:
            shown = self._client_certificate
            # With one, requests does not take the context that all sessions of the process share.
            kwargs["cert"] = (shown.certificate, shown.key) if shown else None
            pool = super().get_connection_with_tls_context(request, verify, *args, **kwargs)
            super().cert_verify(pool, request.url, verify, kwargs["cert"])  # type: ignore[no-untyped-call]
            if shown:
                pool.key_password = shown.password
            self._pools[request.base.address] = pool
        return pool

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Leave the pool unchanged: it has its certificates since it was made."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return a reply without cookies and without the encoding of its text, which nobody reads."""
        reply = requests.Response()
        reply.status_code, reply.raw = resp.status, _RawReply(resp)
        reply.headers = CaseInsensitiveDict(resp.headers)
        return reply

    def close(self) -> None:
        self._pools.clear()
        super().close()


def _read(reply: requests.Response, max_bytes: int, sent_at: float | None) -> Response:
    if reply.status_code < _FIRST_FINAL_STATUS:
        # It must not be taken for the reply to another request.
        raise TransportError(Failure.BROKEN, f"an interim reply ({reply.status_code}) came where the final one belongs")
    if reply.status_code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise TransportError(Failure.PROXY, PROXY_WANTS_CREDENTIALS)
    # read1 returns what has arrived; the library's own iterator waits for a full chunk.
    chunks = iter(lambda: reply.raw.read1(_CHUNK_BYTES, decode_content=False), b"")
    encoding = reply.headers.get("content-encoding", "")
    body = read_body(chunks, encoding, max_bytes)
    # JSON that is cut is noticed by its parser, and gzip by zlib.
    may_be_cut = reply.ok and not encoding and body[:1] not in (b"", b"{", b"[")
    if may_be_cut and getattr(reply.raw, "ends_with_connection", False):
        raise TransportError(Failure.BROKEN, "the reply has no length, and ends where its connection does")
    return Response(reply.status_code, dict(reply.headers.lower_items()), body, sent_at=sent_at)


def read_body(chunks: Iterable[bytes], content_encoding: str, max_bytes: int) -> bytes:
    """
    Read a whole body, which may be compressed with gzip, of limited size both as it was sent and decompressed.

    If the compression is damaged or ends too early, zlib.error and EOFError are raised.
    """
    # Unlike a list of chunks, this returns its content without a copy.
    body = io.BytesIO()
    encoding = content_encoding.strip().lower()
    received = _limited(chunks, max_bytes)
    for piece in _limited(inflated(received) if encoding in _GZIP_NAMES else received, max_bytes):
        if encoding not in ("", "identity", *_GZIP_NAMES):
            raise TransportError(Failure.UNREADABLE, "it is not compressed with gzip, or more than once")
        body.write(piece)
    return body.getvalue()


def _limited(pieces: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise TransportError(Failure.TOO_LARGE, f"the reply is larger than {max_bytes:,} bytes")
        yield piece
