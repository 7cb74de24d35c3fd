"""An event loop in a thread of its own, for programs that are not asynchronous themselves."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from airflow_provider_mediaops.http.exchange import Request, Response

T = TypeVar("T")

_END = object()


class LoopThread:
    """
    Runs coroutines for a thread that waits for them; between two of them, what they have started goes on.

    A context manager: when its block ends, whatever still runs is cancelled, and the thread ends.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # What the calling thread has set for its log lines holds in this one too.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="mediaops-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """
        Run a coroutine to its end.

        :param coroutine: what to run.
        :returns: its result.
        :raises BaseException: what it raises; what interrupts the waiting thread, after the coroutine was cancelled.
        """
        ended = threading.Event()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(coroutine)
            task.add_done_callback(lambda _: ended.set())
            tasks.append(task)

        def cancel() -> None:
            tasks[0].cancel()

        self._loop.call_soon_threadsafe(start)
        try:
            ended.wait()
        except BaseException:
            # A signal's handler has raised it here.
            self._loop.call_soon_threadsafe(cancel)
            ended.wait()
            raise
        return tasks[0].result()

    def stream(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """
        Give the items of an asynchronous generator.

        :param items: the generator; it is closed with the iterator.
        :returns: the items, each asked for when it is wanted.
        """
        try:
            while (item := self.run(_next(items))) is not _END:
                yield item
        finally:
            self.run(items.aclose())

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in (tasks := asyncio.all_tasks(self._loop)):
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            self._loop.close()


async def _next(items: AsyncGenerator[T, None]) -> T | Any:
    return await anext(items, _END)


class SendingThreads:
    """
    Lets an event loop send many requests at a time over a transport that blocks.

    A context manager: requests that are under way when its block ends are not waited for; their threads end with them.

    :param send: sends one request, in any thread.
    :param most: how many at a time.
    """

    def __init__(self, send: Callable[[Request], Response], most: int) -> None:
        self._send = send
        self._under_way: set[Future[Response]] = set()
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="mediaops-sending")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=not self._under_way, cancel_futures=True)

    async def send(self, request: Request) -> Response:
        """
        Send one request.

        :param request: what to send.
        :returns: the reply.
        :raises TransportError: where no whole reply came.
        """
        sending = self._pool.submit(self._send, request)
        self._under_way.add(sending)
        sending.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(sending)
