"""Iterate in a thread over what an event loop produces, for programs that are not asynchronous themselves."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from airflow_provider_mediaops.http.stop import Stop

T = TypeVar("T")

_END = object()
# The time for which tasks that were cancelled are waited for.
_GRACE_SECONDS = 10.0


def in_loop_thread(items: AsyncGenerator[T, None], stop: Stop, grace_seconds: float = _GRACE_SECONDS) -> Iterator[T]:
    """
    Iterate over an asynchronous generator, whose event loop has a thread of its own.

    Tasks that it starts keep running between two items. They are cancelled when the iterator ends or is closed, and the
    generator is closed. What does not end then within ``grace_seconds`` is left behind, and so are actions that block
    in threads of the loop's executor.

    :raises TaskStoppedError: if ``stop`` is requested.
    """
    loop = asyncio.new_event_loop()
    wanted: asyncio.Queue[Future[Any]] = asyncio.Queue()
    # It gets the context variables of this thread, for example those of its log lines.
    serving = loop.create_task(_serve(items, wanted))
    # A daemon: a loop that is blocked does not keep a process from its end.
    thread = threading.Thread(target=_run, args=(loop, serving, grace_seconds), name="mediaops-loop", daemon=True)
    thread.start()
    try:
        while True:
            item: Future[Any] = Future()
            with stop.interruptible():
                loop.call_soon_threadsafe(wanted.put_nowait, item)
                found = item.result()
            if found is _END:
                return
            yield found
    finally:
        # The loop is closed already if the generator has raised.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(serving.cancel)
        thread.join(2 * grace_seconds)


async def _serve(items: AsyncGenerator[Any, None], wanted: asyncio.Queue[Future[Any]]) -> None:
    async with aclosing(items):
        while True:
            item = await wanted.get()
            try:
                item.set_result(await anext(items, _END))
            except BaseException as error:  # noqa: BLE001 the thread that waits raises it
                item.set_exception(error)
                return


def _run(loop: asyncio.AbstractEventLoop, serving: asyncio.Task[None], grace_seconds: float) -> None:
    asyncio.set_event_loop(loop)
    try:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            ended, _ = loop.run_until_complete(asyncio.wait(left, timeout=grace_seconds))
            for task in ended:
                # Retrieved, so that asyncio does not report an exception that nobody waits for.
                _ = task.cancelled() or task.exception()
        asyncio.set_event_loop(None)
        # Closing it lets the executor's threads end by themselves.
        loop.close()
