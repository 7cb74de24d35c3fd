"""Readings that triggers share: who gets which, how often the cluster is asked, and the session behind them."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    NotFoundError,
    ServiceUnavailableError,
    TemporaryError,
)
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
from tests.unit.scripted_cluster import CONN_ID, HOST, ScriptedCluster
from tests.unit.search_cluster import connection, error, node_id, replied
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.unit.conftest import Supervisor

DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)
DENIED = replied(error(401, "security_exception", "no such user"), 401)


def now() -> float:
    """Give the seconds since the beginning."""
    return asyncio.get_running_loop().time() - START


async def watch(
    seen: list[tuple[float, list[str | None]]],
    *,
    nodes: Any = None,
    interval: float = 10.0,
    begin: float = 0.0,
    readings: int = 3,
) -> None:
    """Wait as a trigger does, and write down when it saw which nodes."""
    await asyncio.sleep(begin)
    async with shared_cluster(CONN_ID) as shared:
        mine = shared.readings(nodes, interval)
        for number in range(readings):
            reading = await mine.anext(interval if number else 0.0)
            seen.append((now(), [node.name for node in reading.nodes]))


def together(*watches: Coroutine[Any, Any, Any]) -> list[Any]:
    """Let them wait at the same time; give what each returns."""

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*watches)

    return in_virtual_time(all_of_them())


class TestOneReadingForMany:
    def test_many_that_begin_at_any_moment_make_no_more_requests_than_one(self, cluster: ScriptedCluster) -> None:
        seen: list[list[tuple[float, Any]]] = [[] for _ in range(200)]
        together(*(watch(mine, begin=0.047 * number) for number, mine in enumerate(seen)))
        # The first is served when it comes, all others begin within its interval.
        assert [at - START for at in cluster.times] == [0, 10, 20, 30]
        assert {tuple(at for at, _ in mine) for mine in seen} == {(0, 10, 20), (10, 20, 30)}
        assert cluster.opened == cluster.closed == 1

    def test_first_reading_of_other_nodes_comes_at_once(self, cluster: ScriptedCluster) -> None:
        seen: list[Any] = []
        together(watch([], nodes="node-1"), watch(seen, nodes="node-2", begin=3, readings=1))
        assert seen == [(3, ["node-2"])]

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

    def test_a_reading_under_way_serves_those_who_come_meanwhile(self, cluster: ScriptedCluster) -> None:
        cluster.latency = 3
        late: list[Any] = []
        together(watch([], readings=1), watch(late, begin=2, readings=1, interval=1))
        assert len(cluster.asked) == 1
        assert late == [(3, ["node-1", "node-2"])]


class TestDeadline:
    def test_a_reading_that_takes_too_long_is_waited_for_half_a_minute(self, cluster: ScriptedCluster) -> None:
        cluster.latency = 60

        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                with pytest.raises(TemporaryError, match="too long after the time limit"):
                    await shared.readings(None, 10).anext(0, START + 5)
                assert now() == 35

        together(wait())
        assert cluster.closed == 1


class TestNodes:
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
            await asyncio.sleep(0)
            async with shared_cluster(CONN_ID) as shared:
                with pytest.raises(NotFoundError, match="knows no node 'nobody' or 'node-9'"):
                    await shared.readings("nobody,node-9", 10).anext(0)

        together(nobody(), watch(seen, nodes="node-1"), watch([], nodes="node-2"))
        assert [found for _, found in seen] == [["node-1"]] * 3
        assert cluster.selections == ["", "", ""]


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


class TestFailure:
    def test_all_who_wait_have_the_same_error_each_of_their_own(self, cluster: ScriptedCluster) -> None:
        cluster.trouble = DOWN

        async def fail() -> ServiceUnavailableError:
            async with shared_cluster(CONN_ID) as shared:
                with pytest.raises(ServiceUnavailableError) as caught:
                    await shared.readings(None, 10).anext(0)
                return caught.value

        errors = together(fail(), fail())
        assert errors[0].to_dict() == errors[1].to_dict()
        assert errors[0].status == 503
        assert errors[0] is not errors[1]
        assert len(cluster.asked) == 1

    def test_a_fault_of_ours_reaches_all_who_wait(self, cluster: ScriptedCluster) -> None:
        class OddError(Exception):
            def __init__(self, *, why: str) -> None:
                super().__init__(why)

        cluster.trouble = OddError(why="no copy can be made of it")

        async def fail() -> None:
            async with shared_cluster(CONN_ID) as shared:
                with pytest.raises(OddError, match="no copy"):
                    await shared.readings(None, 10).anext(0)

        together(fail(), fail())


class TestLeaving:
    def test_trigger_that_is_cancelled_leaves_at_once_and_harms_nobody(self, cluster: ScriptedCluster) -> None:
        cluster.latency = 4
        seen: list[Any] = []

        async def leave() -> None:
            first = asyncio.ensure_future(watch([]))
            await asyncio.sleep(2)
            # It is the one whose request is under way.
            first.cancel()
            await asyncio.sleep(0)
            assert first.cancelled()
            assert now() == 2

        together(leave(), watch(seen, begin=1))
        assert [at for at, _ in seen] == [4, 18, 32]
        assert (cluster.opened, cluster.closed) == (1, 1)

    def test_a_wish_of_one_who_left_makes_no_request(self, cluster: ScriptedCluster) -> None:
        async def leave() -> None:
            async with shared_cluster(CONN_ID) as shared:
                mine = shared.readings(None, 10)
                await mine.anext(0)
                waiting = asyncio.ensure_future(mine.anext(10))
                await asyncio.sleep(5)
                waiting.cancel()

        together(leave(), watch([], interval=50, readings=2))
        assert [at - START for at in cluster.times] == [0, 50]

    def test_the_last_one_out_breaks_off_what_is_under_way_and_closes_the_session(
        self, cluster: ScriptedCluster
    ) -> None:
        cluster.latency = 50

        async def leave() -> None:
            waiting = [asyncio.ensure_future(watch([])), asyncio.ensure_future(watch([], nodes="_local"))]
            await asyncio.sleep(1)
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert (now(), cluster.closed) == (1, 1)
            # Whoever comes now finds another one.
            cluster.latency = 0
            await watch([], readings=1)

        together(leave())
        assert (cluster.opened, cluster.closed) == (2, 2)


class TestConnection:
    def test_edited_connection_counts_within_five_minutes(
        self, cluster: ScriptedCluster, supervisor: Supervisor
    ) -> None:
        async def edit() -> None:
            await asyncio.sleep(15)
            supervisor.connect(CONN_ID, connection("https://new.example"))

        together(watch([], readings=40), watch([], interval=60, readings=10), edit())
        by_host = [
            [at - START for at, host in zip(cluster.times, cluster.hosts, strict=True) if host == one]
            for one in (HOST, "https://new.example")
        ]
        assert by_host[0][-1] == 290
        assert by_host[1][0] == 300
        assert (cluster.opened, cluster.closed) == (2, 2)

    def test_edited_connection_counts_from_the_next_failure_on(
        self, cluster: ScriptedCluster, supervisor: Supervisor
    ) -> None:
        seen: list[Any] = []

        async def edit() -> None:
            await asyncio.sleep(5)
            supervisor.connect(CONN_ID, connection("https://new.example"))
            await asyncio.sleep(10)
            cluster.trouble, cluster.troubled_host = DENIED, HOST

        together(watch(seen, readings=4), watch(seen, readings=4), edit())
        # The failure makes nobody's wait fail: there is another try at once.
        assert cluster.hosts == [HOST, HOST, HOST, "https://new.example", "https://new.example"]
        assert [at for at, _ in seen] == [0, 0, 10, 10, 20, 20, 30, 30]
        assert (cluster.opened, cluster.closed) == (2, 2)

    def test_connection_edited_to_one_that_cannot_be_used_fails_each_reading_until_it_is_right(
        self, cluster: ScriptedCluster, supervisor: Supervisor
    ) -> None:
        outcomes: list[str] = []

        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                mine = shared.readings(None, 100)
                for number in range(8):
                    if number == 2:
                        supervisor.connect(CONN_ID, connection(HOST, timeout="soon"))
                    if number == 6:
                        supervisor.connect(CONN_ID, connection(HOST))
                    try:
                        await mine.anext(100 if number else 0)
                    except InvalidConnectionError:
                        outcomes.append("invalid")
                    else:
                        outcomes.append("read")

        together(wait())
        assert outcomes == ["read"] * 3 + ["invalid"] * 3 + ["read"] * 2

    def test_edited_connection_counts_although_the_backend_fails_right_after_it_was_read(
        self, cluster: ScriptedCluster, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []
        fetch, is_away = SearchClusterHook.get_connection, False

        def fetched(conn_id: str) -> Any:
            nonlocal is_away
            if is_away:
                raise OSError("the vault is away")
            is_away = cluster.trouble is not None
            return fetch(conn_id)

        monkeypatch.setattr(SearchClusterHook, "get_connection", staticmethod(fetched))

        async def edit() -> None:
            await asyncio.sleep(5)
            supervisor.connect(CONN_ID, connection("https://new.example"))
            cluster.trouble, cluster.troubled_host = DENIED, HOST

        together(watch(seen, readings=3), edit())
        assert cluster.hosts == [HOST, HOST, "https://new.example", "https://new.example"]
        assert [at for at, _ in seen] == [0, 10, 20]

    def test_credentials_that_differ_at_each_fetch_are_tried_twice_a_reading_and_leave_no_session_open(
        self, cluster: ScriptedCluster, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A secrets backend that leases credentials gives others to each who asks."""
        leases, fetch = itertools.count(), SearchClusterHook.get_connection

        def leased(conn_id: str) -> Any:
            supervisor.connect(CONN_ID, connection(HOST, login="leased", password=f"lease-{next(leases)}"))
            return fetch(conn_id)

        monkeypatch.setattr(SearchClusterHook, "get_connection", staticmethod(leased))
        cluster.trouble = DENIED

        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                mine = shared.readings(None, 10)
                for _ in range(10):
                    with pytest.raises(AuthenticationError):
                        await mine.anext(10)

        together(wait())
        assert len(cluster.asked) == 20
        # Once to begin with, and once after each failure.
        assert next(leases) == 1 + 10
        assert cluster.opened == cluster.closed
        assert cluster.most_open <= 2

    def test_a_session_that_was_replaced_is_closed_and_its_last_call_answered(
        self, cluster: ScriptedCluster, supervisor: Supervisor
    ) -> None:
        cluster.trouble, cluster.troubled_host, cluster.latency = DENIED, HOST, 5

        async def replace() -> None:
            async with shared_cluster(CONN_ID) as shared:
                reading = asyncio.ensure_future(shared.readings("node-1", 10).anext(0))
                await asyncio.sleep(2)
                call = asyncio.ensure_future(shared.hook.arun(shared.hook.asking(node_stats(None))))
                supervisor.connect(CONN_ID, connection("https://new.example"))
                await asyncio.sleep(4)
                cluster.trouble = None
                # The reading has failed by the session that the call still uses.
                assert (cluster.opened, cluster.closed) == (2, 1)
                assert len((await call).nodes) == 2
                assert await reading is not None

        together(replace())
        assert cluster.hosts == [HOST, HOST, "https://new.example"]
        assert (cluster.opened, cluster.closed) == (2, 2)
