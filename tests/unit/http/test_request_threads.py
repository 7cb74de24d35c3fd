"""The threads that send requests for an event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.request_threads import RequestThreads
from airflow_provider_mediaops.http.transport import Transport
from tests.unit.http.sending import PATIENT, ask
from tests.unit.loopback import Loopback, answering, http_reply
from tests.unit.until import until

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.stop import Stop

REQUEST = Request("GET", "/")
LONG_SECONDS = 240


def transport(answer: Callable[[Request, Stop], Response]) -> Transport:
    return cast("Transport", SimpleNamespace(send=answer))


async def set_in_a_thread(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, LONG_SECONDS)


class Held:
    """Answers no request until the test lets it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._has_begun, self._may_answer = threading.Event(), threading.Event()

    def answer(self, request: Request, _: Stop) -> Response:
        self.sent.append(request.path)
        self._has_begun.set()
        assert self._may_answer.wait(LONG_SECONDS)
        return Response(200)

    async def has_begun(self) -> None:
        """Wait until the first request occupies its thread."""
        await set_in_a_thread(self._has_begun)

    def let_go(self) -> None:
        self._may_answer.set()


async def test_user_at_its_limit_leaves_threads_to_others() -> None:
    held, threads = Held(), RequestThreads(3, 2)
    stalled = [asyncio.ensure_future(threads.send(transport(held.answer), "dead", REQUEST)) for _ in range(5)]
    await until(lambda: len(held.sent) == 2)
    assert await threads.send(transport(lambda *_: Response(204)), "alive", REQUEST) == Response(204)
    assert len(held.sent) == 2
    held.let_go()
    assert await asyncio.gather(*stalled) == [Response(200)] * 5


async def test_user_with_many_requests_leaves_each_second_turn_to_another() -> None:
    held, threads = Held(), RequestThreads(1, 1)

    def send(user: str, path: str) -> asyncio.Task[Response]:
        return asyncio.ensure_future(threads.send(transport(held.answer), user, Request("GET", path)))

    # The only thread is occupied before the others come.
    sending = [send("one", "/1")]
    await held.has_begun()
    sending += [send("one", "/2"), send("one", "/3"), send("other", "/another")]
    # They wait for the thread after this turn of the event loop.
    await asyncio.sleep(0)
    held.let_go()
    await asyncio.gather(*sending)
    assert held.sent == ["/1", "/2", "/another", "/3"]


async def test_there_are_never_more_threads() -> None:
    # Those of other tests that have not ended yet.
    others = set(threading.enumerate())
    held, threads = Held(), RequestThreads(2, 2)
    sending = [asyncio.ensure_future(threads.send(transport(held.answer), user, REQUEST)) for user in "abc"]
    await until(lambda: len(held.sent) == 2)
    names = [thread.name for thread in threading.enumerate() if thread not in others]
    assert names.count("mediaops-request") == 2
    held.let_go()
    assert await asyncio.gather(*sending) == [Response(200)] * 3


async def test_request_without_a_thread_is_an_error_and_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    held, threads = Held(), RequestThreads(1, 1)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start_no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.send(transport(held.answer), "one", Request("GET", "/first"))
    held.let_go()
    assert await threads.send(transport(held.answer), "one", Request("GET", "/second")) == Response(200)
    assert held.sent == ["/second"]


@pytest.mark.parametrize("error", [TransportError(Failure.BROKEN, "cut"), TaskStoppedError()])
async def test_error_is_raised_to_the_caller_and_leaves_the_thread_to_the_next(error: BaseException) -> None:
    def fail(*_: object) -> Response:
        raise error

    threads = RequestThreads(1, 1)
    with pytest.raises(type(error)):
        await threads.send(transport(fail), "one", REQUEST)
    assert await threads.send(transport(lambda *_: Response(204)), "one", REQUEST) == Response(204)


async def test_cancelled_request_that_waits_for_a_thread_is_not_sent() -> None:
    held, threads = Held(), RequestThreads(1, 1)
    first = asyncio.ensure_future(threads.send(transport(held.answer), "one", Request("GET", "/first")))
    await held.has_begun()
    second = asyncio.ensure_future(threads.send(transport(held.answer), "one", Request("GET", "/second")))
    await asyncio.sleep(0)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second
    held.let_go()
    assert await first == Response(200)
    assert await threads.send(transport(held.answer), "one", Request("GET", "/third")) == Response(200)
    assert held.sent == ["/first", "/third"]


async def test_request_cancelled_while_it_connects_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting, may_connect, ended = threading.Event(), threading.Event(), threading.Event()
    seen: list[bytes] = []
    outcome: list[object] = []
    connect = socket.socket.connect

    def connect_late(new: socket.socket, address: object) -> None:
        connecting.set()
        assert may_connect.wait(LONG_SECONDS)
        connect(new, address)  # type: ignore[arg-type]

    with Loopback(answering(http_reply(), seen=seen)) as server, Transport(PATIENT) as real:

        def send(request: Request, cancelled: Stop) -> Response:
            try:
                return real.send(request, cancelled)
            except TaskStoppedError as error:
                outcome.append(error.sent)
                raise
            finally:
                ended.set()

        monkeypatch.setattr(socket.socket, "connect", connect_late)
        sending = asyncio.ensure_future(RequestThreads(1, 1).send(transport(send), "one", ask(server.base)))
        await set_in_a_thread(connecting)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        may_connect.set()
        await set_in_a_thread(ended)
        assert outcome == [False]
        assert not any(seen)
