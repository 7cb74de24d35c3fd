"""An asynchronous generator whose event loop has a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.hooks.loop_thread import in_loop_thread
from airflow_provider_mediaops.http.stop import Stop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

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


def begun(items: AsyncGenerator[Any, None], grace_seconds: float = 240.0) -> Any:
    """Return the iterator of a generator, after its first item."""
    iterator = in_loop_thread(items, Stop(), grace_seconds)
    next(iterator)
    return iterator


class TestItems:
    def test_items_come_in_order_and_the_generator_is_closed(self) -> None:
        ended: list[str] = []
        assert list(in_loop_thread(counted(ended), Stop())) == [0, 1, 2]
        assert ended == ["closed"]

    def test_items_come_from_another_thread_with_the_context_of_the_caller(self) -> None:
        async def items() -> AsyncGenerator[tuple[int, str], None]:
            yield threading.get_ident(), mark.get()

        mark.set("of the caller")
        [(thread, said)] = in_loop_thread(items(), Stop())
        assert thread != threading.get_ident()
        assert said == "of the caller"

    @pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError])
    def test_error_of_the_generator_reaches_the_caller_and_ends_the_iterator(self, kind: type[BaseException]) -> None:
        async def broken() -> AsyncGenerator[int, None]:
            yield 1
            raise kind("no")

        items = begun(broken())
        with pytest.raises(kind):
            next(items)
        assert list(items) == []

    def test_task_of_the_generator_goes_on_between_two_items(self) -> None:
        done = threading.Event()

        async def work() -> None:
            await asyncio.sleep(0.01)
            done.set()

        async def items() -> AsyncGenerator[asyncio.Task[None], None]:
            task = asyncio.create_task(work())
            yield task
            yield task

        iterator = begun(items())
        # No item is waited for now.
        assert done.wait(240)
        assert next(iterator).done()
        iterator.close()


class TestTheEnd:
    def test_iterator_given_up_closes_the_generator(self) -> None:
        ended: list[str] = []
        items = begun(counted(ended))
        items.close()
        assert ended == ["closed"]
        assert list(items) == []

    def test_task_still_running_is_cancelled(self) -> None:
        ended: list[str] = []

        async def endless() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append("cancelled")

        async def items() -> AsyncGenerator[Any, None]:
            task = asyncio.create_task(endless())
            await asyncio.sleep(0)
            yield task

        begun(items()).close()
        assert ended == ["cancelled"]

    def test_caller_interrupted_waits_until_the_generator_has_ended(self) -> None:
        ended: list[str] = []

        async def items() -> AsyncGenerator[int, None]:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                await asyncio.sleep(3600)
                yield 1
            finally:
                await asyncio.sleep(0.01)
                ended.append("cancelled")

        with pytest.raises(TimeoutError, match="the task's time is up"), interrupting():
            next(in_loop_thread(items(), Stop(), 240))
        assert ended == ["cancelled"]

    def test_loop_that_is_blocked_keeps_no_caller_waiting(self) -> None:
        blocks, let_go = threading.Event(), threading.Event()

        async def block() -> None:
            blocks.set()
            let_go.wait(240)

        async def items() -> AsyncGenerator[Any, None]:
            yield asyncio.create_task(block())

        iterator = begun(items(), grace_seconds=0.05)
        try:
            assert blocks.wait(240)
            iterator.close()
        finally:
            let_go.set()


class interrupting:  # noqa: N801 a context manager
    """Let the alarm raise a TimeoutError in the main thread."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._raise)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGALRM, self._before)

    @staticmethod
    def _raise(*_: object) -> None:
        raise TimeoutError("the task's time is up")
