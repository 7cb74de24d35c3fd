from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import BadRequestError, InvalidReplyError
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import (
    Blocking,
    Emit,
    Failure,
    Request,
    Response,
    TransportError,
    Wait,
    observed,
)
from airflow_provider_mediaops.http.runner import arun, astream, run, stream
from tests.unit.call_flows import FakeClock, on_a_loop, text_call
from tests.unit.http.asking import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import CallFlow

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


class Defective(Service):
    """Cannot be asked."""

    def send(self, request: Request) -> Response:
        del request
        raise KeyError("a defect")


class Exhausted(Service):
    """Replies, and waits, as an iterator that ends too early does."""

    def send(self, request: Request) -> Response:
        del request
        return next(iter(()))

    def sleep(self, wait: Wait) -> None:
        del wait
        next(iter(()))

    async def asleep(self, wait: Wait) -> None:
        self.sleep(wait)


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
    log: list[str] = []
    with pytest.raises(KeyError, match="a defect"):
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


@pytest.mark.parametrize("where", ["sleeping", "sending"])
async def test_a_cancelled_call_flow_is_closed(where: str) -> None:
    log: list[str] = []
    reached = asyncio.Event()

    async def hang(_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    async def pass_by(_: Wait) -> None:
        return

    async def send(request: Request) -> Response:
        await hang(request)
        raise AssertionError

    task = asyncio.create_task(
        arun(talk(log), send, hang if where == "sleeping" else pass_by, in_thread=asyncio.to_thread)
    )
    await asyncio.wait_for(reached.wait(), 240)
    assert log == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["closed"]


def test_a_wait_is_slept_through_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def asleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("airflow_provider_mediaops.http.runner.time.sleep", slept.append)
    monkeypatch.setattr("airflow_provider_mediaops.http.runner.asyncio.sleep", asleep)

    def pause() -> CallFlow[str]:
        yield Wait(3_600.0)
        return "rested"

    async def unused(_: Request) -> Response:
        raise AssertionError

    assert run(pause(), lambda _: Response(200)) == "rested"
    assert on_a_loop(arun(pause(), unused, in_thread=asyncio.to_thread)) == "rested"
    assert slept == [3_600.0] * 2


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
    assert run(observed(working(steps), lambda _: None), service.send) == [1, "disk full", None]
    assert not service.asked


def test_blocking_step_has_a_thread_of_its_own_on_an_event_loop() -> None:
    here = threading.get_ident()
    steps: list[Blocking[object]] = [Blocking(threading.get_ident)]
    assert run(working(steps), Service().send) == [here]
    assert on_a_loop(arun(working(steps), Service().asend, in_thread=asyncio.to_thread)) != [here]


def test_step_without_a_thread_is_awaited_on_the_event_loop() -> None:
    async def ident() -> object:
        return threading.get_ident()

    steps: list[Blocking[object]] = [Blocking(_fail, ident)]
    assert on_a_loop(arun(working(steps), Service().asend, in_thread=asyncio.to_thread)) == [threading.get_ident()]


def one_request() -> CallFlow[str]:
    response: Response = yield GET
    return response.text


def one_wait() -> CallFlow[str]:
    yield Wait(1.0)
    return "rested"


def one_action() -> CallFlow[object]:
    done: object = yield Blocking(lambda: next(iter(())))
    return done


@EVERY_WAY
@pytest.mark.parametrize("flow", [one_request, one_wait, one_action])
def test_an_iterator_that_ends_too_early_does_not_read_as_the_end_of_the_call_flow(
    how: str, flow: Callable[[], CallFlow[object]]
) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        drive(how, flow(), Exhausted())


class TestWrapping:
    def test_an_outer_call_flow_sees_every_outcome_before_the_inner_one_does(self) -> None:
        seen: list[object] = []
        inner = observed(talk([]), seen.append, lambda outcome: seen.append(type(outcome).__name__))
        assert run(inner, Service().send, Service().sleep) == "hello"
        names = [type(each).__name__ if not isinstance(each, str) else each for each in seen]
        assert names == [
            *("Emit", "NoneType", "Wait", "NoneType", "Request", "TransportError"),
            *("Request", "Response", "Emit", "NoneType"),
        ]

    def test_error_of_an_observer_ends_the_inner_call_flow(self) -> None:
        log: list[str] = []

        def refuse(outcome: object) -> None:
            assert not isinstance(outcome, TransportError), "it was seen"

        with pytest.raises(AssertionError, match="it was seen"):
            run(observed(talk(log), lambda _: None, refuse), Service().send, Service().sleep)
        assert log == ["closed"]


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
