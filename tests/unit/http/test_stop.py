"""A task that is stopped: SIGTERM comes before, within and between requests and waits."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import requests

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.hooks.threads import in_loop_thread
from airflow_provider_mediaops.http.exchange import Blocking, Response, Wait
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.http.stop import Stop
from airflow_provider_mediaops.http.transport import Transport
from tests.unit.http.sending import PATIENT, ask, through
from tests.unit.loopback import Loopback, Peer, answering, deaf_port, http_reply

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow

# Longer than any wait of a test may last, and shorter than pytest's patience.
LONG_SECONDS = 240.0


@contextmanager
def sigterm_calls(on_kill: Callable[[], None]) -> Iterator[None]:
    """Call this at SIGTERM, and nothing else; the interrupted code then continues."""
    before = signal.signal(signal.SIGTERM, lambda *_: on_kill())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    """Send SIGTERM to this process; if this is the main thread, its handler runs before the next line."""
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def terminated_after(reached: threading.Event | float) -> Iterator[None]:
    """Send SIGTERM to this process when an event has come, or after some seconds; the block is to end by it."""

    def work() -> None:
        if isinstance(reached, float):
            ended.wait(reached)
        elif not reached.wait(LONG_SECONDS):
            return
        # No test is to be hit after its end.
        if not ended.is_set():
            terminate()

    ended = threading.Event()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LONG_SECONDS)


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Return what SIGTERM requests, as a task's ``on_kill`` does."""
    stop = Stop()
    with sigterm_calls(stop.request):
        yield stop


class TestTheRequest:
    def test_raises_once_within_an_interruptible_block_and_leaves_what_cleans_up_alone(self, stop: Stop) -> None:
        done = []

        def work() -> None:
            with stop.interruptible():
                try:
                    terminate()
                    done.append("went on")
                finally:
                    terminate()
                    done.append("cleaned")

        with pytest.raises(TaskStoppedError):
            work()

        assert done == ["cleaned"]

    def test_of_another_thread_does_not_raise_there(self) -> None:
        stop = Stop()
        with stop.interruptible():
            thread = threading.Thread(target=stop.request)
            thread.start()
            thread.join()

        assert stop.requested

    def test_ends_a_sleep(self, stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
        slept = list[float]()

        def sleep(seconds: float) -> None:
            # From another thread, the signal may come just before the system is called, which then sleeps to the end.
            terminate()
            slept.append(seconds)

        monkeypatch.setattr("airflow_provider_mediaops.http.stop.time", SimpleNamespace(sleep=sleep))
        with pytest.raises(TaskStoppedError):
            stop.sleep(LONG_SECONDS)

        assert slept == []


class TestATransport:
    @pytest.mark.parametrize(
        ("by_proxy", "sent"),
        [
            pytest.param(False, True, id="while it waits for a reply that was asked for"),
            pytest.param(True, False, id="while a proxy opens its tunnel"),
        ],
    )
    def test_stopped_after_a_request_ends_and_knows_whether_it_was_sent(
        self, stop: Stop, *, by_proxy: bool, sent: bool
    ) -> None:
        asked = threading.Event()

        def silent(peer: Peer) -> None:
            peer.request()
            asked.set()
            peer.pause()

        with (
            Loopback(silent) as server,
            Transport(through(server.base) if by_proxy else PATIENT, stop) as transport,
            terminated_after(asked),
            pytest.raises(TaskStoppedError) as caught,
        ):
            transport.send(ask("https://service.invalid" if by_proxy else server.base))

        assert caught.value.sent is sent
        assert ("not known" in str(caught.value)) is sent
        # The library's error would show the whole address.
        assert caught.value.__context__ is None

    # urllib3 leaves the socket to the garbage collector.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
    def test_stopped_while_it_connects_ends_and_has_sent_nothing(self, stop: Stop) -> None:
        with (
            deaf_port() as port,
            Transport(PATIENT, stop) as transport,
            terminated_after(0.2),
            pytest.raises(TaskStoppedError) as caught,
        ):
            transport.send(ask(f"http://127.0.0.1:{port}"))

        assert not caught.value.sent

    @pytest.mark.parametrize("when", ["before", "within"])
    def test_stopped_before_it_looks_for_a_connection_sends_nothing(
        self, stop: Stop, monkeypatch: pytest.MonkeyPatch, when: str
    ) -> None:
        find = requests.Session.get_adapter

        def stopped(session: requests.Session, url: str) -> requests.adapters.BaseAdapter:
            terminate()
            return find(session, url)

        with Loopback(answering(http_reply())) as server, Transport(PATIENT, stop) as transport:
            if when == "before":
                terminate()
            else:
                monkeypatch.setattr(requests.Session, "get_adapter", stopped)
            with pytest.raises(TaskStoppedError) as caught:
                transport.send(ask(server.base))

            assert server.accepted == 0
        assert not caught.value.sent

    def test_of_another_thread_sends_nothing_over_a_connection_that_is_made(
        self, stop: Stop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[bytes] = []
        find = requests.Session.get_adapter

        def stopped(session: requests.Session, url: str) -> requests.adapters.BaseAdapter:
            stop.requested = True
            return find(session, url)

        with (
            Loopback(answering(http_reply(), seen=seen)) as server,
            Transport(PATIENT, stop) as transport,
            ThreadPoolExecutor() as pool,
        ):
            pool.submit(transport.send, ask(server.base)).result(LONG_SECONDS)
            monkeypatch.setattr(requests.Session, "get_adapter", stopped)
            with pytest.raises(TaskStoppedError):
                pool.submit(transport.send, ask(server.base)).result(LONG_SECONDS)
        assert len(seen) == 1


class TestACallFlow:
    def test_is_given_the_stop_and_may_still_do_blocking_work(self, stop: Stop) -> None:
        undone: list[str] = []

        def talk() -> CallFlow[None]:
            try:
                yield Wait(1.0)
            except TaskStoppedError:
                yield Blocking(lambda: undone.append("undone"))
                raise

        terminate()
        with pytest.raises(TaskStoppedError):
            run(talk(), lambda _: Response(200), lambda wait: stop.sleep(wait.seconds))

        assert undone == ["undone"]


class TestABatch:
    """Its requests are sent by threads, for an event loop in another thread; the task waits in the main one."""

    def test_ends_the_wait_for_the_next_item_and_closes_the_generator(self, stop: Stop) -> None:
        closed: list[str] = []
        waiting = threading.Event()

        async def items() -> AsyncGenerator[int, None]:
            try:
                yield 1
                waiting.set()
                await asyncio.sleep(LONG_SECONDS)
                closed.append("slept to the end")
            finally:
                closed.append("closed")

        with terminated_after(waiting), pytest.raises(TaskStoppedError):
            for _ in in_loop_thread(items(), stop):
                pass

        assert closed == ["closed"]
