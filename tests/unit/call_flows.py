"""Call flows without a service: a list of replies, and a clock that only waits move on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.http.exchange import (
    Beside,
    Blocking,
    Call,
    Clock,
    Emit,
    Request,
    Response,
    Returned,
    Wait,
    advance,
    until,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Step
    from airflow_provider_mediaops.waiting import Readings

T = TypeVar("T")

#: When every fake clock starts: an evening in UTC, the middle of the day where the video platform counts its quotas.
START = datetime(2026, 3, 14, 20, 0, tzinfo=timezone.utc)


def ask_once(call: Call[T]) -> CallFlow[T]:
    """Send the request once and read the reply, with no authentication, check or retry."""
    response: Response = yield call.request
    return call.parse(response)


def replayed_readings(read: Callable[[], CallFlow[Any]], monotonic: Callable[[], float]) -> Readings[Any]:
    """Give the readings of a wait without a hook, each by a call flow."""

    def next_reading(pause: float, deadline: float) -> CallFlow[Any]:
        if pause:
            yield Wait(pause)
        return (yield from until(deadline, read(), monotonic))

    return next_reading


@dataclass
class FakeClock:
    """
    Time that stands still but for :meth:`wait`, and chance that is a fixed share of its range.

    :param share: where between its bounds a random figure lies.
    """

    share: float = 1.0
    seconds: float = 0.0
    drawn: list[tuple[float, float]] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def _draw(self, low: float, high: float) -> float:
        self.drawn.append((low, high))
        return low + (high - low) * self.share

    @property
    def clock(self) -> Clock:
        return Clock(
            monotonic=lambda: self.seconds,
            now=lambda: START + timedelta(seconds=self.seconds),
            uniform=self._draw,
        )


def replay(
    flow: CallFlow[T],
    replies: Iterable[Response | BaseException],
    *,
    steps: list[Step] | None = None,
    clock: FakeClock | None = None,
) -> T:
    """Carry out a call flow whose requests get the given replies, one after the other."""
    left = list(replies)
    value = _replay(flow, left, [] if steps is None else steps, clock)
    assert not left, f"the call flow ended with {len(left)} replies left"
    return value


def _replay(flow: CallFlow[T], left: list[Response | BaseException], steps: list[Step], clock: FakeClock | None) -> T:
    step = advance(flow)
    while not isinstance(step, Returned):
        steps.append(step)
        if isinstance(step, Request):
            assert left, f"the call flow sends more than was expected: {step}"
            reply = left.pop(0)
            step = advance(flow, error=reply) if isinstance(reply, BaseException) else advance(flow, reply)
            continue
        if isinstance(step, (Blocking, Beside)):
            try:
                done = step.action() if isinstance(step, Blocking) else _one_by_one(step, left, steps, clock)
            except Exception as error:  # noqa: BLE001 it is the call flow's
                step = advance(flow, error=error)
            else:
                step = advance(flow, done)
            continue
        if isinstance(step, Wait) and clock:
            clock.wait(step.seconds)
        step = advance(flow)
    return step.value


def _one_by_one(
    both: Beside[T], left: list[Response | BaseException], steps: list[Step], clock: FakeClock | None
) -> tuple[T, None]:
    """Carry out two call flows, the one beside first and in a time that stands still."""
    _replay(both.side, left, steps, None)
    return _replay(both.main, left, steps, clock), None


def requests_of(steps: list[Step]) -> list[Request]:
    """Give the requests among the steps."""
    return [step for step in steps if isinstance(step, Request)]


def pauses_of(steps: list[Step]) -> list[float]:
    """Give the seconds of each wait among the steps."""
    return [step.seconds for step in steps if isinstance(step, Wait)]


def items_of(steps: list[Step]) -> list[Any]:
    """Give the items that were emitted among the steps."""
    return [step.item for step in steps if isinstance(step, Emit)]


def text_call(method: str = "GET", path: str = "/thing", *, idempotent: bool = True) -> Call[str]:
    """Give a call whose result is the text of its reply."""
    return Call(Request(method, path, idempotent=idempotent), lambda response: response.text)


def on_a_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Not asyncio.run(), which takes away the loop that pytest-asyncio has set."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
