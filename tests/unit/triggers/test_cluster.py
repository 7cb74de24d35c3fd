"""Waiting for hot nodes in the triggerer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError, NotFoundError, PermissionDeniedError
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from airflow_provider_mediaops.triggers.event import value_of
from tests.unit.loopback import Loopback, Peer, answering
from tests.unit.search_cluster import connection, error, http, replied, stats
from tests.unit.sensor_forms import first_event

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor

HOT, COOL = replied(stats({"node-1": 95, "node-2": 5})), replied(stats({"node-1": 5, "node-2": 5}))


async def wait(supervisor: Supervisor, *answers: Response, **watch: Any) -> Any:
    """Wait at a cluster that gives these answers, and give what the task would get."""
    with Loopback(answering(*map(http, answers))) as server:
        supervisor.connect("cluster_1", connection(server.base))
        trigger = HighCpuTrigger(conn_id="cluster_1", watch={"threshold": 85.0, **watch}, poke_interval=0.01)
        return value_of(await asyncio.wait_for(first_event(trigger), 20))


class TestWait:
    async def test_it_ends_with_the_hot_nodes(self, supervisor: Supervisor) -> None:
        assert [node["name"] for node in await wait(supervisor, COOL, COOL, HOT)] == ["node-1"]

    async def test_a_streak_is_watched_to_its_end(self, supervisor: Supervisor) -> None:
        began = time.monotonic()
        found = await wait(supervisor, HOT, COOL, HOT, sustained_for=0.2, reading_interval=0.02)
        assert [node["name"] for node in found] == ["node-1"]
        assert time.monotonic() - began >= 0.2

    async def test_missing_rights_and_nodes_end_it(self, supervisor: Supervisor) -> None:
        forbidden = replied(error(403, "security_exception", "no permissions"), 403)
        with pytest.raises(PermissionDeniedError, match="monitor or manage"):
            await wait(supervisor, forbidden)
        with pytest.raises(NotFoundError, match="'node-9'"):
            await wait(supervisor, replied(stats({})), nodes=["node-9"])


def test_the_constructor_takes_anything() -> None:
    trigger = HighCpuTrigger(conn_id="", watch={"threshold": "no figure"}, poke_interval=-1)
    assert trigger.serialize()[1]["watch"] == {"threshold": "no figure"}


@pytest.mark.parametrize("watch", [{"threshold": -1.0}, {"threshold": 85.0, "require": "most"}])
async def test_what_the_constructor_took_is_judged_when_it_runs(watch: dict[str, Any]) -> None:
    event = await first_event(HighCpuTrigger(conn_id="cluster_1", watch=watch))
    with pytest.raises(InvalidConnectionError, match=r"threshold is a percentage|require is any or all"):
        value_of(event)


async def test_the_event_loop_goes_on_while_the_cluster_thinks(supervisor: Supervisor) -> None:
    def hesitate(peer: Peer) -> None:
        while peer.request():
            peer.pause(0.3)
            peer.send(http(HOT))

    with Loopback(hesitate) as server:
        supervisor.connect("cluster_1", connection(server.base))
        waiting = asyncio.ensure_future(first_event(HighCpuTrigger(conn_id="cluster_1", watch={"threshold": 85.0})))
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert value_of(await waiting)
    # A loop that stood still while the cluster thought would have made next to none.
    assert turns >= 10
