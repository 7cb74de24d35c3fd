"""The two transports: requests for workers, httpx for the event loop. No other module knows either library."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import requests
import requests.adapters
import urllib3.exceptions

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from types import TracebackType

_CHUNK_BYTES = 64 * 1024
_CONNECTIONS = 16


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

    @property
    def body(self) -> bytes:
        return b"".join(self._chunks)


class SyncTransport:
    """
    One pooled session over requests.

    :param settings: time limits, proxies, headers and trust.
    """

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._session = requests.Session()
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS, max_retries=0)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.headers.update(settings.default_headers())
        self._session.proxies.update(settings.proxies)
        self._session.verify = settings.verify
        # Without this, requests replaces our Authorization by what it finds in a ~/.netrc.
        self._session.auth = _leave_as_it_is

    def send(self, request: Request) -> Response:
        """
        Send one request and read its reply whole.

        :param request: what to send.
        :returns: the reply, whatever its status.
        :raises TransportError: where no whole reply came.
        """
        limit = self._settings.read_limit(request)
        reading = _Reading(request, limit)
        try:
            with self._session.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                data=request.body,
                timeout=(self._settings.connect_timeout, limit),
                allow_redirects=False,
                stream=True,
            ) as reply:
                for chunk in _chunks(reply):
                    reading.add(chunk)
                headers = {name.lower(): value for name, value in reply.headers.items()}
                return Response(reply.status_code, headers, reading.body)
        except requests.RequestException as error:
            raise _from_requests(error) from None

    def close(self) -> None:
        """Close the session's connections."""
        self._session.close()

    def __enter__(self) -> SyncTransport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _chunks(reply: requests.Response) -> Iterator[bytes]:
    yield from reply.iter_content(_CHUNK_BYTES)


def _leave_as_it_is(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
    return prepared


def _from_requests(error: requests.RequestException) -> TransportError:
    if isinstance(error, (requests.exceptions.SSLError, requests.exceptions.ProxyError)):
        is_tls = isinstance(error, requests.exceptions.SSLError)
        return TransportError(Failure.TLS if is_tls else Failure.NOT_SENT, _cause(error))
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return TransportError(Failure.NOT_SENT, "no connection within the time limit")
    if isinstance(error, requests.exceptions.ReadTimeout) or _is_read_timeout(error):
        return TransportError(Failure.TIMEOUT, "no reply within the time limit")
    # Addresses and headers that no request can be made of are ValueErrors too.
    if isinstance(error, ValueError) or _never_connected(error):
        return TransportError(Failure.NOT_SENT, _cause(error))
    return TransportError(Failure.BROKEN, _cause(error))


def _wrapped(error: requests.RequestException) -> object:
    inner = error.args[0] if error.args else None
    return getattr(inner, "reason", None) or inner


def _is_read_timeout(error: requests.RequestException) -> bool:
    # A time limit that passes in the middle of a body comes as a plain ConnectionError.
    return isinstance(_wrapped(error), urllib3.exceptions.ReadTimeoutError)


def _never_connected(error: requests.RequestException) -> bool:
    return isinstance(_wrapped(error), urllib3.exceptions.NewConnectionError)


def _cause(error: requests.RequestException) -> str:
    # The library's own text holds the whole address with its query, so only the kind and the system's words are kept.
    inner = _wrapped(error)
    system = _system_error(inner if isinstance(inner, BaseException) else error)
    name = type(inner).__name__ if inner is not None else type(error).__name__
    return f"{name}: {system}" if system else name


def _system_error(error: BaseException | None) -> str:
    for _ in range(6):
        if error is None:
            return ""
        if isinstance(error, ssl.SSLError):
            return getattr(error, "verify_message", "") or error.reason or "TLS failed"
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        nested = next((part for part in error.args if isinstance(part, BaseException)), None)
        error = nested or error.__cause__ or error.__context__
    return ""


class AsyncTransport:
    """
    One pooled client over httpx.

    :param settings: time limits, proxies, headers and trust.
    """

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        verify: bool | ssl.SSLContext = settings.verify if isinstance(settings.verify, bool) else (
            ssl.create_default_context(cafile=settings.verify)
        )
        mounts = {
            f"{scheme}://": httpx.AsyncHTTPTransport(proxy=address, verify=verify)
            for scheme, address in settings.proxies.items()
        }
        self._client = httpx.AsyncClient(
            headers=settings.default_headers(),
            verify=verify,
            mounts=mounts,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=_CONNECTIONS),
        )

    async def send(self, request: Request) -> Response:
        """
        Send one request and read its reply whole.

        :param request: what to send.
        :returns: the reply, whatever its status.
        :raises TransportError: where no whole reply came.
        """
        limit = self._settings.read_limit(request)
        reading = _Reading(request, limit)
        try:
            async with self._client.stream(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body,
                timeout=httpx.Timeout(limit, connect=self._settings.connect_timeout),
                auth=_untouched,
            ) as reply:
                async for chunk in _achunks(reply):
                    reading.add(chunk)
                headers = {name.lower(): value for name, value in reply.headers.items()}
                return Response(reply.status_code, headers, reading.body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _from_httpx(error) from None

    async def aclose(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()


async def _achunks(reply: httpx.Response) -> AsyncIterator[bytes]:
    async for chunk in reply.aiter_bytes(_CHUNK_BYTES):
        yield chunk


def _untouched(request: httpx.Request) -> httpx.Request:
    return request


def _from_httpx(error: httpx.HTTPError | httpx.InvalidURL) -> TransportError:
    system = _system_error(error)
    detail = f"{type(error).__name__}: {system}" if system else type(error).__name__
    if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return TransportError(Failure.NOT_SENT, "no connection within the time limit")
    if isinstance(error, httpx.TimeoutException):
        return TransportError(Failure.TIMEOUT, "no reply within the time limit")
    if isinstance(error, httpx.ConnectError):
        is_tls = isinstance(_root(error), ssl.SSLError)
        return TransportError(Failure.TLS if is_tls else Failure.NOT_SENT, detail)
    if isinstance(error, (httpx.ProxyError, httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return TransportError(Failure.NOT_SENT, detail)
    return TransportError(Failure.BROKEN, detail)


def _root(error: BaseException) -> BaseException:
    for _ in range(6):
        inner = error.__cause__ or error.__context__
        if inner is None:
            return error
        error = inner
    return error
