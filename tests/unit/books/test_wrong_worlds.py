"""In a wrong world no book that exists is ever said to be missing, by the hook or by the sensor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk import PokeReturnValue

from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.triggers.base import value_of
from tests.unit.book_database import PROGRAMMING, connection
from tests.unit.book_worlds import (
    EMMA,
    HAMLET,
    PROBED,
    UNPROBED,
    WITH_CANARY,
    WITHOUT_CANARY,
    World,
    WorldServer,
    small,
)
from tests.unit.sensor_forms import first_event, made_again

pytestmark = pytest.mark.usefixtures("supervisor", "no_pauses")
CASES: list[tuple[World, str | None]] = [
    *((world, None) for world in (*UNPROBED, *PROBED, *WITHOUT_CANARY)),
    *((world, PROGRAMMING) for world in (*PROBED, *WITH_CANARY)),
]
#: One of the worlds that end the wait of a sensor alike.
ONE_OF_EACH_END = list({(world.sensor, world.begins_with, canary): (world, canary) for world, canary in CASES}.values())


def in_worlds(cases: list[tuple[World, str | None]]) -> pytest.MarkDecorator:
    names = [f"{world}, with a canary" if canary else str(world) for world, canary in cases]
    return pytest.mark.parametrize(("world", "canary"), cases, ids=names)


in_each_world = in_worlds(CASES)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = asyncio.sleep
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("asyncio.sleep", lambda _seconds, result=None: asleep(0, result))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, world: World, canary: str | None) -> Iterator[WorldServer]:
    with WorldServer(world) as started:
        # A key of its own: what its limiter learns of the limit is not the next test's.
        fields = {"canary_isbn": canary or "", "password": f"a key of {world} {canary} {time.monotonic()}"}
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(f"{started.base}/v2", **fields))
        yield started


@in_each_world
def test_the_hook(server: WorldServer, world: World) -> None:
    with BookDatabaseHook() as hook, pytest.raises(MediaOpsError) as caught:
        # In some worlds it is the second book that is not found.
        list(map(hook.lookup, (HAMLET, EMMA)))

    assert type(caught.value) is world.error
    assert any(path.endswith(caught.value.path or "no path") for path in server.asked)
    if world.error is InvalidConnectionError:
        assert "check the connection's base address" in str(caught.value)
        assert "canary_isbn" in str(caught.value)


@in_each_world
def test_the_connection_test(server: WorldServer, world: World, canary: str | None) -> None:
    works, said = BookDatabaseHook().test_connection()

    # If the key's quota can be read, nothing is known to be wrong, unless the canary is not found after it.
    assert works == (canary is None and (world.begins_with > 1 or world.answer is small))
    assert works or any(path.removeprefix("/v2") in said for path in server.asked)


def poked(sensor: BookSensor, server: WorldServer) -> Any:
    for _ in range(50):
        looked = sensor.poke({})
        if isinstance(looked, PokeReturnValue):
            return looked.xcom_value
        server.mends_with = server.mends_with or len(server.asked) + 1
    raise AssertionError("it waits although there is a record")


def deferred(sensor: BookSensor, server: WorldServer) -> Any:
    async def waited() -> Any:
        trigger = sensor.make_trigger(sensor.make_watch())
        event = asyncio.ensure_future(first_event(made_again(trigger)))
        while not event.done():
            if len(server.asked) > 9:
                server.mends_with = server.mends_with or len(server.asked) + 1
            await asyncio.sleep(0)
        return event.result()

    return value_of(asyncio.run(waited()))


def check_wait(server: WorldServer, world: World, wait: Callable[[BookSensor, WorldServer], Any]) -> None:
    sensor = BookSensor(task_id="wait", isbn=HAMLET, poke_interval=0.01)
    if world.sensor is None:
        assert wait(sensor, server)["isbn13"] == HAMLET
        return
    with pytest.raises(MediaOpsError) as caught:
        wait(sensor, server)
    assert type(caught.value) is world.sensor


@in_each_world
def test_the_sensor(server: WorldServer, world: World) -> None:
    check_wait(server, world, poked)


@in_worlds(ONE_OF_EACH_END)
def test_the_deferred_sensor(server: WorldServer, world: World) -> None:
    check_wait(server, world, deferred)
