"""The session behind shared readings: its failures, who leaves, when it is closed, and the connection it is made of."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
from tests.unit.scripted_cluster import CONN_ID, HOST, ScriptedCluster
from tests.unit.search_cluster import connection, error, replied
from tests.unit.triggers.waiting_together import now, together, watch
from tests.unit.virtual_time import START

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)
DENIED = replied(error(401, "security_exception", "no such user"), 401)


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
    def test_connection_is_fetched_when_it_is_needed_and_may_be_missing(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
    ) -> None:
        monkeypatch.delenv(f"AIRFLOW_CONN_{CONN_ID.upper()}")

        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                mine = shared.readings(None, 10)
                with pytest.raises(InvalidConnectionError, match=CONN_ID):
                    await mine.anext(0)
                supervisor.connect(CONN_ID, connection(HOST))
                assert await mine.anext(10) is not None

        together(wait())

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

    def test_credentials_that_differ_at_each_fetch_leave_no_session_open(
        self, cluster: ScriptedCluster, supervisor: Supervisor
    ) -> None:
        """A secrets backend that leases credentials gives others at each fetch: every failing reading has a session."""
        leases = itertools.count()
        cluster.trouble = DENIED

        async def wait() -> None:
            async with shared_cluster(CONN_ID) as shared:
                mine = shared.readings(None, 10)
                for _ in range(20):
                    supervisor.connect(CONN_ID, connection(HOST, login="leased", password=f"lease-{next(leases)}"))
                    with pytest.raises(AuthenticationError):
                        await mine.anext(10)
                assert cluster.opened - cluster.closed == 1

        together(wait())
        assert cluster.opened == cluster.closed == 20
        assert cluster.most_open <= 2

    def test_a_session_that_was_replaced_is_closed_and_its_last_call_answered(
        self, cluster: ScriptedCluster, supervisor: Supervisor
    ) -> None:
        cluster.trouble, cluster.troubled_host, cluster.latency = DENIED, HOST, 5

        async def replace() -> None:
            async with shared_cluster(CONN_ID) as shared:
                reading = asyncio.ensure_future(shared.readings("node-1", 10).anext(0))
                await asyncio.sleep(2)
                call = asyncio.ensure_future(shared.aask(node_stats(None)))
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
