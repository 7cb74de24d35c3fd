"""Two call flows at the same time: which of them counts, and how the other one ends."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import TaskStoppedError
from airflow_provider_mediaops.http.exchange import Beside, Failure, Request, Response, TransportError, Wait
from airflow_provider_mediaops.http.runner import arun, run
from tests.unit.call_flows import on_a_loop

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow

MAIN, SIDE = Request("GET", "/report", base="http://host"), Request("GET", "/tasks", base="http://host")
HOUR = Wait(3_600.0)
LONG = 240.0


def talk(request: Request, log: list[str], *waits: Wait) -> CallFlow[Any]:
    """Send a request and wait; note the reply, and the end."""
    try:
        response: Response = yield request
        log.append(response.text)
        yield from waits
        return response.text
    finally:
        log.append(f"{request.path} closed")


def both(main: CallFlow[Any], side: CallFlow[Any], grace: float = LONG) -> CallFlow[Any]:
    return (yield Beside(main, side, grace))


def ended(name: str) -> None:
    """Wait for the end of the threads of this name."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(LONG)


def reply_of(request: Request) -> Response:
    return Response(200, {}, f"reply to {request.path}".encode())


class TestInAWorker:
    def test_both_are_under_way_at_the_same_time(self) -> None:
        meeting, log = threading.Barrier(2), list[str]()

        def send(request: Request) -> Response:
            meeting.wait(LONG)
            return reply_of(request)

        assert run(both(talk(MAIN, log), talk(SIDE, log)), send) == ("reply to /report", None)
        assert {"reply to /report", "reply to /tasks", "/report closed", "/tasks closed"} == set(log)

    def test_an_error_of_the_side_is_no_error_of_the_main_one(self) -> None:
        def send(request: Request) -> Response:
            if request == SIDE:
                raise TransportError(Failure.BROKEN, "broke")
            return reply_of(request)

        value, error = run(both(talk(MAIN, []), talk(SIDE, [])), send)
        assert value == "reply to /report"
        assert isinstance(error, TransportError)

    def test_a_side_that_waits_is_cut_off_at_once(self) -> None:
        log, waits = list[str](), threading.Event()

        def side() -> CallFlow[None]:
            try:
                waits.set()
                yield HOUR
            finally:
                log.append("closed")

        def send(request: Request) -> Response:
            waits.wait(LONG)
            return reply_of(request)

        assert run(both(talk(MAIN, []), side(), grace=0.0), send) == ("reply to /report", None)
        ended("mediaops-beside")
        assert log == ["closed"]

    def test_the_reply_to_a_request_under_way_is_read_by_nobody(self) -> None:
        log, sent, released = list[str](), threading.Event(), threading.Event()

        def send(request: Request) -> Response:
            if request == SIDE:
                sent.set()
                released.wait(LONG)
            else:
                sent.wait(LONG)
            return reply_of(request)

        assert run(both(talk(MAIN, []), talk(SIDE, log), grace=0.0), send) == ("reply to /report", None)
        released.set()
        ended("mediaops-beside")
        assert log == ["/tasks closed"]

    @pytest.mark.parametrize("error", [TransportError(Failure.TIMEOUT, "late"), TaskStoppedError(), KeyError("defect")])
    def test_an_error_of_the_main_one_cuts_the_side_off_and_reaches_the_call_flow(self, error: BaseException) -> None:
        log, caught = list[str](), list[BaseException]()
        waits = threading.Event()

        def side() -> CallFlow[None]:
            try:
                waits.set()
                yield HOUR
            finally:
                log.append("closed")

        def outer() -> CallFlow[str]:
            try:
                yield Beside(talk(MAIN, []), side(), LONG)
            except BaseException as raised:  # noqa: BLE001 one of them is no Exception
                caught.append(raised)
            return "went on"

        def send(_: Request) -> Response:
            waits.wait(LONG)
            raise error

        assert run(outer(), send) == "went on"
        ended("mediaops-beside")
        assert (log, caught) == (["closed"], [error])


class TestOnAnEventLoop:
    def test_both_are_under_way_at_the_same_time(self) -> None:
        async def carry_out() -> Any:
            here = {MAIN.path: asyncio.Event(), SIDE.path: asyncio.Event()}

            async def send(request: Request) -> Response:
                here[request.path].set()
                await asyncio.wait_for(asyncio.gather(*(event.wait() for event in here.values())), LONG)
                return reply_of(request)

            return await arun(both(talk(MAIN, []), talk(SIDE, [])), send, in_thread=asyncio.to_thread)

        assert on_a_loop(carry_out()) == ("reply to /report", None)

    def test_an_error_of_the_side_is_no_error_of_the_main_one(self) -> None:
        async def send(request: Request) -> Response:
            if request == SIDE:
                raise TransportError(Failure.BROKEN, "broke")
            return reply_of(request)

        value, error = on_a_loop(arun(both(talk(MAIN, []), talk(SIDE, [])), send, in_thread=asyncio.to_thread))
        assert value == "reply to /report"
        assert isinstance(error, TransportError)

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_side_that_hangs_is_cancelled_with_the_end_of_the_main_one(self, *, fails: bool) -> None:
        log: list[str] = []

        async def carry_out() -> Any:
            hangs = asyncio.Event()

            async def send(request: Request) -> Response:
                if request == SIDE:
                    hangs.set()
                    await asyncio.Event().wait()
                await asyncio.wait_for(hangs.wait(), LONG)
                if fails:
                    raise KeyError("defect")
                return reply_of(request)

            try:
                return await arun(both(talk(MAIN, []), talk(SIDE, log), 0.01), send, in_thread=asyncio.to_thread)
            except KeyError as error:
                return error.args
            finally:
                # All that is left is this test's own task.
                assert len(asyncio.all_tasks()) == 1

        assert on_a_loop(carry_out()) == (("defect",) if fails else ("reply to /report", None))
        assert log == ["/tasks closed"]

    def test_to_cancel_it_cancels_both(self) -> None:
        log: list[str] = []

        async def carry_out() -> None:
            under_way: list[Request] = []
            both_hang = asyncio.Event()

            async def send(request: Request) -> Response:
                under_way.append(request)
                if len(under_way) == 2:
                    both_hang.set()
                await asyncio.Event().wait()
                raise AssertionError

            flow = both(talk(MAIN, log), talk(SIDE, log))
            task = asyncio.ensure_future(arun(flow, send, in_thread=asyncio.to_thread))
            await asyncio.wait_for(both_hang.wait(), LONG)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(asyncio.all_tasks()) == 1

        on_a_loop(carry_out())
        assert sorted(log) == ["/report closed", "/tasks closed"]
