"""Carry out a wait on the triggerer's event loop. No trigger is imported with it: a DAG file is parsed without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from airflow_provider_mediaops.hooks.threads import to_its_end
from airflow_provider_mediaops.http.runner import arun

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Request

T = TypeVar("T")


async def carried_out(flow: CallFlow[T]) -> T:
    """
    Carry out a wait in the triggerer.

    :param flow: a call flow that sends nothing itself: its readings are steps of their own.
    :returns: its result.
    """
    return await arun(flow, _send_nothing, in_thread=to_its_end)


async def _send_nothing(request: Request) -> NoReturn:
    raise RuntimeError(f"{request.method} {request.path} is no step of a wait.")
