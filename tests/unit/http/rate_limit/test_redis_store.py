"""What is particular to schedules on a Redis: the server, its address, and what a restart may lose."""

from __future__ import annotations

import asyncio
import socketserver
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.drivers import arun
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release, Reserve
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, QuotaExhausted, Slot
from tests.redis_server import PROGRAM, running_redis
from tests.unit.conversations import on_a_loop
from tests.unit.loopback import closed_port, deaf_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from tests.redis_server import RedisServer

ROOT = Path(__file__).parents[3]
# Slots so far apart that no machine is too busy to tell one from the next.
NEXT = Reserve(1_000.0, 1, 900.0, 1e9)
COOLDOWN = 10_000.0
PASSWORD = "p/ss w%rd"
QUOTED = "p%2Fss%20w%25rd"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, which writes everything to the disk."""
    if not PROGRAM:
        pytest.skip("no Redis: Debian's package redis-server is not installed")
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as running:
        yield running


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    opened = RedisStore(f"{server.url}?socket_timeout=240")
    yield opened
    opened.close()


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
        for thread in threading.enumerate():
            if thread.name == "mediaops-rate-release":
                thread.join(240)
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
        for thread in threading.enumerate():
            if thread.name == "mediaops-rate-release":
                thread.join(240)
        # The time limit of one call, not of 200.
        assert calls == ["key-0"]


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


def error_of(store: RedisStore) -> RateStoreError:
    with pytest.raises(RateStoreError) as caught:
        store.apply("key", NEXT, 0.0)
    store.close()
    told = "".join(traceback.format_exception(caught.value)) + repr(store)
    for secret in (PASSWORD, QUOTED, "s3cr3t"):
        assert secret not in told
    assert caught.value.temporary
    assert store.where in caught.value.message
    assert "rate_limit_store" in caught.value.message
    return caught.value


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Serve this reply to every command, as something that is no Redis may."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(65_536):
                self.request.sendall(reply)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{listener.server_address[1]}?lib_name=&lib_version="
        finally:
            listener.shutdown()
            thread.join()


class TestWhatAServerAnswers:
    @pytest.mark.parametrize(
        ("reply", "advice"),
        [
            (b"-MOVED 3999 127.0.0.1:6381\r\n", "Redis Cluster is not supported"),
            (b"-CLUSTERDOWN The cluster is down\r\n", "Redis Cluster is not supported"),
            (b"-READONLY You can't write against a read only replica.\r\n", "the primary"),
            (b"-LOADING Redis is loading the dataset in memory\r\n", "reading its data"),
            (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "more memory"),
            (b"-NOAUTH Authentication required.\r\n", "credentials"),
            (b"-NOPERM this user has no permissions to run the 'evalsha' command\r\n", "Let its user run EVAL"),
            (b"-NOSCRIPT No matching script\r\n", "Make sure"),
            (b"$5\r\nhello\r\n", "does not answer as a Redis does"),
            (b"*2\r\n$4\r\nslot\r\n$1\r\nx\r\n", "does not answer as a Redis does"),
            (b"*1\r\n$5\r\nother\r\n", "does not answer as a Redis does"),
            (b":7\r\n", "does not answer as a Redis does"),
            (b"*1\r\n" * 5_000, "does not answer as a Redis does"),
            (b"*2\r\n$9\r\nexhausted\r\n$3\r\ninf\r\n", "does not answer as a Redis does"),
            (b"*2\r\n$10\r\noverbooked\r\n$5\r\n1e300\r\n", "does not answer as a Redis does"),
            (b"*2\r\n$9\r\nexhausted\r\n$0\r\n\r\n", "does not answer as a Redis does"),
            (
                b"*6\r\n$4\r\nslot\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$2\r\n-5\r\n$0\r\n\r\n",
                "does not answer as a Redis does",
            ),
            (b"-NOREPLICAS Not enough good replicas to write.\r\n", "min-replicas-to-write"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Make sure"),
        ],
    )
    def test_it_is_an_error_that_says_what_to_do(self, reply: bytes, advice: str) -> None:
        with answering(reply) as address:
            assert advice in error_of(RedisStore(address)).message


class TestServersThatCannotBeUsed:
    def test_nobody_listens(self) -> None:
        port = closed_port()
        error = error_of(RedisStore(f"redis://me:{QUOTED}@127.0.0.1:{port}/3?socket_timeout=1"))
        assert f"redis://127.0.0.1:{port}/3 cannot be used: " in error.message
        assert "refused" in error.message

    def test_one_that_does_not_answer(self) -> None:
        with deaf_port() as port:
            error = error_of(RedisStore(f"redis://127.0.0.1:{port}?socket_connect_timeout=0.1"))
        assert "Timeout" in error.message or "timed out" in error.message

    def test_a_password_that_is_wrong_or_missing(self, server: RedisServer) -> None:
        with Redis.from_url(server.url) as client:
            client.config_set("requirepass", PASSWORD)
        assert "invalid" in error_of(RedisStore(f"redis://:s3cr3t@127.0.0.1:{server.port}")).message
        assert "authenticat" in error_of(RedisStore(server.url)).message.lower()
        right = RedisStore(f"redis://:{QUOTED}@127.0.0.1:{server.port}")
        assert isinstance(right.apply("key", NEXT, 0.0), Granted)
        assert PASSWORD in right.secrets
        assert QUOTED not in repr(right)
        right.close()

    def test_one_that_is_full(self, server: RedisServer, store: RedisStore) -> None:
        with Redis.from_url(server.url) as client:
            client.config_set("maxmemory", "1")
        assert "more memory (maxmemory)" in error_of(store).message

    @pytest.mark.parametrize(
        "address", ["redis://", "redis://:s3cr3t@", "redis://:s3cr3t@host:port", "redis://[::1:6379", "rediss:///0"]
    )
    def test_an_address_that_is_none(self, address: str) -> None:
        with pytest.raises(ValueError, match=r"redis://host\[:port\]") as caught:
            RedisStore(address)
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize("option", ["socket_timeout=soon", "wrong=s3cr3t"])
    def test_an_option_that_is_none(self, option: str) -> None:
        store = RedisStore(f"redis://:{QUOTED}@127.0.0.1:{closed_port()}/3?{option}")
        with pytest.raises(
            ValueError, match=r"rate store redis://127\.0\.0\.1:\d+/3 has an option .* not take"
        ) as caught:
            store.apply("key", NEXT, 0.0)
        told = "".join(traceback.format_exception(caught.value))
        assert not any(secret in told for secret in (PASSWORD, QUOTED, "s3cr3t"))

    @pytest.mark.parametrize("option", ["retry=1", "encoding=nope", "db=0&encoding=%00"])
    def test_an_option_that_would_break_every_command(self, option: str) -> None:
        address = f"redis://:s3cr3t@host/3?{option}"
        with pytest.raises(ValueError, match=r"has an option .* not take: (retry|encoding)") as caught:
            RedisStore(address)
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))

    def test_the_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("airflow_provider_mediaops.http.rate_limit.redis_store.find_spec", lambda _: None)
        with pytest.raises(ValueError, match=r"pip install 'airflow-provider-mediaops\[redis\]'"):
            RedisStore("redis://host")


def test_an_address_is_shown_without_what_is_secret_or_an_option() -> None:
    store = RedisStore("rediss://me:s3cr3t@[::1]:6380/2?ssl_cert_reqs=none")
    assert store.where == "rediss://[::1]:6380/2"


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("redis://host", ()),
        ("redis://me@host", ()),
        (f"redis://:{QUOTED}@host", (PASSWORD, QUOTED)),
        ("redis://host?password=s3cr3t", ("s3cr3t", "s3cr3t")),
    ],
)
def test_what_is_secret_of_an_address_is_known(address: str, secrets: tuple[str, ...]) -> None:
    assert RedisStore(address).secrets == secrets


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


def test_threads_get_different_slots(store: RedisStore) -> None:
    positions = list[float]()

    def take() -> None:
        for _ in range(25):
            answer = store.apply("key", NEXT, COOLDOWN)
            assert isinstance(answer, Slot)
            positions.append(answer.position)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(set(positions)) == 100


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
