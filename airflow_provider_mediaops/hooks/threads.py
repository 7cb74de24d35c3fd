"""Run blocking actions in threads, beside an event loop of Airflow's."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

# The modules whose import has ended. sys.modules also holds those that a thread is still importing: the event loop
# would stand still until that thread is done.
_imported: set[str] = set()


async def in_thread(action: Callable[[], T]) -> T:
    """
    Run a blocking action in a thread, from which Airflow can be asked, for example for an object store's connection.

    :func:`asyncio.to_thread` does not serve: on Airflow 3.1 a triggerer that is asked from such a thread reads its
    supervisor's answers out of order, and dies of it.

    :param action: the action.
    :returns: its result; its exception is raised.
    """
    # Airflow's own dependency, by which its channel finds the event loop.
    await import_in_thread("asgiref.sync")
    from asgiref.sync import sync_to_async

    result: T = await sync_to_async(action, thread_sensitive=False)()
    return result


async def to_its_end(action: Callable[[], T]) -> T:
    """
    Run a blocking action in a thread, once and to its end, also if this is cancelled: a file may be half written.

    It may be cancelled often: Airflow cancels a trigger each second until it has ended. An event loop that shuts down
    cancels all tasks, those that wait for a thread included, so the thread itself says when the action has ended.

    :param action: the action.
    :returns: its result.
    :raises asyncio.CancelledError: the first one, once the action has ended.
    """
    once = _Once(action, asyncio.get_running_loop())
    starting = asyncio.ensure_future(in_thread(once.run))
    interruption: asyncio.CancelledError | None = None
    try:
        while not (starting.done() and once.ended.done()):
            if starting.done() and not once.has_begun:
                # The event loop has cancelled it before a thread was free.
                starting = asyncio.ensure_future(in_thread(once.run))
            try:
                await asyncio.shield(once.ended if starting.done() else starting)
            except asyncio.CancelledError as error:
                interruption = interruption or error
        if interruption:
            raise interruption
        return once.result()
    finally:
        # The traceback of an error has this frame; a frame that has it too would keep all that its callers hold.
        del once, starting, interruption


class _Once(Generic[T]):
    """
    An action that is done once, whatever number of threads begins it.

    :param action: the action.
    :param loop: the event loop that waits for its end.
    """

    def __init__(self, action: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.has_begun = False
        # Without the outcome: an error that nobody retrieves would be logged by asyncio.
        self.ended: asyncio.Future[None] = loop.create_future()
        self._action = action
        self._loop = loop
        self._lock = threading.Lock()
        self._outcome: Future[T] = Future()

    def run(self) -> None:
        """Do the action, if no other thread has begun it."""
        with self._lock:
            if self.has_begun:
                return
            self.has_begun = True
        try:
            self._outcome.set_result(self._action())
        except BaseException as error:  # noqa: BLE001 the waiting task raises it
            self._outcome.set_exception(error)
        self._loop.call_soon_threadsafe(self.ended.set_result, None)

    def result(self) -> T:
        """Return the result of the action that has ended, or raise its error. Neither is kept."""
        # The frames of an error's traceback lead to this object: it would be kept in a cycle.
        outcome, self._outcome = self._outcome, Future()
        try:
            return outcome.result()
        finally:
            del outcome


async def import_in_thread(*modules: str) -> None:
    """
    Import modules in a thread: the first import of a service's modules takes up to 200 milliseconds.

    From then on, an ``import`` of them on the event loop takes no time.

    :param modules: the modules' full names.
    """
    missing = set(modules) - _imported
    if missing:
        await asyncio.get_running_loop().run_in_executor(None, partial(_import, sorted(missing)))


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(module)
        _imported.add(module)
