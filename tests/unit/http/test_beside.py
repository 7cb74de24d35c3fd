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
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import CallFlow

MAIN, SIDE = Request("GET", "/report", base="http://host"), Request("GET", "/tasks", base="http://host")
LONG = 240.0
FORMS = pytest.mark.parametrize("form", ["worker", "event loop"])


def talk(request: Request, log: list[str]) -> CallFlow[Any]:
    """Send a request; note the reply, and the end."""
    try:
        response: Response = yield request
        log.append(response.text)
        return response.text
    finally:
        log.append(f"{request.path} closed")


class Resting:
    """A call flow beside another that waits for an hour."""

    def __init__(self) -> None:
        self.rests, self.closed = threading.Event(), threading.Event()

    def flow(self) -> CallFlow[None]:
        try:
            self.rests.set()
            yield Wait(3_600.0)
        finally:
            self.closed.set()


def both(main: CallFlow[Any], side: CallFlow[Any], grace: float = LONG) -> CallFlow[Any]:
    return (yield Beside(main, side, grace))


def reply_of(request: Request) -> Response:
    return Response(200, {}, f"reply to {request.path}".encode())


def carry_out(form: str, flow: CallFlow[Any], send: Callable[[Request], Response]) -> Any:
    if form == "worker":
        return run(flow, send)

    async def on_loop() -> Any:
        result = await arun(flow, lambda request: asyncio.to_thread(send, request), in_thread=asyncio.to_thread)
        # All that is left is this task.
        assert len(asyncio.all_tasks()) == 1
        return result

    return on_a_loop(on_loop())


@FORMS
def test_both_are_under_way_at_the_same_time(form: str) -> None:
    meeting, log = threading.Barrier(2), list[str]()

    def send(request: Request) -> Response:
        meeting.wait(LONG)
        return reply_of(request)

    assert carry_out(form, both(talk(MAIN, log), talk(SIDE, log)), send) == ("reply to /report", None)
    assert {"reply to /report", "reply to /tasks", "/report closed", "/tasks closed"} == set(log)


@FORMS
def test_an_error_of_the_side_is_no_error_of_the_main_one(form: str) -> None:
    def send(request: Request) -> Response:
        if request == SIDE:
            raise TransportError(Failure.BROKEN, "broke")
        return reply_of(request)

    value, error = carry_out(form, both(talk(MAIN, []), talk(SIDE, [])), send)
    assert value == "reply to /report"
    assert isinstance(error, TransportError)


@FORMS
def test_a_side_that_waits_is_cut_off_with_the_end_of_the_main_one(form: str) -> None:
    side = Resting()

    def send(request: Request) -> Response:
        assert side.rests.wait(LONG)
        return reply_of(request)

    assert carry_out(form, both(talk(MAIN, []), side.flow(), grace=0.01), send) == ("reply to /report", None)
    assert side.closed.wait(LONG)


@FORMS
@pytest.mark.parametrize("error", [TransportError(Failure.TIMEOUT, "late"), TaskStoppedError(), KeyError("defect")])
def test_an_error_of_the_main_one_cuts_the_side_off_and_reaches_the_call_flow(form: str, error: BaseException) -> None:
    side, caught = Resting(), list[BaseException]()

    def outer() -> CallFlow[str]:
        try:
            yield Beside(talk(MAIN, []), side.flow(), LONG)
        except BaseException as raised:  # noqa: BLE001 one of them is no Exception
            caught.append(raised)
        return "went on"

    def send(_: Request) -> Response:
        assert side.rests.wait(LONG)
        raise error

    assert carry_out(form, outer(), send) == "went on"
    assert side.closed.wait(LONG)
    assert caught == [error]


def test_the_reply_to_a_request_of_the_side_under_way_is_read_by_nobody() -> None:
    log, sent, released, closed = list[str](), threading.Event(), threading.Event(), threading.Event()

    def side() -> CallFlow[None]:
        try:
            yield from talk(SIDE, log)
        finally:
            closed.set()

    def send(request: Request) -> Response:
        if request == SIDE:
            sent.set()
            assert released.wait(LONG)
        else:
            assert sent.wait(LONG)
        return reply_of(request)

    assert run(both(talk(MAIN, []), side(), grace=0.0), send) == ("reply to /report", None)
    released.set()
    assert closed.wait(LONG)
    assert log == ["/tasks closed"]


def test_to_cancel_it_cancels_both() -> None:
    log: list[str] = []

    async def cancel() -> None:
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
        await both_hang.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    on_a_loop(cancel())
    assert sorted(log) == ["/report closed", "/tasks closed"]
