"""Run an event loop in a thread, for programs that are not asynchronous themselves."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.http.stop import Stop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
    from types import TracebackType

    from typing_extensions import Self


T = TypeVar("T")

_END = object()
# The time that the end of a block waits for cancelled coroutines, and again for asynchronous generators.
_GRACE_SECONDS = 10.0


class _EndedError(RuntimeError):
    """The block of a :class:`LoopThread` ended before the coroutine did."""

    def __init__(self) -> None:
        super().__init__("The block of the event loop has ended, and with it the coroutine: run it within the block.")


class LoopThread:
    """
    Runs coroutines for a thread that waits for them. Tasks that they start keep running between two coroutines.

    A context manager: when its block ends, the tasks are cancelled and the thread ends. Actions that block in threads
    of the loop's executor are not waited for, nor, for longer than some seconds, tasks that do not end.

    :param grace_seconds: the time to wait for cancelled tasks.
    :param stop: whether the task of the waiting thread is to end; then its wait for the next item does.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS, stop: Stop | None = None) -> None:
        self._stop = stop or Stop()
        self._loop = asyncio.new_event_loop()
        self._grace_seconds = grace_seconds
        self._lock = threading.Lock()
        self._has_ended = False
        # Set when a caller of run() need not wait any longer.
        self._waiting: set[threading.Event] = set()
        # The new thread gets the context variables of this one, for example those of its log lines.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="mediaops-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            # The loop starts coroutines in the order in which they came: none comes after this.
            self._has_ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        try:
            # Twice: for tasks and for generators. A loop that is blocked is left behind; its thread is a daemon.
            self._thread.join(2 * self._grace_seconds + 1.0)
        finally:
            for ended in tuple(self._waiting):
                ended.set()

    def run(self, coroutine: Coroutine[Any, Any, T], wait: Callable[[threading.Event], object] | None = None) -> T:
        """
        Run a coroutine to its end; ``wait`` waits for the event that it has ended.

        If a signal handler raises in the waiting thread, the coroutine is cancelled first, and waited for a while.

        :raises RuntimeError: if the block has ended, or ends and the coroutine does not.
        """
        ended = threading.Event()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(coroutine)
            task.add_done_callback(lambda _: ended.set())
            tasks.append(task)

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:
                # The handler came before the loop was told of it. The loop keeps the order, so it will not be.
                coroutine.close()
                ended.set()

        try:
            self._schedule(start, ended)
            (wait or threading.Event.wait)(ended)
        except _EndedError:
            coroutine.close()
            raise
        except BaseException:
            # A signal handler has raised it in this thread. A loop that has been closed has cancelled the coroutine.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(cancel)
            ended.wait(self._grace_seconds)
            raise
        finally:
            self._waiting.discard(ended)
        if not (tasks and tasks[0].done()):
            raise _EndedError
        return tasks[0].result()

    def _schedule(self, start: Callable[[], None], ended: threading.Event) -> None:
        with self._lock:
            if self._has_ended:
                raise _EndedError
            self._waiting.add(ended)
            self._loop.call_soon_threadsafe(start)

    def stream(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """
        Iterate over an asynchronous generator, which is closed with the iterator.

        :raises TaskStoppedError: if the task is to end.
        """
        try:
            while (item := self.run(_next(items), self._wait_unless_stopped)) is not _END:
                yield item
        finally:
            # The end of the block has closed the generator.
            with suppress(_EndedError):
                self.run(_close(items))

    def _wait_unless_stopped(self, ended: threading.Event) -> None:
        with self._stop.interruptible():
            ended.wait()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in (tasks := asyncio.all_tasks(self._loop)):
                task.cancel()
            self._wait_for(*tasks)
            self._wait_for(self._loop.create_task(self._loop.shutdown_asyncgens()))
            asyncio.set_event_loop(None)
            # Closing it lets the executor's threads end by themselves.
            self._loop.close()

    def _wait_for(self, *tasks: asyncio.Task[Any]) -> None:
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=self._grace_seconds))
        for task in tasks:
            # Retrieved, so that asyncio does not report an exception that nobody waits for.
            if task.done() and not task.cancelled():
                task.exception()


async def _next(items: AsyncGenerator[T, None]) -> T | Any:
    return await anext(items, _END)


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()
