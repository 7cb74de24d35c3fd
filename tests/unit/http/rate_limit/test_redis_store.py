"""What is particular to schedules on a Redis: the server, its address, and what a restart may lose."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.drivers import arun
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted, Slot
from tests.redis_server import running_redis
from tests.unit.conversations import on_a_loop
from tests.unit.http.rate_limit.rate_stores import wait_for_returned_slots
from tests.unit.http.rate_limit.redis_errors import NEXT, error_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from tests.redis_server import RedisServer

ROOT = Path(__file__).parents[4]
COOLDOWN = 10_000.0


def wait_of(answer: object) -> float:
    assert isinstance(answer, Slot), answer
    return answer.wait


def test_all_who_use_the_server_share_what_is_in_it(server: RedisServer, store: RedisStore) -> None:
    other = RedisStore(server.url)
    waits = [wait_of(each.apply("key", NEXT, COOLDOWN)) for each in (store, other, store)]
    other.close()
    assert waits == pytest.approx([10_000.0, 11_000.0, 12_000.0], abs=400.0)


def test_the_servers_clock_counts(server: RedisServer, store: RedisStore) -> None:
    slot = store.apply("key", NEXT, COOLDOWN)
    assert isinstance(slot, Slot)
    with Redis.from_url(server.url) as client:
        seconds, _ = client.time()
    assert slot.due == pytest.approx(seconds + COOLDOWN, abs=400.0)


def test_a_schedule_that_nobody_uses_is_forgotten_in_the_end(server: RedisServer, store: RedisStore) -> None:
    store.apply("key", NEXT, 0.0)
    store.apply("spent", ExhaustQuota(86_000.0), 0.0)
    with Redis.from_url(server.url) as client:
        assert 87_000 < client.ttl("mediaops:rate:2:key") <= 87_401
        # Not before its quota comes back.
        assert client.ttl("mediaops:rate:2:spent") > 172_000


def test_options_of_the_address_are_heeded(server: RedisServer) -> None:
    store = RedisStore(f"{server.url}?decode_responses=true&socket_timeout=240.5")
    assert wait_of(store.apply("key", NEXT, COOLDOWN)) == pytest.approx(COOLDOWN, abs=400.0)
    assert store.where == server.url
    store.close()


class TestCancelledCallers:
    def test_their_slots_are_given_back_without_waiting_for_the_server(self, store: RedisStore) -> None:
        store.apply("key", NEXT, 0.0)
        slots = [store.apply("key", NEXT, 0.0) for _ in range(20)]
        for slot in slots:
            assert isinstance(slot, Slot)
            store.release("key", Release(1_000.0, slot), 0.0)
        wait_for_returned_slots()
        assert wait_of(store.apply("key", NEXT, 0.0)) == pytest.approx(1_000.0, abs=400.0)

    def test_a_server_that_hangs_holds_up_nobody_but_the_thread_and_that_only_once(self) -> None:
        answers, calls = threading.Event(), list[str]()

        class HangingStore(RedisStore):
            def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
                calls.append(name)
                answers.wait(240)
                raise RateStoreError("It does not answer.")

        store = HangingStore("redis://host")
        for number in range(200):
            store.release(f"key-{number}", Release(1_000.0, Slot(1.0, 2.0, 3.0, 4.0)), 0.0)
        answers.set()
        wait_for_returned_slots()
        # The time limit of one call, not of 200.
        assert calls == ["key-0"]


@pytest.mark.long
class TestAFailover:
    def test_a_replica_that_takes_over_makes_no_burst(
        self, tmp_path: Path, server: RedisServer, store: RedisStore
    ) -> None:
        """It was never restarted, and may lack the latest requests."""
        (tmp_path / "replica").mkdir()
        store.apply("key", NEXT, 0.0)
        with running_redis(tmp_path / "replica", "--replicaof", f"127.0.0.1 {server.port}") as replica:
            with Redis.from_url(replica.url) as client:
                deadline = time.monotonic() + 240
                while not client.exists("mediaops:rate:2:key"):
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                after = RedisStore(replica.url)
                error = error_of(after)
                assert "is a replica" in error.message
                assert "the primary" in error.message
                server.stop()
                client.replicaof("NO", "ONE")
            assert wait_of(after.apply("key", NEXT, COOLDOWN)) == pytest.approx(11_000.0, abs=400.0)
            # Once is enough.
            assert wait_of(after.apply("key", NEXT, COOLDOWN)) == pytest.approx(12_000.0, abs=400.0)
            after.close()


class TestUnreadableSchedules:
    @pytest.mark.parametrize(
        "fields",
        [
            {"sent": " " * 1_000_000},
            {"next_free": "nan"},
            {"shift": "inf"},
            {"epoch": "text"},
            {"sent": "1 2 x"},
            {"vacant": "nan"},
            {"seen": ""},
        ],
    )
    def test_one_that_is_not_ours_begins_anew(
        self, server: RedisServer, store: RedisStore, fields: dict[str, str]
    ) -> None:
        store.apply("key", NEXT, 0.0)
        with Redis.from_url(server.url) as client:
            client.hset("mediaops:rate:2:key", mapping=fields)
        assert wait_of(store.apply("key", NEXT, COOLDOWN)) == pytest.approx(10_000.0, abs=400.0)

    def test_a_key_of_another_kind_is_an_error(self, server: RedisServer, store: RedisStore) -> None:
        with Redis.from_url(server.url) as client:
            client.set("mediaops:rate:2:key", "text")
        assert "choose another database" in error_of(store).message


class TestARestart:
    def test_one_that_has_lost_everything_makes_no_burst(self, server: RedisServer, store: RedisStore) -> None:
        store.apply("key", NEXT, 0.0)
        held = store.apply("key", NEXT, 0.0)
        assert isinstance(held, Slot)
        with Redis.from_url(server.url) as client:
            client.flushall()
        server.stop()
        server.start()
        again = store.apply("key", replace(NEXT, held=held), COOLDOWN)
        assert wait_of(again) == pytest.approx(10_000.0, abs=400.0)
        assert wait_of(store.apply("key", NEXT, COOLDOWN)) == pytest.approx(11_000.0, abs=400.0)

    def test_one_that_has_kept_everything_waits_a_little_all_the_same(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        """It cannot tell whether the last second of its data is there."""
        store.apply("key", NEXT, 0.0)
        waiting = store.apply("key", NEXT, 0.0)
        assert isinstance(waiting, Slot)
        server.stop()
        server.start()
        # The third slot, and after it one that has kept its place.
        assert wait_of(store.apply("key", NEXT, COOLDOWN)) == pytest.approx(12_000.0, abs=400.0)
        assert wait_of(store.apply("key", replace(NEXT, held=waiting), COOLDOWN)) == pytest.approx(11_000.0, abs=400.0)

    def test_a_quota_that_is_used_up_is_still_known(self, server: RedisServer, store: RedisStore) -> None:
        store.apply("key", ExhaustQuota(3_600.0), 0.0)
        server.stop()
        server.start()
        answer = store.apply("key", NEXT, 0.0)
        assert isinstance(answer, QuotaExhausted)
        assert answer.seconds == pytest.approx(3_602.0, abs=400.0)

    def test_a_command_that_only_tells_something_is_as_careful(self, server: RedisServer, store: RedisStore) -> None:
        store.apply("key", NEXT, 0.0)
        server.stop()
        server.start()
        store.apply("key", ExhaustQuota(-10.0), COOLDOWN)
        assert wait_of(store.apply("key", NEXT, COOLDOWN)) > 9_600.0


def test_nothing_is_opened_before_it_is_used() -> None:
    RedisStore("redis://127.0.0.1:1").close()


def test_loops_that_come_and_go_share_it(store: RedisStore) -> None:
    async def take_many() -> list[float]:
        async def take() -> float:
            return wait_of(await arun(store.ask("key", NEXT, COOLDOWN), _send_nothing, in_thread=asyncio.to_thread))

        return list(await asyncio.gather(*(take() for _ in range(10))))

    waits = [*on_a_loop(take_many()), *on_a_loop(take_many())]
    assert sorted(waits) == pytest.approx([10_000.0 + 1_000.0 * number for number in range(20)], abs=400.0)
    assert store.reached


async def _send_nothing(request: Request) -> Response:
    raise AssertionError(request)


_FORK = """
import os, sys
from airflow_provider_mediaops.http.rate_limit.operations import Reserve
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
store = RedisStore(sys.argv[1])
take = lambda: store.apply("key", Reserve(1.0, 1, 0.9, 1e9), 60.0).position
seen = {take()}
read, write = os.pipe()
child = os.fork()
if not child:
    os.write(write, repr([take() for _ in range(20)]).encode())
    os._exit(0)
seen.update(take() for _ in range(20))
_, status = os.waitpid(child, 0)
seen.update(eval(os.read(read, 65536)))
sys.exit(status or len(seen) != 41)
"""


def test_a_process_that_was_forked_has_connections_of_its_own(server: RedisServer) -> None:
    subprocess.run([sys.executable, "-c", _FORK, server.url], cwd=ROOT, check=True, timeout=240)
