"""
Carry out conversations.

In the thread of a worker: :func:`run` and :func:`stream`. On the event loop of a triggerer: :func:`arun` and
:func:`astream`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.http.exchange import (
    Beside,
    Blocking,
    Emit,
    Request,
    Returned,
    TransportError,
    Wait,
    advance,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from airflow_provider_mediaops.http.exchange import Conversation, Response

T = TypeVar("T")

Sleep = Callable[[Wait], None]
AsyncSleep = Callable[[Wait], Awaitable[None]]
#: Runs a blocking action in a thread.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

# The errors of a step that the conversation handles; every other one ends it.
_HANDLED: dict[type, tuple[type[BaseException], ...]] = {
    Request: (TransportError, TaskStoppedError),
    Blocking: (Exception,),
    Beside: (Exception, TaskStoppedError),
    Wait: (TaskStoppedError,),
}


def _sleep(wait: Wait) -> None:
    time.sleep(wait.seconds)


async def _asleep(wait: Wait) -> None:
    await asyncio.sleep(wait.seconds)


def run(conversation: Conversation[T], send: Callable[[Request], Response], sleep: Sleep = _sleep) -> T:
    """
    Carry out a conversation in this thread, drop the items that it emits, and return its result.

    A task that is stopped sends and waits no more: ``send`` and ``sleep`` raise ``TaskStoppedError``. But the
    conversation may still do blocking work, for example undo a record of what it was about to send.
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
    Carry out a conversation in this thread, yield its items as they come, and return its result.

    Nothing is sent before the first item is asked for.
    """

    def outcome_of(step: Request | Wait | Blocking[Any] | Beside[Any]) -> Any:
        if isinstance(step, Request):
            return send(step)
        if isinstance(step, Beside):
            return _run_beside(step, send, sleep)
        return sleep(step) if isinstance(step, Wait) else _act(step.action)

    try:
        step = advance(conversation)
        while not isinstance(step, Returned):
            if isinstance(step, Emit):
                yield step.item
                step = advance(conversation)
                continue
            try:
                reply = outcome_of(step)
            except _HANDLED[type(step)] as error:
                step = advance(conversation, error=error)
            else:
                step = advance(conversation, reply)
        return step.value
    finally:
        conversation.close()


async def arun(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep = _asleep,
    *,
    in_thread: InThread,
) -> T:
    """
    Carry out a conversation on the event loop, as :func:`run` does in a thread.

    The caller chooses the threads in which ``in_thread`` runs a blocking action.
    """
    result: list[T] = []
    async for _ in _drive(conversation, send, sleep, in_thread, result.append):
        pass
    return result[0]


def astream(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep = _asleep,
    *,
    in_thread: InThread,
) -> AsyncGenerator[object, None]:
    """
    Carry out a conversation on the event loop and yield its items, as :func:`stream` does in a thread.

    ``aclose`` closes the conversation at its current step.
    """
    return _drive(conversation, send, sleep, in_thread, lambda _: None)


async def _drive(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep,
    in_thread: InThread,
    finished: Callable[[T], None],
) -> AsyncGenerator[object, None]:
    async def outcome_of(step: Request | Wait | Blocking[Any] | Beside[Any]) -> Any:
        if isinstance(step, Request):
            return await send(step)
        if isinstance(step, Wait):
            return await sleep(step)
        if isinstance(step, Beside):
            return await _arun_beside(step, send, sleep, in_thread)
        return await (step.on_loop() if step.on_loop else in_thread(partial(_act, step.action)))

    try:
        step = advance(conversation)
        while not isinstance(step, Returned):
            if isinstance(step, Emit):
                yield step.item
                step = advance(conversation)
                continue
            try:
                reply = await outcome_of(step)
            except _HANDLED[type(step)] as error:
                step = advance(conversation, error=error)
            else:
                step = advance(conversation, reply)
        finished(step.value)
    finally:
        conversation.close()


def _act(action: Callable[[], T]) -> T:
    try:
        return action()
    except StopIteration as stop:
        # A future cannot hold a StopIteration, and a conversation that is thrown one would seem to end. So it becomes a
        # RuntimeError, as Python does with one that leaves a generator or a coroutine.
        raise RuntimeError(f"A blocking step raised StopIteration({stop.value!r}).") from stop


class _SideThread:
    """Carries out the side of a :class:`Beside` in a thread."""

    def __init__(self, side: Conversation[None], send: Callable[[Request], Response]) -> None:
        self._side = side
        self._send = send
        self._cut_off = threading.Event()
        self._error: Exception | None = None
        # The new thread gets the context variables of this one, for example those of its log lines. It is a daemon,
        # because a process that ends does not wait for a reply that nobody reads.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="mediaops-beside", daemon=True)
        self._thread.start()

    def end(self, grace_seconds: float) -> Exception | None:
        """Wait for the end, cut the conversation off if it does not come, and return the exception that ended it."""
        self._thread.join(grace_seconds)
        self._cut_off.set()
        return self._error

    def _work(self) -> None:
        try:
            run(self._side, self._send_unless_cut_off, self._sleep)
        except TaskStoppedError:
            return
        except Exception as error:  # noqa: BLE001 it belongs to the conversation that this one is beside
            self._error = error

    def _send_unless_cut_off(self, request: Request) -> Response:
        self._check()
        response = self._send(request)
        # The reply to a request that was under way is read by nobody.
        self._check()
        return response

    def _sleep(self, wait: Wait) -> None:
        self._cut_off.wait(wait.seconds)
        self._check()

    def _check(self) -> None:
        if self._cut_off.is_set():
            raise TaskStoppedError


def _run_beside(step: Beside[T], send: Callable[[Request], Response], sleep: Sleep) -> tuple[T, Exception | None]:
    side = _SideThread(step.side, send)
    grace_seconds = 0.0
    try:
        value = run(step.main, send, sleep)
        grace_seconds = step.grace_seconds
    finally:
        error = side.end(grace_seconds)
    return value, error


# Sides that were cancelled and have not ended yet; an event loop keeps no reference to its tasks.
_ENDING: set[asyncio.Task[None]] = set()


async def _arun_beside(
    step: Beside[T], send: Callable[[Request], Awaitable[Response]], sleep: AsyncSleep, in_thread: InThread
) -> tuple[T, Exception | None]:
    side = asyncio.get_running_loop().create_task(arun(step.side, send, sleep, in_thread=in_thread))
    _ENDING.add(side)
    side.add_done_callback(_forget)
    try:
        value = await arun(step.main, send, sleep, in_thread=in_thread)
        await asyncio.wait([side], timeout=step.grace_seconds)
    finally:
        if not side.done():
            side.cancel()
            # Its connection is closed in the meantime, which takes no more than some steps of the loop.
            await asyncio.wait([side], timeout=step.grace_seconds)
    return value, _error_of(side)


def _error_of(ended: asyncio.Task[None]) -> Exception | None:
    error = ended.exception() if ended.done() and not ended.cancelled() else None
    return error if isinstance(error, Exception) else None


def _forget(ended: asyncio.Task[None]) -> None:
    _ENDING.discard(ended)
    # Retrieved, so that asyncio does not report an exception that nobody waits for.
    _error_of(ended)
