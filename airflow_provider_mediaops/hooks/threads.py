"""Run blocking actions in threads, beside an event loop of Airflow's."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

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
    Run a blocking action in a thread; if this is cancelled, wait for its end, because a file may be half written.

    :param action: the action.
    :returns: its result.
    """
    doing = asyncio.ensure_future(in_thread(action))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        # An exception that nobody retrieves is logged by asyncio.
        doing.exception()
        raise


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
