"""The two transports: requests for workers, httpx for the event loop. No other module knows either library."""

from __future__ import annotations

import os
import ssl
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import requests
import requests.adapters
import requests.structures
import urllib3.exceptions

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.redaction import hiding_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from typing_extensions import Self

_CHUNK_BYTES = 64 * 1024
# As many as a walk through a list of ISBNs has requests under way, where replies take seconds.
_CONNECTIONS = 64
# httpx would drop an idle connection after 5 seconds, and a sensor looks less often than that.
_KEEP_ALIVE_SECONDS = 300.0
_NO_CONNECTION = "no connection within the time limit"
_NO_REPLY = "no reply within the time limit"


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """
    What both transports need to know.

    :param connect_timeout: seconds to make a connection.
    :param read_timeout: seconds to wait for a reply, unless a request asks for more.
    :param proxies: proxy addresses by scheme (``http``, ``https``); empty follows the environment.
    :param headers: headers of every request.
    :param verify: whether certificates are checked, or the path of a file with those to trust.
    """

    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool | str = True

    def read_limit(self, request: Request) -> float:
        """Give the seconds to wait for the reply to a request."""
        return max(self.read_timeout, request.read_timeout)

    def default_headers(self) -> dict[str, str]:
        """Give the headers of every request; some services compress only for agents that say gzip."""
        agent = f"airflow-provider-mediaops/{__version__} (gzip)"
        return {"User-Agent": agent, "Accept-Encoding": "gzip, deflate", **self.headers}

    def trust(self) -> bool | str:
        """Give ``verify``, or the file that the environment names for all programs, so that both transports agree."""
        if self.verify is not True:
            return self.verify
        files = map(os.environ.get, ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"))
        return next((file for file in files if file), True)


class _Reading:
    """Collects a body under its limits of size and time."""

    def __init__(self, request: Request, seconds: float) -> None:
        self._most = request.max_bytes
        self._deadline = time.monotonic() + seconds
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._most is not None and self._size > self._most:
            raise TransportError(Failure.TOO_LARGE, f"the reply is larger than {self._most:,} bytes")
        # A read time limit bounds the pause between two chunks; this bounds a reply that trickles in for ever.
        if time.monotonic() > self._deadline:
            raise TransportError(Failure.TIMEOUT, "the reply was still coming in at the time limit")

    def response(self, status: int, headers: Iterable[tuple[str, str]]) -> Response:
        named = {name.lower(): value for name, value in headers}
        return Response(status, named, b"".join(self._chunks))


class _Adapter(requests.adapters.HTTPAdapter):
    """
    Sends as requests does, and remembers the way to each host.

    For each request, requests works out anew which proxy, trust and connections are meant, and makes more of the reply
    than is read here, which takes longer than the sending. One transport sends all requests to a host the same way.
    """

    def __init__(self) -> None:
        super().__init__(pool_maxsize=_CONNECTIONS, max_retries=0)
        self._pools: dict[str, Any] = {}

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        host, _ = _host_and_target(request)
        pool = self._pools.get(host)
        if pool is None:
            pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
            super().cert_verify(pool, host, verify, cert)  # type: ignore[no-untyped-call]
            self._pools[host] = pool
        return pool

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Leave the pool as it is: it was told when it was made."""

    def close(self) -> None:
        # They end when nobody remembers them.
        self._pools.clear()
        super().close()

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        host, target = _host_and_target(request)
        # A proxy is told the whole address.
        return super().request_url(request, proxies) if self._pools[host].proxy else target

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        reply = requests.Response()
        reply.status_code, reply.raw = resp.status, resp
        reply.headers = requests.structures.CaseInsensitiveDict(resp.headers)
        reply.request, reply.url = req, str(req.url)
        return reply


def _host_and_target(request: requests.PreparedRequest) -> tuple[str, str]:
    scheme, _, host, target = str(request.url).split("/", 3)
    return f"{scheme}//{host}", f"/{target}"


@dataclass(frozen=True, slots=True)
class _Base:
    """A base address as it is sent, and what requests is told with each request to it."""

    address: str
    surroundings: Mapping[str, Any]


class SyncTransport:
    """
    One pooled session over requests.

    :param settings: time limits, proxies, headers and trust.
    """

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._session = requests.Session()
        adapter = _Adapter()
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.headers.update(settings.default_headers())
        self._headers = dict(self._session.headers)
        self._trust = settings.trust()
        self._bases: dict[str, _Base] = {}

    def send(self, request: Request) -> Response:
        """
        Send one request and read its reply whole.

        :param request: what to send.
        :returns: the reply, whatever its status.
        :raises TransportError: where no whole reply came.
        """
        limit = self._settings.read_limit(request)
        try:
            base = self._base(request.base)
            with (
                hiding_credentials(request),
                self._session.send(
                    self._prepared(request, base.address),
                    timeout=(self._settings.connect_timeout, limit),
                    allow_redirects=False,
                    **base.surroundings,
                ) as reply,
            ):
                reading = _Reading(request, limit)
                for chunk in _chunks(reply):
                    reading.add(chunk)
                return reading.response(reply.status_code, reply.headers.lower_items())
        except (OSError, urllib3.exceptions.HTTPError, ValueError) as error:
            failure = _from_requests(error)
        # Outside the handler, so that the library's error is not kept: its text holds the address with its query.
        raise failure

    def _prepared(self, request: Request, base: str) -> requests.PreparedRequest:
        # By its parts: as a whole it takes the address to pieces again, and adds what it finds in a ~/.netrc.
        prepared = requests.PreparedRequest()
        prepared.prepare_method(request.method)
        prepared.url = base + request.url.removeprefix(request.base)
        prepared.prepare_headers({**self._headers, **request.headers})
        prepared.prepare_cookies(self._session.cookies)
        prepared.prepare_body(request.body, None)
        return prepared

    def _base(self, address: str) -> _Base:
        # requests reads all of the environment for each request, which takes as long as sending it. Proxies and trust
        # are given here because the environment would override those of the session.
        found = self._bases.get(address)
        if found is None:
            prepared = requests.PreparedRequest()
            prepared.prepare_url(f"{address}/", None)
            proxies = dict(self._settings.proxies)
            surroundings = self._session.merge_environment_settings(address, proxies, True, self._trust, None)  # noqa: FBT003
            found = self._bases[address] = _Base(str(prepared.url)[:-1], surroundings)
        return found

    def close(self) -> None:
        """Close the session's connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _chunks(reply: requests.Response) -> Iterator[bytes]:
    # read1 gives what has come; the library's own iterator waits for a full chunk, for as long as it takes.
    while chunk := reply.raw.read1(_CHUNK_BYTES, decode_content=True):
        yield chunk


def _from_requests(error: Exception) -> TransportError:
    chain = list(_chain(error))
    if any(isinstance(link, urllib3.exceptions.DecodeError) for link in chain):
        return TransportError(Failure.UNREADABLE, "its compression cannot be undone")
    if any(isinstance(link, urllib3.exceptions.InvalidHeader) for link in chain):
        # The reply's; requests gives it the class of a header that it could not send.
        return TransportError(Failure.BROKEN, _detail(chain))
    timed_out = any(isinstance(link, _TIME_LIMITS) for link in chain)
    # Addresses and headers that no request can be made of are ValueErrors.
    if isinstance(error, (requests.ConnectTimeout, ValueError)) or any(map(_was_connecting, chain)):
        if timed_out:
            return TransportError(Failure.NOT_SENT, _NO_CONNECTION)
        is_tls = any(isinstance(link, ssl.SSLError) for link in chain)
        return TransportError(Failure.TLS if is_tls else Failure.NOT_SENT, _detail(chain))
    if timed_out:
        return TransportError(Failure.TIMEOUT, _NO_REPLY)
    return TransportError(Failure.BROKEN, _detail(chain))


# Not urllib3's ConnectTimeoutError: it counts refused connections among them.
_TIME_LIMITS = (TimeoutError, requests.Timeout, urllib3.exceptions.ReadTimeoutError)


def _was_connecting(error: BaseException) -> bool:
    # requests names the same TLS, proxy and time-out errors before and after the request was sent; what was raised
    # while urllib3 connected (TCP, proxy tunnel, TLS handshake) came before.
    return any(
        frame.f_code.co_name == "connect" and frame.f_globals.get("__name__") == "urllib3.connection"
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Give an error and those beneath it, from the library's own to the system's."""
    found: list[BaseException] = [error]
    for link in found:
        yield link
        beneath = (*link.args, getattr(link, "reason", None), link.__cause__)
        found += [part for part in beneath if isinstance(part, BaseException) and part not in found]


def _detail(chain: list[BaseException]) -> str:
    # The libraries' own texts hold the whole address with its query, so only kinds and the system's words are kept.
    told = next(filter(_system_words, chain), None)
    return f"{type(told).__name__}: {_system_words(told)}" if told else type(chain[-1]).__name__


def _system_words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if isinstance(error, httpx.ProxyError) or str(error).startswith("Tunnel connection failed"):
        return str(error)
    if not isinstance(error, OSError):
        return ""
    # asyncio puts words of its own, with the address, in place of the system's.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""


class AsyncTransport:
    """
    One pooled client over httpx.

    :param settings: time limits, proxies, headers and trust.
    """

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        trust = trust_context(settings.trust())
        limits = httpx.Limits(max_connections=_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_SECONDS)
        mounts = {
            f"{scheme}://": httpx.AsyncHTTPTransport(proxy=address, verify=trust, limits=limits)
            for scheme, address in settings.proxies.items()
        }
        self._client = httpx.AsyncClient(
            headers=settings.default_headers(),
            verify=trust,
            mounts=mounts,
            follow_redirects=False,
            limits=limits,
            # The environment's exceptions from its proxies would override the proxies given here.
            trust_env=not mounts,
        )

    async def send(self, request: Request) -> Response:
        """
        Send one request and read its reply whole.

        :param request: what to send.
        :returns: the reply, whatever its status.
        :raises TransportError: where no whole reply came.
        """
        limit = self._settings.read_limit(request)
        try:
            with hiding_credentials(request):
                async with self._client.stream(
                    request.method,
                    request.url,
                    headers=dict(request.headers),
                    content=request.body,
                    timeout=httpx.Timeout(limit, connect=self._settings.connect_timeout),
                    auth=_untouched,
                ) as reply:
                    reading = _Reading(request, limit)
                    async for chunk in reply.aiter_bytes():
                        reading.add(chunk)
                    return reading.response(reply.status_code, reply.headers.items())
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            failure = _from_httpx(error)
        # Outside the handler, as above.
        raise failure

    async def aclose(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()


def trust_context(trust: bool | str) -> bool | ssl.SSLContext:  # noqa: FBT001
    """
    Load the certificates to trust.

    :param trust: whether certificates are checked, or the path of a file or folder of those to trust.
    :returns: the same, with a path made into what httpx takes.
    :raises OSError: where the path cannot be read, or holds no certificates.
    """
    if isinstance(trust, bool):
        return trust
    is_folder = Path(trust).is_dir()
    return ssl.create_default_context(capath=trust) if is_folder else ssl.create_default_context(cafile=trust)


def _untouched(request: httpx.Request) -> httpx.Request:
    return request


def _from_httpx(error: Exception) -> TransportError:
    chain = list(_chain(error))
    if isinstance(error, httpx.DecodingError):
        return TransportError(Failure.UNREADABLE, "its compression cannot be undone")
    if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return TransportError(Failure.NOT_SENT, _NO_CONNECTION)
    if isinstance(error, httpx.TimeoutException):
        return TransportError(Failure.TIMEOUT, _NO_REPLY)
    if isinstance(error, httpx.ConnectError) and any(isinstance(link, ssl.SSLError) for link in chain):
        return TransportError(Failure.TLS, _detail(chain))
    return TransportError(Failure.NOT_SENT if isinstance(error, _NEVER_SENT) else Failure.BROKEN, _detail(chain))


_NEVER_SENT = (
    httpx.ConnectError,
    httpx.ProxyError,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    ValueError,
)
