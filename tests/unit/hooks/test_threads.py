"""Threads from which Airflow can be asked."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync

from airflow_provider_mediaops.hooks.threads import in_thread


async def test_the_event_loop_goes_on() -> None:
    done = threading.Event()

    def wait() -> str:
        return f"done: {done.wait(240)}"

    waiting = asyncio.ensure_future(in_thread(wait))
    await asyncio.sleep(0)
    done.set()
    assert await waiting == "done: True"


async def test_what_asks_airflow_in_it_asks_on_the_event_loop_that_began_it() -> None:
    """As a triggerer's channel does on Airflow 3.1."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def ask() -> asyncio.AbstractEventLoop:
        return async_to_sync(loop)()

    assert await in_thread(ask) is asyncio.get_running_loop()


async def test_what_is_raised_in_it_is_raised() -> None:
    def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        await in_thread(fail)
