"""
Carry out call flows.

In the thread of a worker: :func:`run` and :func:`stream`. On the event loop of a triggerer: :func:`arun` and
:func:`astream`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.http.exchange import (
    Beside,
    Blocking,
    Emit,
    Request,
    Returned,
    Wait,
    advance,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Response

T = TypeVar("T")

Sleep = Callable[[Wait], None]
AsyncSleep = Callable[[Wait], Awaitable[None]]
#: Runs a blocking action in a thread.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


def _sleep(wait: Wait) -> None:
    time.sleep(wait.seconds)


async def _asleep(wait: Wait) -> None:
    await asyncio.sleep(wait.seconds)


def run(flow: CallFlow[T], send: Callable[[Request], Response], sleep: Sleep = _sleep) -> T:
    """
    Carry out a call flow in this thread, drop the items that it emits, and return its result.

    A task that is stopped sends and waits no more: ``send`` and ``sleep`` raise ``TaskStoppedError``. But the
    call flow may still do blocking work, for example undo a record of what it was about to send.
    """
    items = stream(flow, send, sleep)
    while True:
        try:
            next(items)
        except StopIteration as stop:
            result: T = stop.value
            return result


def stream(flow: CallFlow[T], send: Callable[[Request], Response], sleep: Sleep = _sleep) -> Generator[object, None, T]:
    """
    Carry out a call flow in this thread, yield its items as they come, and return its result.

    Nothing is sent before the first item is asked for.
    """

    def outcome_of(step: Request | Wait | Blocking[Any] | Beside[Any]) -> Any:
        if isinstance(step, Request):
            return send(step)
        if isinstance(step, Beside):
            return _run_beside(step, send, sleep)
        return sleep(step) if isinstance(step, Wait) else step.action()

    try:
        step = advance(flow)
        while not isinstance(step, Returned):
            if isinstance(step, Emit):
                yield step.item
                step = advance(flow)
                continue
            try:
                reply = outcome_of(step)
            except (Exception, TaskStoppedError) as error:  # noqa: BLE001 the call flow ends by it, or handles it
                step = advance(flow, error=error)
            else:
                step = advance(flow, reply)
        return step.value
    finally:
        flow.close()


async def arun(
    flow: CallFlow[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep = _asleep,
    *,
    in_thread: InThread,
) -> T:
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
    flow: CallFlow[T],
    send: Callable[[Request], Awaitable[Response]],
    sleep: AsyncSleep = _asleep,
    *,
    in_thread: InThread,
) -> AsyncGenerator[object, None]:
    """
    Carry out a call flow on the event loop and yield its items, as :func:`stream` does in a thread.

    ``aclose`` closes the call flow at its current step.
    """

    async def outcome_of(step: Request | Wait | Blocking[Any] | Beside[Any]) -> Any:
        if isinstance(step, Request):
            return await send(step)
        if isinstance(step, Wait):
            return await sleep(step)
        if isinstance(step, Beside):
            return await _arun_beside(step, send, sleep, in_thread)
        return await (step.on_loop() if step.on_loop else in_thread(step.action))

    try:
        step = advance(flow)
        while not isinstance(step, Returned):
            if isinstance(step, Emit):
                yield step.item
                step = advance(flow)
                continue
            try:
                reply = await outcome_of(step)
            except (Exception, TaskStoppedError) as error:  # noqa: BLE001 the call flow ends by it, or handles it
                step = advance(flow, error=error)
            else:
                step = advance(flow, reply)
    finally:
        flow.close()


def _run_beside(step: Beside[T], send: Callable[[Request], Response], sleep: Sleep) -> tuple[T, Exception | None]:
    cut_off = threading.Event()
    errors: list[Exception] = []

    def check() -> None:
        if cut_off.is_set():
            raise TaskStoppedError

    def send_beside(request: Request) -> Response:
        check()
        return send(request)

    def sleep_beside(wait: Wait) -> None:
        cut_off.wait(wait.seconds)
        check()

    def carry_out() -> None:
        try:
            run(step.side, send_beside, sleep_beside)
        except TaskStoppedError:
            return
        except Exception as error:  # noqa: BLE001 it belongs to the call flow that this one is beside
            errors.append(error)

    # The new thread gets the context variables of this one, for example those of its log lines. It is a daemon, because
    # a process that ends does not wait for a reply that nobody reads.
    context = contextvars.copy_context()
    side = threading.Thread(target=context.run, args=(carry_out,), name="mediaops-beside", daemon=True)
    side.start()
    try:
        value = run(step.main, send, sleep)
        side.join(step.grace_seconds)
    finally:
        cut_off.set()
    return value, next(iter(errors), None)


async def _arun_beside(
    step: Beside[T], send: Callable[[Request], Awaitable[Response]], sleep: AsyncSleep, in_thread: InThread
) -> tuple[T, Exception | None]:
    side = asyncio.create_task(arun(step.side, send, sleep, in_thread=in_thread))
    try:
        value = await arun(step.main, send, sleep, in_thread=in_thread)
        await asyncio.wait([side], timeout=step.grace_seconds)
    finally:
        if not side.done():
            side.cancel()
            # That takes no more than some steps of the loop.
            await asyncio.wait([side], timeout=step.grace_seconds)
        # Retrieved also if nobody gets it: asyncio would report it.
        error = side.exception() if side.done() and not side.cancelled() else None
    return value, error if isinstance(error, Exception) else None
