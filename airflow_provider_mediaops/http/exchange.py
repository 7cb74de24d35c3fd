"""
Calls and call flows as values.

A *call* is a request and a pure function that parses the reply. Several steps (a retry, a token refresh, paging) make
a *call flow*: a generator that yields requests and waits, is sent the responses, and returns its result. A
call flow does no I/O. So the same one runs in a worker and in a triggerer (see
:mod:`airflow_provider_mediaops.http.runner`), and in a test that feeds it a list of replies. Other blocking work, such
as writing a file, is yielded as a :class:`Blocking`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from airflow_provider_mediaops.exceptions import (
    ConnectionFailedError,
    InvalidConnectionError,
    InvalidReplyError,
    ReplyTimeoutError,
    TemporaryError,
)
from airflow_provider_mediaops.http import MAX_REPLY_BYTES

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
    from airflow_provider_mediaops.http.errors import ErrorRules

T = TypeVar("T")


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance as values: seconds that never run backwards, the date in UTC, a number between two bounds."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request."""

    method: str
    path: str  # below the base address; every segment already escaped (see :func:`escape_segment`)
    params: tuple[tuple[str, str], ...] = ()  # in order; values are escaped when the address is built
    # Beyond those that every request of the transport carries.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    base: str = ""  # scheme, host, optional port and path; the client fills it in
    idempotent: bool = True  # whether sending it twice is the same as sending it once
    kind: str = "other"  # in the names of metrics
    is_retried: bool = True  # whether a temporary failure is retried; False for a reply that is worth no wait
    read_timeout: float = 0.0  # seconds to wait for the reply; the connection's limit applies if that is longer
    # Of the reply, after decompression; None for the connection's limit of large replies.
    max_bytes: int | None = MAX_REPLY_BYTES
    max_seconds: float | None = None  # for the whole exchange, if its reply is worth no longer wait than this
    #: Parameters that carry a credential; kept apart so that they appear in no message.
    secret_params: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Every credential that the reply may echo; see :mod:`airflow_provider_mediaops.http.redaction`.
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def url(self) -> str:
        """The whole address, as it is sent; it may hold a credential, so it belongs in no message."""
        # A service's own token can be half of a surrogate pair, for example for the next page.
        # A signature of Amazon's is of %20, not of a plus sign.
        query = urlencode((*self.params, *self.secret_params), errors="surrogatepass", quote_via=quote)
        return f"{self.base}{self.path}?{query}" if query else f"{self.base}{self.path}"

    @property
    def host(self) -> str:
        """The host of the service, for messages."""
        return urlsplit(self.base).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP reply, read whole."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # by name in lower case
    body: bytes = field(default=b"", repr=False)  # decompressed
    #: The credentials that it may echo; a parser that quotes the reply redacts them.
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
    #: When its request was sent, over a connection that was made by then, in seconds of ``time.monotonic``; None if the
    #: transport does not know.
    sent_at: float | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The body as UTF-8; an invalid byte becomes a surrogate, so that encoding the text restores it."""
        return self.body.decode("utf-8", errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause in a call flow."""

    seconds: float
    reason: str = ""  # for the log; empty for no line
    is_retry: bool = False  # whether a request that failed is sent again after it


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """An item that a call flow yields to its caller before its end, for example a page."""

    item: T


@dataclass(frozen=True, slots=True)
class NotCarriedOut:
    """The item that a client emits after a write that the service has certainly not carried out, with its error."""

    error: MediaOpsError


@dataclass(frozen=True, slots=True)
class Blocking(Generic[T]):
    """
    Blocking work of the call flow itself, such as writing a file; its result is sent back into the call flow.

    An event loop runs it in a thread, or ``on_loop``, the same work as a coroutine, without one.
    """

    action: Callable[[], T]
    on_loop: Callable[[], Awaitable[T]] | None = None


@dataclass(frozen=True, slots=True)
class Beside(Generic[T]):
    """
    A call flow with another one beside it, which is carried out at the same time.

    The result is a pair: that of ``main``, and the exception that ended ``side``, or None. ``side`` is cut off by an
    exception of ``main``, or if it has not ended some seconds after ``main``. Items that they emit are dropped.
    """

    main: CallFlow[T]
    side: CallFlow[None]
    grace_seconds: float


def awaiting(on_loop: Callable[[], Awaitable[T]]) -> CallFlow[T]:
    """Return a call flow of a single step, an awaitable, that only an event loop carries out."""

    def in_worker() -> T:
        raise RuntimeError("This step runs on an event loop only.")

    result: T = yield Blocking(in_worker, on_loop)
    return result


@unique
class Failure(Enum):
    """
    Why no whole reply was received: the error that it is for the caller, and what to do.

    ``{address}`` stands for the field of the connection that holds the address.
    """

    # The connection or the environment cannot be used, so no request could be made.
    CONFIGURATION = (
        InvalidConnectionError,
        "Nothing was sent. Correct the connection, or the proxies and certificates that the environment names.",
    )
    # A proxy has refused the request, so that the service has not seen it.
    PROXY = (
        InvalidConnectionError,
        "Write them into its address, http://user:password@proxy:3128: in proxies of the connection, or in HTTP_PROXY.",
    )
    # No connection could be made.
    NOT_SENT = ConnectionFailedError, "Check {address} in the connection, and that the service is up."
    # None could be made to a proxy, or through it.
    NOT_SENT_BY_PROXY = (
        ConnectionFailedError,
        "Nothing was sent. Check the proxy's address, and that it is up and may reach {address} of the connection.",
    )
    # The handshake failed, for example because the port speaks no TLS.
    TLS = ConnectionFailedError, "Check {address} in the connection, and the scheme (http or https)."
    # The certificate was refused.
    UNTRUSTED = (
        InvalidConnectionError,
        "Nothing was sent. Check the host, ca_cert and verify in the connection, or REQUESTS_CA_BUNDLE.",
    )
    # From here on, the service may have acted on the request.
    # The connection broke, or the reply is not HTTP.
    BROKEN = (
        ConnectionFailedError,
        "The connection broke before the reply was whole; if it always does, check scheme (http or https) and port.",
    )
    # The reply did not arrive in time.
    TIMEOUT = ReplyTimeoutError, "Raise the read time limit in the connection if the service needs longer."
    # The reply is larger than the request allows, or its headers are too large.
    TOO_LARGE = InvalidReplyError, "Ask for less at a time."
    # The reply's compression is unknown, applied twice, or not what the header says.
    UNREADABLE = InvalidReplyError, "Check what stands between here and the service, for example a proxy."

    def __init__(self, error: type[MediaOpsError], advice: str) -> None:
        self.error = error
        self.advice = advice


_NEVER_SENT = frozenset(
    {
        Failure.CONFIGURATION,
        Failure.PROXY,
        Failure.NOT_SENT,
        Failure.NOT_SENT_BY_PROXY,
        Failure.TLS,
        Failure.UNTRUSTED,
    }
)


class TransportError(Exception):
    """
    Raised by a transport if no whole reply was received; the client turns it into a typed error.

    The detail is the cause in the words of the HTTP library, without addresses or secrets.
    """

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(failure, detail)
        self.failure = failure
        self.detail = detail

    @property
    def sent(self) -> bool:
        """Whether any part of the request may have reached the service."""
        return self.failure not in _NEVER_SENT


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and the parser of its reply, which raises ``InvalidReplyError`` for one not as documented."""

    request: Request
    parse: Callable[[Response], T]
    # The errors of an address that issues tokens; None for those of the service.
    rules: ErrorRules | None = field(default=None, kw_only=True)


Step = Request | Wait | Emit[object] | Blocking[Any] | Beside[Any]
#: A generator of steps that returns its result. It is sent the :class:`Response` to each request and the result of each
#: :class:`Blocking` and :class:`Beside`; after other steps it is sent None. The type cannot say so.
CallFlow = Generator[Step, Any, T]


class Ask(Protocol):
    """Makes a call flow of one call: a client, with its authentication and retries."""

    def __call__(self, call: Call[T], /) -> CallFlow[T]:
        """Return a call flow whose result is the call's."""
        ...


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """The end of a call flow, with its result."""

    value: T


def advance(flow: CallFlow[T], reply: object = None, error: BaseException | None = None) -> Step | Returned[T]:
    """
    Send the outcome of the last step into a call flow, and return its next step or its end.

    Every runner calls this, at first without an outcome.
    """
    try:
        return flow.throw(error) if error else flow.send(reply)
    except StopIteration as stop:
        return Returned(stop.value)


def observed(
    flow: CallFlow[T],
    on_step: Callable[[Step], CallFlow[Step]],
    inspect: Callable[[object], None] | None = None,
) -> CallFlow[T]:
    """
    Show each step of a call flow as it passes: to ``on_step`` before, to ``inspect`` with its reply or error.

    The result of ``on_step`` is the step to carry out, the same or another one in its place; it may take steps of its
    own before. An exception from either ends the call flow.
    """
    try:
        step = advance(flow)
        while not isinstance(step, Returned):
            passed = yield from on_step(step)
            try:
                reply = yield passed
            except Exception as error:  # noqa: BLE001 every error of a step belongs to the call flow
                if inspect:
                    inspect(error)
                step = advance(flow, error=error)
            else:
                if inspect:
                    inspect(reply)
                step = advance(flow, reply)
        return step.value
    finally:
        flow.close()


class NoTurnError(TemporaryError):
    """A reading would begin, or go on, only after its time limit: it has not failed."""


def until(deadline: float, flow: CallFlow[T], monotonic: Callable[[], float]) -> CallFlow[T]:
    """
    Keep a reading from waiting past the time limit of a wait, and from logging each retry.

    It ends with a NoTurnError before the first wait that would end after the deadline.
    """

    def on_step(step: Step) -> CallFlow[Step]:
        yield from ()
        if not isinstance(step, Wait):
            return step
        if step.seconds > deadline - monotonic():
            raise NoTurnError(
                f"The reading would have to wait for {step.seconds:.0f} s, which is beyond its time limit.",
                retry_after=step.seconds,
            )
        # The wait itself logs once that readings fail.
        return Wait(step.seconds) if step.is_retry else step

    return observed(flow, on_step)


def escape_segment(text: str) -> str:
    """Escape one path segment; commas stay, because services read lists from them."""
    return quote(text, safe=",", errors="surrogatepass")
