"""Readings that triggers share: who gets which, how often the cluster is asked, and that nobody is in another's way."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import NotFoundError
from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
from tests.unit.scripted_cluster import CONN_ID, ScriptedCluster
from tests.unit.search_cluster import node_id
from tests.unit.triggers.waiting_together import now, together, watch
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response


class TestOneReadingForMany:
    def test_many_that_begin_at_any_moment_make_no_more_requests_than_one(self, cluster: ScriptedCluster) -> None:
        seen: list[list[tuple[float, Any]]] = [[] for _ in range(200)]
        together(*(watch(mine, begin=0.047 * number) for number, mine in enumerate(seen)))
        # The first is served when it comes, all others begin within its interval.
        assert [at - START for at in cluster.times] == [0, 10, 20, 30]
        assert {tuple(at for at, _ in mine) for mine in seen} == {(0, 10, 20), (10, 20, 30)}
        assert cluster.opened == cluster.closed == 1

    def test_trigger_that_backs_off_is_left_alone(self, cluster: ScriptedCluster) -> None:
        async def back_off() -> list[float]:
            async with shared_cluster(CONN_ID) as shared:
                mine, got = shared.readings(None, 10), []
                for pause in (0, 40):
                    await mine.anext(pause)
                    got.append(now())
                return got

        got, *_ = together(back_off(), watch([], readings=8))
        assert got == [0, 40]
        assert len(cluster.asked) == 8

    def test_trigger_that_has_not_begun_is_left_alone(self, cluster: ScriptedCluster) -> None:
        async def begin_later() -> float:
            async with shared_cluster(CONN_ID) as shared:
                assert await shared.readings(None, 100).anext(15)
                return now()

        assert together(begin_later(), watch([], readings=4))[0] == 20
        assert len(cluster.asked) == 4

    def test_a_reading_under_way_serves_those_who_come_meanwhile(self, cluster: ScriptedCluster) -> None:
        cluster.latency = 3
        late: list[Any] = []
        together(watch([], readings=1), watch(late, begin=2, readings=1, interval=1))
        assert len(cluster.asked) == 1
        assert late == [(3, ["node-1", "node-2"])]


class TestDeadline:
    def test_a_reading_that_is_due_then_is_made(self, cluster: ScriptedCluster) -> None:
        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                mine = shared.readings(None, 10)
                assert await mine.anext(0, START + 5) is not None
                assert await mine.anext(5, START + 5) is not None
                assert now() == 5

        together(wait())
        assert len(cluster.asked) == 2

    def test_a_reading_that_takes_too_long_is_waited_for_half_a_minute(self, cluster: ScriptedCluster) -> None:
        cluster.latency = 60

        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                assert await shared.readings(None, 10).anext(0, START + 5) is None
                assert now() == 35

        together(wait())
        assert cluster.closed == 1


class TestNodes:
    def test_one_list_of_nodes_is_asked_for_as_it_is(self, cluster: ScriptedCluster) -> None:
        together(*(watch([], nodes="node-2, node-1", begin=number) for number in range(3)))
        assert set(cluster.selections) == {"node-2,node-1"}

    def test_several_lists_are_answered_by_one_request_for_all(self, cluster: ScriptedCluster) -> None:
        seen: dict[str, list[Any]] = {"node-1": [], node_id("node-2"): [], "node-*": [], "": []}
        together(*(watch(mine, nodes=nodes or None, readings=2) for nodes, mine in seen.items()))
        assert cluster.selections == ["", ""]
        both = ["node-1", "node-2"]
        assert [mine[1] for mine in seen.values()] == [
            (10, ["node-1"]),
            (10, ["node-2"]),
            (10, both),
            (10, both),
        ]

    def test_list_that_only_the_cluster_resolves_is_asked_for_once_for_all_who_want_it(
        self, cluster: ScriptedCluster
    ) -> None:
        local: list[Any] = []
        together(
            watch(local, nodes="_local"),
            watch([], nodes=["_local"], begin=1),
            watch([], nodes="node-2"),
            watch([], nodes="node-1,node-2"),
        )
        expected = [(at, nodes) for at in (0, 10, 20) for nodes in ("", "_local")] + [(30, "_local")]
        assert sorted((at - START, nodes) for at, nodes in cluster.asked) == expected
        assert local[0] == (0, ["node-1"])

    def test_a_node_that_does_not_exist_is_its_own_ones_trouble(self, cluster: ScriptedCluster) -> None:
        seen: list[Any] = []

        async def nobody() -> None:
            async with shared_cluster(CONN_ID) as shared:
                with pytest.raises(NotFoundError, match="knows no node 'nobody' or 'node-9'"):
                    await shared.readings("nobody,node-9", 10).anext(0)

        together(nobody(), watch(seen, nodes="node-1"), watch([], nodes="node-2"))
        assert [found for _, found in seen] == [["node-1"]] * 3
        assert cluster.selections == ["", "nobody,node-9", "", ""]


def test_reading_for_all_is_logged_in_nobodys_name(cluster: ScriptedCluster) -> None:
    """The triggerer writes a line to the log of the task whose trigger it finds in the context."""
    whose = contextvars.ContextVar("whose", default="nobody")
    found: list[str] = []
    answer = cluster.answer

    async def look(request: Request) -> Response:
        found.append(whose.get())
        return await answer(request)

    async def wait() -> None:
        whose.set("mine")
        await watch([], nodes="node-1")

    cluster.answer = look  # type: ignore[method-assign]
    together(wait(), watch([], nodes="node-2,nobody"), watch([], nodes="_local"))
    assert set(found) == {"nobody"}


def test_the_time_of_a_thousand_answers_is_shared_with_others(cluster: ScriptedCluster) -> None:
    """Between the answers others get their turn, so that no large crowd holds up the event loop."""
    woken: list[int] = []
    turns: list[int] = []

    async def wait() -> None:
        async with shared_cluster(CONN_ID) as shared:
            await shared.readings(None, 10).anext(0)
            woken.append(1)

    async def look_on() -> None:
        await asyncio.sleep(cluster.latency)
        while len(woken) < 1000:
            turns.append(len(woken))
            await asyncio.sleep(0)

    async def crowd() -> None:
        cluster.latency = 1
        await asyncio.gather(look_on(), *(wait() for _ in range(1000)))

    in_virtual_time(crowd())
    steps = [after - before for before, after in itertools.pairwise(turns)]
    assert max(steps) <= 50
