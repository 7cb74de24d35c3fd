"""Threads for what blocks, beside an event loop of Airflow's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(action: Callable[[], T]) -> T:
    """
    Do what blocks in a thread of its own, from which Airflow can be asked, say for the connection of an object store.

    Not by :func:`asyncio.to_thread`: on Airflow 3.1 a triggerer that is asked from such a thread reads its supervisor's
    answers out of order, and dies of it.

    :param action: does it.
    :returns: what it returns; what it raises is raised.
    """
    # Airflow's own dependency, which its channel finds the event loop by.
    from asgiref.sync import sync_to_async

    result: T = await sync_to_async(action, thread_sensitive=False)()
    return result
