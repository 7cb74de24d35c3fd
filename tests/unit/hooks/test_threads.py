"""Threads from which Airflow can be asked, and a thread for the event loop of an asynchronous generator."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from airflow_provider_mediaops.hooks.threads import in_loop_thread, in_thread, to_its_end
from airflow_provider_mediaops.http.stop import Stop

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")


async def test_action_in_a_thread_asks_airflow_on_the_event_loop_that_began_it() -> None:
    """As a triggerer's channel does on Airflow 3.1."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def ask() -> asyncio.AbstractEventLoop:
        return async_to_sync(loop)()

    assert await in_thread(ask) is asyncio.get_running_loop()


async def test_action_that_is_cancelled_often_before_a_thread_is_free_is_done_once() -> None:
    may_begin, done = threading.Event(), []

    def write() -> str:
        done.append("written")
        return "result"

    async def wait() -> str:
        try:
            return await to_its_end(write)
        except asyncio.CancelledError as error:
            # Airflow reads it in the task itself; on Python 3.10 another task would not see it.
            done.append(str(error))
            raise

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    others = asyncio.ensure_future(in_thread(lambda: may_begin.wait(240)))
    await asyncio.sleep(0.01)
    running = asyncio.ensure_future(wait())
    await asyncio.sleep(0.01)
    for _ in range(3):
        running.cancel("by a user")
        await asyncio.sleep(0.01)
    assert not running.done()
    may_begin.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    await others
    assert done == ["written", "by a user"]


class TestLoopThread:
    @pytest.fixture(autouse=True)
    def _no_thread_left(self) -> Iterator[None]:
        """See that no thread outlives the test."""
        before = set(threading.enumerate())
        yield
        deadline = time.monotonic() + 240
        while set(threading.enumerate()) - before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert set(threading.enumerate()) - before == set()

    def test_items_come_from_another_thread_with_the_context_of_the_caller(self) -> None:
        async def items() -> AsyncGenerator[tuple[int, str], None]:
            yield threading.get_ident(), mark.get()

        mark.set("of the caller")
        [(thread, said)] = in_loop_thread(items(), Stop())
        assert thread != threading.get_ident()
        assert said == "of the caller"

    def test_task_of_the_generator_goes_on_between_two_items_and_is_cancelled_at_the_end(self) -> None:
        goes_on, ended = threading.Event(), []

        async def endless() -> None:
            try:
                await asyncio.sleep(0.01)
                goes_on.set()
                await asyncio.sleep(3600)
            finally:
                ended.append("cancelled")

        async def items() -> AsyncGenerator[Any, None]:
            yield asyncio.create_task(endless())

        iterator: Any = in_loop_thread(items(), Stop(), 240.0)
        next(iterator)
        # No item is waited for now.
        assert goes_on.wait(240)
        iterator.close()
        assert ended == ["cancelled"]

    def test_loop_that_is_blocked_keeps_no_caller_waiting(self) -> None:
        blocks, let_go = threading.Event(), threading.Event()

        async def block() -> None:
            await asyncio.sleep(0.01)
            blocks.set()
            let_go.wait(240)

        async def items() -> AsyncGenerator[Any, None]:
            yield asyncio.create_task(block())

        iterator: Any = in_loop_thread(items(), Stop(), 0.05)
        next(iterator)
        try:
            assert blocks.wait(240)
            iterator.close()
        finally:
            let_go.set()
