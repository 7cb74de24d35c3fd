"""An event loop whose time stands still while something happens, and jumps to the next thing when nothing does."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.http.request_threads import RequestThreads

if TYPE_CHECKING:
    import pytest

    from airflow_provider_mediaops.http.exchange import Request, Response

T = TypeVar("T")

START = 1000.0
# A test that waits for something that no timer brings.
_SECONDS = 240.0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Sleeps take no time, and what is meant for a thread is done at once."""

    def __init__(self) -> None:
        self.now = START
        #: Called before each turn.
        self.on_turn: Callable[[], object] = lambda: None
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 it is the one's who waits
            future.set_exception(error)
        return future


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.on_turn()
        if timeout is None:
            found = super().select(_SECONDS)
            assert found, "everything waits, and nothing is to come"
            return found
        found = super().select(0)
        if not found:
            self._loop.now += max(timeout, 0.0)
        return found


def send_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    """Let stand-ins for the transport answer on the event loop, where time is made up: they may be coroutines."""

    async def send(_: RequestThreads, transport: Any, user: str, request: Request) -> Response:
        del user
        answer: Any = transport.send(request)
        reply: Response = await answer if asyncio.iscoroutine(answer) else answer
        return reply

    patch.setattr(RequestThreads, "send", send)


def in_virtual_time(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and see that it leaves nothing behind."""
    loop = VirtualTimeLoop()
    try:
        result = loop.run_until_complete(coroutine)
        loop.run_until_complete(loop.shutdown_asyncgens())
        assert not asyncio.all_tasks(loop)
        return result
    finally:
        loop.close()
