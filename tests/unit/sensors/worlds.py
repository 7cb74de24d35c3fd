"""Services whose state follows a script, in made-up time that workers and triggerers share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from airflow_provider_mediaops.cluster.capture import on_spike
from airflow_provider_mediaops.http import transport
from airflow_provider_mediaops.http.exchange import Clock, Failure, Response, TransportError
from airflow_provider_mediaops.http.rate_limit.backends import backend_at
from tests.unit import book_database as books
from tests.unit import search_cluster as cluster
from tests.unit import video_platform as video
from tests.unit.virtual_time import START, VirtualTimeLoop, send_on_the_loop

if TYPE_CHECKING:
    import pytest

    from airflow_provider_mediaops.http.exchange import Request
    from tests.unit.conftest import Supervisor

T = TypeVar("T")

HOST = "https://service.example"
RETRY_AFTER = 50


class State(Enum):
    """What a service does with a request."""

    COOL = auto()
    """It answers that the condition is not met."""
    HOT = auto()
    """It answers that the condition is met."""
    GONE = auto()
    """It answers that it does not know what the request names."""
    DOWN = auto()
    """It refuses with 503."""
    BUSY = auto()
    """It refuses with 429 and a Retry-After."""
    DENIED = auto()
    """It refuses with 401."""
    GARBAGE = auto()
    """It sends what is not a reply of its own."""
    SILENT = auto()
    """It sends nothing in time."""
    BUG = auto()
    """It answers, and our own code fails on it."""


Script = tuple[tuple[float, State], ...]


class _Slip:
    """A reply that an error of our own code is met on."""

    status = 200
    headers: dict[str, str] = {}  # noqa: RUF012 as in a response
    secrets: tuple[str, ...] = ()
    sent_at = None

    @property
    def body(self) -> bytes:
        raise TypeError("a slip")

    text = body


def _json(status: int, body: Any, **headers: str) -> Response:
    return Response(status, {"content-type": "application/json", **headers}, json.dumps(body).encode())


def _cluster(state: State, path: str) -> Response:
    cpu = {"node-1": 95.0 if state is State.HOT else 5.0}
    if path.endswith("hot_threads"):
        return cluster.replied(cluster.report("node-1"))
    return cluster.replied(cluster.stats({} if state is State.GONE else cpu))


def _video(state: State, _: str) -> Response:
    if state is State.GONE:
        return _json(404, video.error(404, "subscriberNotFound"))
    return _json(200, video.page(1) if state is State.HOT else video.page())


def _books(state: State, path: str) -> Response:
    if state is State.COOL and path.endswith(books.CRIME):
        return books.no_such_book()
    return books.found(books.CRIME if path.endswith(books.CRIME) else books.PROGRAMMING)


ANSWERS = {"cluster": _cluster, "video": _video, "books": _books}


@dataclass
class World:
    """
    A service and the time; it takes the place of the task instance, too.

    :param service: a key of :data:`ANSWERS`.
    :param script: from which second on it is in which state.
    :param max_attempts: how often the connection has a request sent.
    :param now: the time in seconds.
    """

    service: str
    script: Script
    max_attempts: int = 1
    now: float = START
    asked: list[tuple[float, str]] = field(default_factory=list)
    _loop: VirtualTimeLoop | None = None
    dag_id: str = "dag"
    run_id: str = "run"
    task_id: str = "wait"
    map_index: int = -1

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return self.monotonic() - START

    @property
    def readings(self) -> list[float]:
        """The seconds at which it was asked for the condition, each once: a reading may need several requests."""
        return sorted({round(at) for at, path in self.asked if "hot_threads" not in path})

    def monotonic(self) -> float:
        return self._loop.now if self._loop else self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def get_first_reschedule_date(self, context: Any) -> datetime | None:
        """Act as the task instance of a rescheduled poke."""
        return datetime.fromtimestamp(START, timezone.utc) if self.seconds else None

    def answer(self, request: Request) -> Any:
        self.asked.append((self.seconds, unquote(request.path)))
        state = [state for begin, state in self.script if begin <= self.seconds][-1]
        if state is State.SILENT:
            raise TransportError(Failure.TIMEOUT, "no reply")
        refusals = {
            State.DOWN: Response(503, {}, b"<html>Bad gateway</html>"),
            State.BUSY: Response(429, {"retry-after": str(RETRY_AFTER)}, b"{}"),
            State.DENIED: Response(401, {}, b"{}"),
            State.GARBAGE: Response(200, {"content-type": "application/json"}, b"[7]"),
            State.BUG: _Slip(),
        }
        return refusals.get(state) or ANSWERS[self.service](state, request.path)

    def on_a_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as a triggerer does, from this time on."""
        loop = self._loop = VirtualTimeLoop()
        loop.now = self.now
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            self.now, self._loop = loop.now, None
            loop.close()


@contextmanager
def living_in(world: World, patch: pytest.MonkeyPatch, supervisor: Supervisor) -> Iterator[World]:
    """Have the world's time, and its service where the default connection leads."""

    class StandIn:
        def __init__(self, *settings: Any) -> None:
            pass

        def send(self, request: Request) -> Any:
            return world.answer(request)

        def close(self) -> None:
            pass

    made = {
        "cluster": cluster.connection(HOST, max_attempts=world.max_attempts),
        "video": video.connection(HOST, max_attempts=world.max_attempts),
        "books": books.connection(HOST, canary_isbn=books.PROGRAMMING, max_attempts=world.max_attempts),
    }
    with patch.context() as within:
        within.setattr(transport, "Transport", StandIn)
        send_on_the_loop(within)
        within.setattr(time, "monotonic", world.monotonic)
        within.setattr(backend_at("memory://"), "_clock", world.monotonic)
        # The deadline in the row of a trigger is a date.
        within.setattr(time, "time", world.monotonic)
        within.setattr(on_spike, "Clock", lambda: Clock(monotonic=world.monotonic))
        within.setattr(time, "sleep", world.sleep)
        supervisor.connect(f"mediaops_{world.service}_default", made[world.service])
        yield world
