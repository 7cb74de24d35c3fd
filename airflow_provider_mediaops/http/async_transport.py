"""
The transport of triggerers, over httpx.

Redirects are not followed, cookies are not kept, ``.netrc`` is not read; proxies and certificates of the environment
are honoured. One deadline holds for the whole exchange, from the connection to the last byte of the reply.
"""

from __future__ import annotations

import asyncio
import http.cookiejar
import ssl
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

import anyio
import httpx

from airflow_provider_mediaops.http.async_connections import ClosingBackend, release_places
from airflow_provider_mediaops.http.decoding import BodyReader
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.headers import check_headers, merge_headers
from airflow_provider_mediaops.http.redaction import hiding_credentials
from airflow_provider_mediaops.http.transport_errors import (
    causes_of,
    failure_after_sending,
    failure_before_sending,
)
from airflow_provider_mediaops.http.transport_settings import (
    HEAD_TOO_LARGE,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    NO_REPLY,
    STILL_COMING,
    TransportSettings,
    check_address,
    check_final_status,
    trust_context,
    untrustworthy,
)

# anyio, httpx and ssl import these at the first request, which would block the event loop, while a thread imports this
# module. A version that has moved them imports them later, as before.
for _module in (
    "anyio._backends._asyncio",
    "anyio.abc",
    "anyio.lowlevel",
    "encodings.idna",
):
    with suppress(ImportError):
        import_module(_module)

# httpx would drop an idle connection after 5 seconds, and a sensor polls less often than that.
_KEEP_ALIVE_SECONDS = 300.0
# After this number of decoded bytes, other tasks of the event loop get a turn.
_TURN_BYTES = 1024 * 1024


class _Progress:
    """
    Follows one exchange through httpcore.

    It records when httpcore began to send the request. CONNECT does not count, because only the proxy reads it. And it
    closes the connection if more than the reply has arrived: httpcore would take that for the next reply.
    """

    def __init__(self) -> None:
        self.may_have_sent = False
        self.sent_at: float | None = None
        self.reply: httpx.Response | None = None

    async def trace(self, event: str, information: dict[str, Any]) -> None:
        """Note an event of httpcore: it calls this before and after each of its steps."""
        if event.endswith(".send_request_headers.started") and information["request"].method != b"CONNECT":
            self.may_have_sent = True
            self.sent_at = time.monotonic()
        # The connection is not back in the pool yet.
        if event.endswith(".receive_response_body.complete") and self.reply and _has_more(self.reply):
            await self.reply.extensions["network_stream"].aclose()


class AsyncTransport:
    """
    One pooled client over httpx.

    Loading the certificate authorities takes tens of milliseconds, so an event loop constructs it in a thread.

    :param settings: time limits, proxies, headers and certificates.
    """

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._headers = settings.default_headers()
        self._client: httpx.AsyncClient | None = None
        self._pools: list[Any] = []
        # Raised when a request is sent: only then can the error name a request.
        self._unusable: TransportError | None = None
        self._untrustworthy: TransportError | None = None
        trust = settings.trust()
        try:
            context = trust_context(trust)
        except OSError:
            self._untrustworthy = untrustworthy(trust)
            context = True
        try:
            self._client = _client(settings, context)
            self._pools = _pools(self._client)
        except (ValueError, httpx.InvalidURL, ImportError):
            self._unusable = TransportError(Failure.CONFIGURATION, "a proxy's address cannot be used")

    async def send(self, request: Request) -> Response:
        """
        Send one request and read its reply whole.

        :param request: the request.
        :returns: the reply, whatever its status.
        :raises TransportError: if no whole reply was received.
        """
        client, built = self._prepare(request)
        progress = _Progress()
        built.extensions["trace"] = progress.trace
        try:
            with hiding_credentials(request), anyio.fail_after(self._settings.total_limit(request)):
                reply = progress.reply = await client.send(built, stream=True, auth=_no_auth)
                try:
                    return await _read(reply, self._settings.max_bytes(request), progress.sent_at)
                finally:
                    await reply.aclose()
        except asyncio.CancelledError:
            await release_places(self._pools, built.extensions)
            raise
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            failure = _failure_of(error, may_have_sent=progress.may_have_sent)
        await release_places(self._pools, built.extensions)
        # Outside the handler, so that the library's error is not kept: its text holds the address with its query.
        raise failure

    def _prepare(self, request: Request) -> tuple[httpx.AsyncClient, httpx.Request]:
        headers = merge_headers(self._headers, request.headers)
        check_headers(headers)
        check_address(request.base)
        if self._client is None or self._unusable:
            raise self._unusable or TransportError(Failure.CONFIGURATION, "the transport is closed")
        if self._untrustworthy and request.base.startswith("https:"):
            raise self._untrustworthy
        limit = self._settings.read_limit(request)
        timeout = httpx.Timeout(limit, connect=self._settings.connect_timeout)
        try:
            return self._client, self._client.build_request(
                request.method, request.url, headers=headers, content=request.body, timeout=timeout
            )
        except (ValueError, httpx.InvalidURL) as error:
            failure = TransportError(Failure.CONFIGURATION, type(error).__name__)
        raise failure

    async def aclose(self) -> None:
        """Close the client's connections."""
        if self._client:
            await self._client.aclose()


def _client(settings: TransportSettings, trust: bool | ssl.SSLContext) -> httpx.AsyncClient:  # noqa: FBT001
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_SECONDS)
    context = trust if isinstance(trust, ssl.SSLContext) else None
    mounts = {
        f"{scheme}://": httpx.AsyncHTTPTransport(
            proxy=httpx.Proxy(address, ssl_context=context if address.startswith("https:") else None),
            verify=trust,
            limits=limits,
        )
        for scheme, address in settings.proxies.items()
    }
    no_cookies = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=()))
    client = httpx.AsyncClient(
        verify=trust,
        mounts=mounts,
        follow_redirects=False,
        limits=limits,
        cookies=no_cookies,
        # The environment's exceptions from its proxies would override the proxies given here.
        trust_env=not mounts,
    )
    for pool in _pools(client):
        pool._network_backend = ClosingBackend()  # noqa: SLF001
    return client


def _pools(client: httpx.AsyncClient) -> list[Any]:
    """Return the pools of a client: one for each proxy, and one without; none where a version has moved them."""
    # httpx gives no way to them.
    transports = (client._transport, *client._mounts.values())  # noqa: SLF001
    return [pool for transport in transports if (pool := getattr(transport, "_pool", None)) is not None]


def _no_auth(request: httpx.Request) -> httpx.Request:
    # Without it httpx would read ``.netrc``, or the credentials of the address.
    return request


async def _read(reply: httpx.Response, max_bytes: int, sent_at: float | None) -> Response:
    check_final_status(reply.status_code)
    # h11 refuses a head of more than 100 kB only if it does not arrive at once.
    head_bytes = sum(len(name) + len(value) for name, value in reply.headers.raw)
    if len(reply.headers.raw) > MAX_HEADERS or head_bytes > MAX_HEAD_BYTES:
        raise TransportError(Failure.TOO_LARGE, HEAD_TOO_LARGE)
    body = BodyReader(reply.headers.get("content-encoding", ""), max_bytes)
    decoded = 0
    async for chunk in reply.aiter_raw():
        for size in body.feed(chunk):
            decoded += size
            if decoded >= _TURN_BYTES:
                decoded = 0
                await asyncio.sleep(0)
    headers = {name.lower(): value for name, value in reply.headers.items()}
    return Response(reply.status_code, headers, body.finish(), sent_at=sent_at)


def _has_more(reply: httpx.Response) -> bool:
    """Return whether bytes have arrived that are no part of a reply which was read to its end."""
    # Only h11 knows, and httpx gives no way to it.
    part: Any = reply.stream
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state"):
        part = getattr(part, name, None)
    return part is not None and bool(part.trailing_data[0])


def _failure_of(error: Exception, *, may_have_sent: bool) -> TransportError:
    """Return the failure that the types of an error and of its causes stand for."""
    causes = causes_of(error)
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return TransportError(Failure.CONFIGURATION, "the address cannot be used")
    if isinstance(error, httpx.ProxyError):
        # Raised for the proxy's reply to CONNECT, whose words begin with the status.
        return TransportError(Failure.NOT_SENT, f"the proxy refused the connection with {str(error)[:3]}")
    if not may_have_sent:
        return failure_before_sending(causes)
    if isinstance(error, httpx.TimeoutException):
        return failure_after_sending(causes, NO_REPLY)
    # Raised by anyio at the deadline of the whole exchange.
    return failure_after_sending(causes, STILL_COMING if isinstance(error, TimeoutError) else "")
