"""
Carry out call flows.

In the thread of a worker: :func:`run` and :func:`stream`. On the event loop of a triggerer: :func:`arun` and
:func:`astream`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import wait as wait_for
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.http.exchange import Beside, Emit, Request, Returned, Wait, advance
from airflow_provider_mediaops.http.request_threads import Job

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Response

T = TypeVar("T")

Send = Callable[["Request"], "Response"]
AsyncSend = Callable[["Request"], Awaitable["Response"]]
Sleep = Callable[[Wait], None]
AsyncSleep = Callable[[Wait], Awaitable[None]]
#: Runs a blocking action in a thread.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


def _sleep(wait: Wait) -> None:
    time.sleep(wait.seconds)


async def _asleep(wait: Wait) -> None:
    await asyncio.sleep(wait.seconds)


def run(flow: CallFlow[T], send: Send, sleep: Sleep = _sleep) -> T:
    """
    Carry out a call flow in this thread, drop the items that it emits, and return its result.

    A task that is stopped sends and waits no more: ``send`` and ``sleep`` raise ``TaskStoppedError``. But the
    call flow may still do blocking work, for example undo a record of what it was about to send.
    """
    items = stream(flow, send, sleep)
    while not isinstance(step := advance(items), Returned):
        pass
    return step.value


def stream(flow: CallFlow[T], send: Send, sleep: Sleep = _sleep) -> Generator[Any, Any, T]:
    """
    Carry out a call flow in this thread, yield its items as they come, and return its result.

    Nothing is sent before the first item is asked for.
    """
    reply: object = None
    error: BaseException | None = None
    with closing(flow):
        while not isinstance(step := advance(flow, reply, error), Returned):
            reply = error = None
            try:
                if isinstance(step, Emit):
                    yield step.item
                elif isinstance(step, Request):
                    reply = send(step)
                elif isinstance(step, Wait):
                    sleep(step)
                elif isinstance(step, Beside):
                    reply = _run_beside(step, send, sleep)
                else:
                    reply = step.action()
            except (Exception, TaskStoppedError) as raised:  # noqa: BLE001 the call flow ends by it, or handles it
                error = raised
        return step.value


async def arun(flow: CallFlow[T], send: AsyncSend, sleep: AsyncSleep = _asleep, *, in_thread: InThread) -> T:
    """
    Carry out a call flow on the event loop, as :func:`run` does in a thread.

    The caller chooses the threads in which ``in_thread`` runs a blocking action.
    """
    last: Any = None
    async for item in astream(_with_result_last(flow), send, sleep, in_thread=in_thread):
        last = item
    result: T = last
    return result


def _with_result_last(flow: CallFlow[T]) -> CallFlow[None]:
    yield Emit((yield from flow))


async def astream(
    flow: CallFlow[Any], send: AsyncSend, sleep: AsyncSleep = _asleep, *, in_thread: InThread
) -> AsyncGenerator[Any, None]:
    """
    Carry out a call flow on the event loop and yield its items, as :func:`stream` does in a thread.

    ``aclose`` closes the call flow at its current step.
    """
    reply: object = None
    error: BaseException | None = None
    with closing(flow):
        while not isinstance(step := advance(flow, reply, error), Returned):
            reply = error = None
            try:
                if isinstance(step, Emit):
                    yield step.item
                elif isinstance(step, Request):
                    reply = await send(step)
                elif isinstance(step, Wait):
                    await sleep(step)
                elif isinstance(step, Beside):
                    reply = await _arun_beside(step, send, sleep, in_thread)
                else:
                    reply = await (step.on_loop() if step.on_loop else in_thread(step.action))
            except (Exception, TaskStoppedError) as raised:  # noqa: BLE001 the call flow ends by it, or handles it
                error = raised


def _run_beside(step: Beside[T], send: Send, sleep: Sleep) -> tuple[T, Exception | None]:
    cut_off = threading.Event()

    def send_beside(request: Request) -> Response:
        if cut_off.is_set():
            raise TaskStoppedError
        return send(request)

    def sleep_beside(wait: Wait) -> None:
        if cut_off.wait(wait.seconds):
            raise TaskStoppedError

    side = Job(partial(run, step.side, send_beside, sleep_beside))
    # A daemon, because a process that ends does not wait for a reply that nobody reads.
    threading.Thread(target=side.run, name="mediaops-beside", daemon=True).start()
    try:
        value = run(step.main, send, sleep)
        wait_for([side.result], step.grace_seconds)
    finally:
        cut_off.set()
    error = side.result.exception() if side.result.done() else None
    return value, error if isinstance(error, Exception) else None


async def _arun_beside(
    step: Beside[T], send: AsyncSend, sleep: AsyncSleep, in_thread: InThread
) -> tuple[T, Exception | None]:
    side = asyncio.create_task(arun(step.side, send, sleep, in_thread=in_thread))
    try:
        value = await arun(step.main, send, sleep, in_thread=in_thread)
        await asyncio.wait([side], timeout=step.grace_seconds)
    finally:
        side.cancel()
        # That takes no more than some steps of the loop.
        await asyncio.wait([side], timeout=step.grace_seconds)
        # Retrieved also if nobody gets it: asyncio would report it.
        error = side.exception() if side.done() and not side.cancelled() else None
    return value, error if isinstance(error, Exception) else None
