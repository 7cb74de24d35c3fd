"""
Calls and conversations: what is asked of a service, as values, and the drivers that carry it out.

A *call* is a value: a request and a pure function that reads its reply. What takes several steps (a retry, a token
refresh, paging) is a *conversation*: a generator that yields requests and waits, is sent the responses, and returns
its result. A conversation does no I/O, so one of them serves a worker (:func:`run`, :func:`stream`), a triggerer
(:func:`arun`, :func:`astream`), and a test that feeds it a list of replies. What it needs done beside the service, such
as a file written, it yields as a :class:`Blocking`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

T = TypeVar("T")

#: The default limit of a reply's size, in bytes after decompression.
MAX_REPLY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """
    One HTTP request.

    :param method: the HTTP method.
    :param path: the path below the base address; every segment already escaped (see :func:`escape_segment`).
    :param params: the query, in order; values are escaped when the address is built.
    :param headers: headers beyond those that every request of the transport carries.
    :param body: the body, in bytes.
    :param base: the base address: scheme, host, optional port and path. The client fills it in.
    :param idempotent: whether sending it twice is the same as sending it once.
    :param read_timeout: the seconds to wait for the reply; the connection's limit applies if it is longer.
    :param max_bytes: the limit of the reply's size, in bytes after decompression.
    :param large_reply: whether the connection's limit for large replies applies instead of ``max_bytes``.
    """

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    base: str = ""
    idempotent: bool = True
    read_timeout: float = 0.0
    max_bytes: int = MAX_REPLY_BYTES
    large_reply: bool = False
    #: Parameters that carry a credential; kept apart so that they appear in no message.
    secret_params: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def url(self) -> str:
        """The whole address, as it is sent; it may hold a credential, so it belongs in no message."""
        query = urlencode((*self.params, *self.secret_params))
        return f"{self.base}{self.path}?{query}" if query else f"{self.base}{self.path}"

    @property
    def host(self) -> str:
        """The host that is asked, for messages."""
        return urlsplit(self.base).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Response:
    """
    One HTTP reply, read whole.

    :param status: the HTTP status.
    :param headers: the headers, by name in lower case.
    :param body: the body, decompressed.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as UTF-8; a byte that is none becomes a surrogate, so that encoding it gives the byte back."""
        return self.body.decode("utf-8", errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Wait:
    """
    A pause in a conversation.

    :param seconds: how long.
    :param reason: why, for the log.
    """

    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """An item that a conversation hands out before its end, for example a page."""

    item: T


@dataclass(frozen=True, slots=True)
class Blocking(Generic[T]):
    """
    Something that a conversation needs done beside the service, such as a file written; it is sent what comes of it.

    :param action: does it; it may block, so the event loop gives it a thread of its own.
    :param on_loop: does it on an event loop instead, where that needs no thread.
    """

    action: Callable[[], T]
    on_loop: Callable[[], Awaitable[T]] | None = None


class Failure(Enum):
    """Why no whole reply was received."""

    CONFIGURATION = "configuration"
    """The connection or the environment cannot be used, so no request could be made: nothing was sent."""
    NOT_SENT = "not_sent"
    """No connection could be made: nothing of the request was sent."""
    TLS = "tls"
    """The TLS handshake failed, for example because the port speaks no TLS: nothing of the request was sent."""
    UNTRUSTED = "untrusted"
    """The certificate was refused: nothing of the request was sent."""
    BROKEN = "broken"
    """The connection broke, or the reply is not HTTP: the service may have acted on the request."""
    TIMEOUT = "timeout"
    """The reply did not arrive in time: the service may have acted on the request."""
    TOO_LARGE = "too_large"
    """The reply is larger than the request allows, or its headers are too large."""
    UNREADABLE = "unreadable"
    """The reply's compression is unknown, applied twice, or not what the header says."""


_NEVER_SENT = frozenset({Failure.CONFIGURATION, Failure.NOT_SENT, Failure.TLS, Failure.UNTRUSTED})


class TransportError(Exception):
    """
    Raised by a transport if no whole reply was received; the client turns it into a typed error.

    :param failure: the kind of failure.
    :param detail: the cause in the words of the HTTP library, without addresses or secrets.
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
    """
    One request and how to read its reply.

    :param request: what is sent.
    :param parse: makes the result of a reply that is no refusal; raises ``InvalidReplyError`` where it cannot.
    """

    request: Request
    parse: Callable[[Response], T]


Step = Request | Wait | Emit[object] | Blocking[Any]
#: A generator of steps, which returns its result. It is sent the :class:`Response` to each request, what came of each
#: :class:`Blocking`, and nothing to the rest, which the type cannot say.
Conversation = Generator[Step, Any, T]
Sleep = Callable[["Wait"], None]
AsyncSleep = Callable[["Wait"], Awaitable[None]]
#: Does something that blocks in a thread of its own.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


def _sleep(wait: Wait) -> None:
    time.sleep(wait.seconds)


async def _asleep(wait: Wait) -> None:
    await asyncio.sleep(wait.seconds)


class Ask(Protocol):
    """What makes a conversation of one call: a client with its retries or, in tests, :func:`ask_once`."""

    def __call__(self, call: Call[T], /) -> Conversation[T]:
        """Converse until the call has its result."""
        ...


def ask_once(call: Call[T]) -> Conversation[T]:
    """Send the request once and read the reply, with no authentication, check or retry."""
    response: Response = yield call.request
    return call.parse(response)


def observed(conversation: Conversation[T], see: Callable[[Step], None]) -> Conversation[T]:
    """
    Show each step of a conversation as it passes.

    :param conversation: what is passed on as it is.
    :param see: is shown each step before it is carried out; what it raises ends the conversation.
    :returns: the same conversation.
    """
    try:
        step = next(conversation)
        while True:
            see(step)
            try:
                reply = yield step
            except Exception as error:  # noqa: BLE001 what a step ended with is the conversation's
                step = conversation.throw(error)
            else:
                step = conversation.send(reply)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        conversation.close()


def run(conversation: Conversation[T], send: Callable[[Request], Response], sleep: Sleep = _sleep) -> T:
    """
    Carry out a conversation in this thread.

    :param conversation: what to carry out; items that it emits are dropped.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :returns: what the conversation returns.
    """
    items = stream(conversation, send, sleep)
    while True:
        try:
            next(items)
        except StopIteration as stop:
            result: T = stop.value
            return result


def stream(
    conversation: Conversation[T], send: Callable[[Request], Response], sleep: Sleep = _sleep
) -> Generator[object, None, T]:
    """
    Carry out a conversation in this thread and hand out its items as they come.

    :param conversation: what to carry out; nothing is sent before the first item is asked for.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :returns: the items, lazily; then what the conversation returns.
    """
    try:
        step = next(conversation)
        while True:
            if isinstance(step, Request):
                try:
                    response = send(step)
                except TransportError as error:
                    step = conversation.throw(error)
                else:
                    step = conversation.send(response)
            elif isinstance(step, Wait):
                sleep(step)
                step = next(conversation)
            elif isinstance(step, Blocking):
                try:
                    done = step.action()
                except Exception as error:  # noqa: BLE001 as above: it is the conversation's
                    step = conversation.throw(error)
                else:
                    step = conversation.send(done)
            else:
                yield step.item
                step = next(conversation)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        conversation.close()


async def arun(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep = _asleep,
    in_thread: InThread = asyncio.to_thread,
) -> T:
    """
    Carry out a conversation on the event loop; the asynchronous twin of :func:`run`.

    :param conversation: what to carry out; items that it emits are dropped.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :param in_thread: does what blocks.
    :returns: what the conversation returns.
    """
    result: list[T] = []
    async for _ in _drive(conversation, send, sleep, in_thread, result.append):
        pass
    return result[0]


def astream(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep = _asleep,
    in_thread: InThread = asyncio.to_thread,
) -> AsyncGenerator[object, None]:
    """
    Carry out a conversation on the event loop and hand out its items; the asynchronous twin of :func:`stream`.

    :param conversation: what to carry out; nothing is sent before the first item is asked for.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :param in_thread: does what blocks.
    :returns: the items, lazily; ``aclose`` ends the conversation where it is.
    """
    return _drive(conversation, send, sleep, in_thread, lambda _: None)


async def _drive(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep,
    in_thread: InThread,
    finished: Callable[[T], None],
) -> AsyncGenerator[object, None]:
    try:
        step = next(conversation)
        while True:
            if isinstance(step, Request):
                try:
                    response = await send(step)
                except TransportError as error:
                    step = conversation.throw(error)
                else:
                    step = conversation.send(response)
            elif isinstance(step, Wait):
                await sleep(step)
                step = next(conversation)
            elif isinstance(step, Blocking):
                try:
                    done = await (step.on_loop() if step.on_loop else in_thread(step.action))
                except Exception as error:  # noqa: BLE001 as above: it is the conversation's
                    step = conversation.throw(error)
                else:
                    step = conversation.send(done)
            else:
                yield step.item
                step = next(conversation)
    except StopIteration as stop:
        finished(stop.value)
    finally:
        conversation.close()


def escape_segment(text: str) -> str:
    """Escape one path segment; commas stay, because services read lists from them."""
    return quote(text, safe=",")
