"""Carry out a wait on the triggerer's event loop. No trigger is imported with it: a DAG file is parsed without it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow_provider_mediaops.hooks.threads import to_its_end
from airflow_provider_mediaops.http.drivers import arun
from airflow_provider_mediaops.http.exchange import awaiting

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.http.exchange import Conversation, Request
    from airflow_provider_mediaops.watch import Watch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HookReadings:
    """
    The readings of a wait that shares them with no other.

    :param hook: the hook that sends the requests.
    :param watch: the condition, which says how to make a reading.
    """

    hook: ServiceHook
    watch: Watch

    def next(self, pause: float, deadline: float) -> Conversation[Any]:
        """Wait, then make a reading; see :meth:`airflow_provider_mediaops.waiting.Readings.next`."""
        return awaiting(partial(self._anext, pause))

    async def _anext(self, pause: float) -> Any:
        if pause:
            await asyncio.sleep(pause)
        service = await self.hook.aservice()
        return await self.hook.arun(self.watch.look(service.ask))


async def carried_out(conversation: Conversation[T]) -> T:
    """
    Carry out a wait in the triggerer.

    :param conversation: a conversation that sends nothing itself: its readings are steps of their own.
    :returns: its result.
    """
    return await arun(conversation, _send_nothing, in_thread=to_its_end)


async def _send_nothing(request: Request) -> NoReturn:
    raise RuntimeError(f"{request.method} {request.path} is no step of a wait.")
