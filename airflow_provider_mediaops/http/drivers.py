"""
Carry out conversations.

In the thread of a worker: :func:`run` and :func:`stream`. On the event loop of a triggerer: :func:`arun` and
:func:`astream`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.http.exchange import (
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
    Wait: (TaskStoppedError,),
}


def _sleep(wait: Wait) -> None:
    time.sleep(wait.seconds)


async def _asleep(wait: Wait) -> None:
    await asyncio.sleep(wait.seconds)


def run(conversation: Conversation[T], send: Callable[[Request], Response], sleep: Sleep = _sleep) -> T:
    """
    Carry out a conversation in this thread.

    A task that is stopped sends and waits no more, but the conversation may still do blocking work, for example undo a
    record of what it was about to send.

    :param conversation: the conversation; items that it emits are dropped.
    :param send: sends one request; raises :class:`TransportError`, or ``TaskStoppedError`` if the task is to end.
    :param sleep: carries out a wait; raises ``TaskStoppedError`` likewise.
    :returns: the conversation's result.
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
    Carry out a conversation in this thread and yield its items as they come.

    :param conversation: the conversation; nothing is sent before the first item is asked for.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :returns: the items, lazily; then the conversation's result.
    """

    def outcome_of(step: Request | Wait | Blocking[Any]) -> Any:
        if isinstance(step, Request):
            return send(step)
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
    Carry out a conversation on the event loop; the asynchronous twin of :func:`run`.

    :param conversation: the conversation; items that it emits are dropped.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :param in_thread: runs a blocking action in a thread; the caller chooses the threads.
    :returns: the conversation's result.
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
    Carry out a conversation on the event loop and yield its items; the asynchronous twin of :func:`stream`.

    :param conversation: the conversation; nothing is sent before the first item is asked for.
    :param send: sends one request; raises :class:`TransportError`.
    :param sleep: carries out a wait.
    :param in_thread: runs a blocking action in a thread, as for :func:`arun`.
    :returns: the items, lazily; ``aclose`` closes the conversation at its current step.
    """
    return _drive(conversation, send, sleep, in_thread, lambda _: None)


async def _drive(
    conversation: Conversation[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep,
    in_thread: InThread,
    finished: Callable[[T], None],
) -> AsyncGenerator[object, None]:
    async def outcome_of(step: Request | Wait | Blocking[Any]) -> Any:
        if isinstance(step, Request):
            return await send(step)
        if isinstance(step, Wait):
            return await sleep(step)
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
