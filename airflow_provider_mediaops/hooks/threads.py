"""Blocking actions in threads beside an event loop of Airflow's, and an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.stop import Stop

T = TypeVar("T")

_END = object()
# The time for which tasks that were cancelled are waited for.
_GRACE_SECONDS = 10.0


async def in_thread(action: Callable[[], T]) -> T:
    """
    Run a blocking action in a thread, from which Airflow can be asked, for example for an object store's connection.

    :func:`asyncio.to_thread` does not serve: on Airflow 3.1 a triggerer that is asked from such a thread reads its
    supervisor's answers out of order, and dies of it.
    """
    # Airflow's own dependency, by which its channel finds the event loop. A triggerer has imported it.
    from asgiref.sync import sync_to_async

    result: T = await sync_to_async(action, thread_sensitive=False)()
    return result


async def to_its_end(action: Callable[[], T]) -> T:
    """
    Run a blocking action in a thread to its end, also if this is cancelled: a file may be half written.

    It may be cancelled often: Airflow cancels a trigger each second until it has ended, and an event loop that shuts
    down cancels what waits for the thread, too. The first CancelledError is raised once the action has ended.
    """
    from airflow_provider_mediaops.http.request_threads import Job

    job = Job(action)
    starting = asyncio.ensure_future(in_thread(job.run))
    # No thread has begun it if that was cancelled before one was free.
    starting.add_done_callback(lambda _: job.result.cancel())
    ended: asyncio.Future[T] = asyncio.wrap_future(job.result)
    interruption: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            interruption = interruption or error
    if interruption:
        # Retrieved, so that asyncio does not report an exception that nobody waits for.
        _ = ended.cancelled() or ended.exception()
        raise interruption
    if ended.cancelled():
        await starting
    return ended.result()


async def import_in_thread(*names: str) -> None:
    """
    Import modules, and packages with all of their modules, in a thread: the first import takes up to 200 milliseconds.

    From then on, an ``import`` of them on the event loop takes no time.
    """

    def load() -> None:
        for name in names:
            module = import_module(name)
            for each in walk_packages(getattr(module, "__path__", []), f"{name}."):
                import_module(each.name)

    await asyncio.get_running_loop().run_in_executor(None, load)


def in_loop_thread(items: AsyncGenerator[T, None], stop: Stop, grace_seconds: float = _GRACE_SECONDS) -> Iterator[T]:
    """
    Iterate over an asynchronous generator, whose event loop has a thread of its own.

    Tasks that it starts keep running between two items. They are cancelled when the iterator ends or is closed, and the
    generator is closed. What does not end then within ``grace_seconds`` is left behind, and so are actions that block
    in threads of the loop's executor. A stop that is requested raises TaskStoppedError.
    """
    loop = asyncio.new_event_loop()
    # A daemon: a loop that is blocked does not keep a process from its end.
    thread = threading.Thread(target=_run, args=(loop,), name="mediaops-loop", daemon=True)
    thread.start()
    try:
        while True:
            with stop.interruptible():
                found = asyncio.run_coroutine_threadsafe(_next(items), loop).result()
            if found is _END:
                return
            yield found
    finally:
        asyncio.run_coroutine_threadsafe(_end(items, grace_seconds), loop)
        thread.join(2 * grace_seconds)


async def _next(items: AsyncGenerator[Any, None]) -> Any:
    return await anext(items, _END)


async def _end(items: AsyncGenerator[Any, None], grace_seconds: float) -> None:
    """Cancel all that is under way on this loop, close the generator, and stop the loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    try:
        if left:
            await asyncio.wait(left, timeout=grace_seconds)
        await items.aclose()
    finally:
        asyncio.get_running_loop().stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    # The executor's threads end by themselves then.
    loop.close()
