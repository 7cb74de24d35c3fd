"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.http.exchange import Request
from airflow_provider_mediaops.http.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

REQUEST = Request("GET", "/thing")
mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")


@pytest.fixture(autouse=True)
def leaves_no_thread() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 240
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) - before == set()


async def counted(ended: list[str], most: int = 3) -> AsyncGenerator[int, None]:
    try:
        for number in range(most):
            await asyncio.sleep(0)
            yield number
    finally:
        ended.append("closed")


class TestRunning:
    def test_a_coroutine_gives_its_result(self) -> None:
        async def work() -> tuple[int, str]:
            await asyncio.sleep(0)
            return threading.get_ident(), mark.get()

        mark.set("of the caller")
        with LoopThread() as loop:
            thread, said = loop.run(work())

        assert thread != threading.get_ident()
        assert said == "of the caller"

    def test_its_error_reaches_the_caller(self) -> None:
        async def work() -> None:
            raise ValueError("no")

        with LoopThread() as loop, pytest.raises(ValueError, match="no"):
            loop.run(work())

    def test_what_it_has_started_goes_on_between_two_calls(self) -> None:
        done = threading.Event()

        async def work() -> None:
            await asyncio.sleep(0.01)
            done.set()

        async def start() -> asyncio.Task[None]:
            return asyncio.create_task(work())

        with LoopThread() as loop:
            task = loop.run(start())
            # No coroutine is waited for now.
            assert done.wait(240)
        assert task.done()

    def test_what_still_runs_at_the_end_is_cancelled(self) -> None:
        ended: list[str] = []

        async def endless() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append("cancelled")

        async def start() -> None:
            started.append(asyncio.create_task(endless()))
            await asyncio.sleep(0)

        started: list[asyncio.Task[None]] = []
        with LoopThread(grace_seconds=240) as loop:
            loop.run(start())

        assert ended == ["cancelled"]

    def test_a_caller_that_is_interrupted_waits_until_the_coroutine_was_cancelled(self) -> None:
        ended: list[str] = []

        async def endless() -> None:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.01)
                ended.append("cancelled")

        def interrupt(*_: object) -> None:
            raise TimeoutError("the task's time is up")

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with LoopThread(grace_seconds=240) as loop, pytest.raises(TimeoutError, match="the task's time is up"):
                loop.run(endless())
        finally:
            signal.signal(signal.SIGALRM, before)

        assert ended == ["cancelled"]

    @pytest.mark.parametrize("is_begun", [False, True])
    def test_so_does_one_that_is_interrupted_before_it_waits(
        self, monkeypatch: pytest.MonkeyPatch, *, is_begun: bool
    ) -> None:
        """A handler may run right before or after the loop is told of the coroutine."""
        ended: list[str] = []
        begun = threading.Event()
        tell = asyncio.BaseEventLoop.call_soon_threadsafe

        async def items() -> AsyncGenerator[int, None]:
            try:
                begun.set()
                await asyncio.sleep(3600)
                yield 1
            finally:
                ended.append("cancelled")

        def interrupted(loop: asyncio.BaseEventLoop, *arguments: Any) -> None:
            monkeypatch.undo()
            if is_begun:
                tell(loop, *arguments)
                assert begun.wait(240)
            raise TimeoutError("the task's time is up")

        with LoopThread(grace_seconds=240) as loop:
            monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", interrupted)
            with pytest.raises(TimeoutError, match="the task's time is up"):
                next(loop.stream(items()))
            assert ended == ["cancelled"] * is_begun

    def test_what_blocks_in_the_executor_is_not_waited_for(self) -> None:
        let_go = threading.Event()
        begun = threading.Event()

        def block() -> None:
            begun.set()
            let_go.wait(240)

        async def start() -> None:
            started.append(asyncio.ensure_future(asyncio.to_thread(block)))

        started: list[asyncio.Future[None]] = []
        try:
            with LoopThread() as loop:
                loop.run(start())
                assert begun.wait(240)
            assert not let_go.is_set()
            assert started[0].cancelled()
        finally:
            let_go.set()

    def test_a_task_that_does_not_end_is_left_behind(self) -> None:
        let_go = threading.Event()

        async def stubborn() -> None:
            while not let_go.is_set():
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)

        async def start() -> None:
            started.append(asyncio.ensure_future(stubborn()))
            await asyncio.sleep(0)

        started: list[asyncio.Future[None]] = []
        with LoopThread(grace_seconds=0.1) as loop:
            loop.run(start())
        assert not started[0].done()
        let_go.set()


class TestAfterTheEndOfTheBlock:
    def test_a_coroutine_is_refused_and_closed(self) -> None:
        with LoopThread() as loop:
            pass
        refused = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="block of the event loop has ended"):
            loop.run(refused)
        assert inspect.getcoroutinestate(refused) == inspect.CORO_CLOSED

    def test_a_stream_is_closed_without_an_error(self) -> None:
        ended: list[str] = []
        with LoopThread() as loop:
            items = loop.stream(counted(ended))
            assert next(items) == 0
        items.close()  # type: ignore[attr-defined]
        assert ended == ["closed"]

    def test_a_stream_has_no_further_items(self) -> None:
        with LoopThread() as loop:
            items = loop.stream(counted([]))
            assert next(items) == 0
        with pytest.raises(RuntimeError, match="block of the event loop has ended"):
            next(items)

    def test_a_coroutine_that_comes_while_it_ends_is_refused(self) -> None:
        ending, asked = threading.Event(), threading.Event()
        outcome: list[str] = []

        async def hold_up() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ending.set()
                asked.wait(240)

        async def start() -> None:
            started.append(asyncio.create_task(hold_up()))
            await asyncio.sleep(0)

        def ask() -> None:
            ending.wait(240)
            try:
                loop.run(asyncio.sleep(3600))
            except RuntimeError as error:
                outcome.append(str(error))
            finally:
                asked.set()

        started: list[asyncio.Task[None]] = []
        caller = threading.Thread(target=ask, daemon=True)
        caller.start()
        with LoopThread(grace_seconds=15) as loop:
            loop.run(start())
        caller.join(240)
        assert len(outcome) == 1
        assert "has ended" in outcome[0]

    def test_one_that_cannot_be_cancelled_keeps_no_caller_waiting(self) -> None:
        begun, let_go = threading.Event(), threading.Event()
        outcome: list[str] = []

        async def block() -> None:
            begun.set()
            let_go.wait(30)

        def ask() -> None:
            try:
                loop.run(block())
            except RuntimeError as error:
                outcome.append(str(error))

        caller = threading.Thread(target=ask, daemon=True)
        try:
            with LoopThread(grace_seconds=0.05) as loop:
                caller.start()
                assert begun.wait(240)
            caller.join(240)
            assert len(outcome) == 1
            assert "has ended" in outcome[0]
        finally:
            let_go.set()


class TestStreaming:
    def test_items_come_in_order(self) -> None:
        ended: list[str] = []
        with LoopThread() as loop:
            assert list(loop.stream(counted(ended))) == [0, 1, 2]

        assert ended == ["closed"]

    def test_a_stream_that_is_given_up_is_closed(self) -> None:
        ended: list[str] = []
        with LoopThread() as loop:
            items = loop.stream(counted(ended))
            assert next(items) == 0
            items.close()  # type: ignore[attr-defined]

            assert ended == ["closed"]

    def test_an_error_ends_it(self) -> None:
        async def broken() -> AsyncGenerator[int, None]:
            yield 1
            raise ValueError("no")

        with LoopThread() as loop:
            items = loop.stream(broken())
            assert next(items) == 1
            with pytest.raises(ValueError, match="no"):
                next(items)
