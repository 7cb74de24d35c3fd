from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import BadRequestError, InvalidReplyError, TaskStoppedError
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import (
    Beside,
    Blocking,
    Emit,
    Failure,
    Request,
    Response,
    TransportError,
    Wait,
    observed,
    until,
)
from airflow_provider_mediaops.http.runner import arun, astream, run, stream
from tests.unit.call_flows import FakeClock, on_a_loop, replay, text_call
from tests.unit.http.asking import DOWN, GOOD, make

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Step

GET = Request("GET", "/thing", base="http://host")


def talk(log: list[str]) -> CallFlow[str]:
    """Two items, a wait, a request that fails and one that does not."""
    try:
        yield Emit("first")
        yield Wait(3.0, "a pause")
        try:
            yield GET
        except TransportError as error:
            log.append(error.detail)
        response: Response = yield GET
        yield Emit("second")
        return response.text
    finally:
        log.append("closed")


class Service:
    """Fails once, then answers; keeps what it was asked, and for how long it was let sleep."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.slept: list[Wait] = []

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        if len(self.asked) == 1:
            raise TransportError(Failure.BROKEN, "broke")
        return Response(200, {}, b"hello")

    async def asend(self, request: Request) -> Response:
        return self.send(request)

    def sleep(self, wait: Wait) -> None:
        self.slept.append(wait)

    async def asleep(self, wait: Wait) -> None:
        self.slept.append(wait)


EVERY_WAY = pytest.mark.parametrize("how", ["run", "arun", "stream", "astream"])


def drive(how: str, flow: CallFlow[Any], service: Service) -> tuple[Any, list[object]]:
    """Carry out a call flow in one of the four ways; give its result, where that way has one, and its items."""
    items: list[object] = []
    if how == "run":
        return run(flow, service.send, service.sleep), items
    if how == "arun":
        return on_a_loop(arun(flow, service.asend, service.asleep, in_thread=asyncio.to_thread)), items
    if how == "stream":
        streaming = stream(flow, service.send, service.sleep)
        while True:
            try:
                items.append(next(streaming))
            except StopIteration as stop:
                return stop.value, items

    async def collect() -> None:
        streaming = astream(flow, service.asend, service.asleep, in_thread=asyncio.to_thread)
        items.extend([item async for item in streaming])

    on_a_loop(collect())
    return None, items


@EVERY_WAY
def test_every_driver_carries_out_the_same_call_flow(how: str) -> None:
    service, log = Service(), list[str]()
    result, items = drive(how, talk(log), service)
    assert service.asked == [GET, GET]
    assert service.slept == [Wait(3.0, "a pause")]
    assert log == ["broke", "closed"]
    assert result == (None if how == "astream" else "hello")
    assert items == (["first", "second"] if "stream" in how else [])


@EVERY_WAY
def test_an_error_that_is_not_the_transports_ends_the_call_flow(how: str) -> None:
    class Defective(Service):
        def send(self, request: Request) -> Response:
            raise KeyError(request.path)

    log: list[str] = []
    with pytest.raises(KeyError, match="/thing"):
        drive(how, talk(log), Defective())
    assert log == ["closed"]


def test_nothing_happens_before_the_first_item_is_asked_for() -> None:
    service, log = Service(), list[str]()
    items = stream(talk(log), service.send, service.sleep)
    assert next(items) == "first"
    assert (service.asked, service.slept, log) == ([], [], [])
    items.close()
    assert log == ["closed"]


async def test_an_asynchronous_stream_that_is_closed_closes_its_call_flow() -> None:
    service, log = Service(), list[str]()
    async with aclosing(astream(talk(log), service.asend, service.asleep, in_thread=asyncio.to_thread)) as items:
        async for item in items:
            assert item == "first"
            break
    assert (service.asked, log) == ([], ["closed"])


def working(steps: list[Blocking[object]]) -> CallFlow[list[object]]:
    """Each step, and what came of it."""
    came: list[object] = []
    for step in steps:
        try:
            came.append((yield step))
        except OSError as error:
            came.append(str(error))
    return came


def _fail() -> object:
    raise OSError("disk full")


def test_work_beside_the_service_comes_back_with_its_result_or_its_error() -> None:
    steps: list[Blocking[object]] = [Blocking(lambda: 1), Blocking(_fail), Blocking(lambda: None)]
    service = Service()
    assert run(working(steps), service.send) == [1, "disk full", None]
    assert on_a_loop(arun(working(steps), service.asend, in_thread=asyncio.to_thread)) == [1, "disk full", None]
    assert not service.asked


def test_blocking_step_has_a_thread_of_its_own_on_an_event_loop_unless_it_needs_none() -> None:
    async def ident() -> object:
        return threading.get_ident()

    here = threading.get_ident()
    steps: list[Blocking[object]] = [Blocking(threading.get_ident), Blocking(_fail, ident)]
    assert run(working(steps[:1]), Service().send) == [here]
    of_thread, of_loop = on_a_loop(arun(working(steps), Service().asend, in_thread=asyncio.to_thread))
    assert (of_thread != here, of_loop == here) == (True, True)


def test_an_observer_sees_every_outcome_before_the_inner_call_flow_does_and_may_end_it() -> None:
    seen: list[str] = []

    def see(step: Step) -> CallFlow[Step]:
        yield from ()
        seen.append(type(step).__name__)
        return step

    def refuse(outcome: object) -> None:
        assert not isinstance(outcome, TransportError), "it was seen"

    inner = observed(talk(seen), see, lambda outcome: seen.append(type(outcome).__name__))
    assert run(inner, Service().send, Service().sleep) == "hello"
    assert seen == [
        *("Emit", "NoneType", "Wait", "NoneType", "Request", "TransportError", "broke"),
        *("Request", "Response", "Emit", "NoneType", "closed"),
    ]
    log: list[str] = []
    with pytest.raises(AssertionError, match="it was seen"):
        run(observed(talk(log), see, refuse), Service().send, Service().sleep)
    assert log == ["closed"]


def test_retry_in_a_reading_gives_no_reason_for_a_line_in_the_log() -> None:
    fake, steps = FakeClock(), list["Step"]()
    replay(until(60.0, make(fake).ask(text_call()), fake.clock.monotonic), [DOWN, GOOD], steps=steps, clock=fake)
    assert [step.reason for step in steps if isinstance(step, Wait)] == [""]


# Large replies are read in a thread: on the event loop of a triggerer, everything else would have to wait.


@pytest.mark.parametrize(
    ("status", "size", "in_thread"),
    [(200, 64 * 1024 - 1, False), (200, 64 * 1024, True), (400, 64 * 1024 - 1, False), (400, 2_000_000, True)],
)
async def test_large_reply_and_large_refusal_are_read_in_a_thread(status: int, size: int, *, in_thread: bool) -> None:
    threads: list[threading.Thread] = []

    def advice(*_: object) -> str:
        threads.append(threading.current_thread())
        return "Ask for less."

    def parse(_: Response) -> str:
        threads.append(threading.current_thread())
        raise ValueError("no number")

    async def send(_: Request) -> Response:
        return Response(status, {}, b"x" * size)

    client = replace(make(FakeClock()), rules=ErrorRules("service", advice_by_reply=advice))
    with pytest.raises(InvalidReplyError if status == 200 else BadRequestError, match="Ask for less"):
        await arun(client.ask(replace(text_call(), parse=parse)), send, in_thread=asyncio.to_thread)
    assert {thread is not threading.current_thread() for thread in threads} == {in_thread}


# Two call flows at the same time: which of them counts, and how the other one ends.

MAIN, SIDE = Request("GET", "/report", base="http://host"), Request("GET", "/tasks", base="http://host")
LONG = 240.0
FORMS = pytest.mark.parametrize("form", ["worker", "event loop"])


def ask_for(request: Request, log: list[str]) -> CallFlow[Any]:
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
def test_two_call_flows_are_under_way_at_the_same_time(form: str) -> None:
    meeting, log = threading.Barrier(2), list[str]()

    def send(request: Request) -> Response:
        meeting.wait(LONG)
        return reply_of(request)

    assert carry_out(form, both(ask_for(MAIN, log), ask_for(SIDE, log)), send) == ("reply to /report", None)
    assert {"reply to /report", "reply to /tasks", "/report closed", "/tasks closed"} == set(log)


@FORMS
def test_an_error_of_the_side_is_no_error_of_the_main_one(form: str) -> None:
    def send(request: Request) -> Response:
        if request == SIDE:
            raise TransportError(Failure.BROKEN, "broke")
        return reply_of(request)

    value, error = carry_out(form, both(ask_for(MAIN, []), ask_for(SIDE, [])), send)
    assert value == "reply to /report"
    assert isinstance(error, TransportError)


@FORMS
def test_a_side_that_waits_is_cut_off_with_the_end_of_the_main_one(form: str) -> None:
    side = Resting()

    def send(request: Request) -> Response:
        assert side.rests.wait(LONG)
        return reply_of(request)

    assert carry_out(form, both(ask_for(MAIN, []), side.flow(), grace=0.01), send) == ("reply to /report", None)
    assert side.closed.wait(LONG)


@FORMS
@pytest.mark.parametrize("error", [TransportError(Failure.TIMEOUT, "late"), TaskStoppedError(), KeyError("defect")])
def test_an_error_of_the_main_one_cuts_the_side_off_and_reaches_the_call_flow(form: str, error: BaseException) -> None:
    side, caught = Resting(), list[BaseException]()

    def outer() -> CallFlow[str]:
        try:
            yield Beside(ask_for(MAIN, []), side.flow(), LONG)
        except BaseException as raised:  # noqa: BLE001 one of them is not an Exception
            caught.append(raised)
        return "went on"

    def send(_: Request) -> Response:
        assert side.rests.wait(LONG)
        raise error

    assert carry_out(form, outer(), send) == "went on"
    assert side.closed.wait(LONG)
    assert caught == [error]


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

        flow = both(ask_for(MAIN, log), ask_for(SIDE, log))
        task = asyncio.ensure_future(arun(flow, send, in_thread=asyncio.to_thread))
        await both_hang.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    on_a_loop(cancel())
    assert sorted(log) == ["/report closed", "/tasks closed"]
