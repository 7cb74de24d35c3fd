"""What is particular to states on a Redis: the server, its rights, its address, and its errors."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend
from tests.unit.http.rate_limit.test_backends import increment
from tests.unit.loopback import Loopback, deaf_port

if TYPE_CHECKING:
    from tests.redis_server import RedisServer
    from tests.unit.loopback import Peer

PAGE = (Path(__file__).parents[4] / "docs" / "deployment.md").read_text()
[LINE] = re.findall(r"^ACL SETUSER mediaops on >PASSWORD (.+)$", PAGE, re.MULTILINE)
COMMANDS = [rule for rule in LINE.split() if rule.startswith("+")]
PASSWORD = "p/ss w%rd"
QUOTED = "p%2Fss%20w%25rd"


def error_of(backend: RedisBackend) -> RateStoreError:
    with pytest.raises(RateStoreError) as caught:
        backend.update("key", increment)
    told = "".join(traceback.format_exception(caught.value)) + repr(backend)
    assert not any(secret in told for secret in (PASSWORD, QUOTED, "s3cr3t"))
    assert caught.value.temporary
    for words in (backend.where, "rate_limit_store"):
        assert words in caught.value.message
    return caught.value


def test_an_update_between_look_and_write_is_not_lost(server: RedisServer) -> None:
    backend, others = RedisBackend(server.url), RedisBackend(server.url)
    meddled = list[int]()

    def change(text: str | None, now: float) -> tuple[str, int]:
        if len(meddled) < 3:
            meddled.append(others.update("key", increment))
        return increment(text, now)

    assert backend.update("key", change) == 4
    assert meddled == [1, 2, 3]


def test_others_that_are_always_faster_are_an_error_that_may_pass(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_mediaops.http.rate_limit.redis_backend.BUSY_SECONDS", -1.0)
    with Redis.from_url(server.url) as client:
        backend = RedisBackend(f"{server.url}?socket_timeout=240&socket_connect_timeout=240")

        def change(_text: str | None, now: float) -> tuple[str, None]:
            client.set("mediaops:rate:key", str(now))
            return "mine", None

        with pytest.raises(RateStoreError, match="too many others change the same key"):
            backend.update("key", change)
    # So the limiter waits, also if this was the first use.
    assert backend.has_worked


def test_a_state_that_nobody_uses_is_forgotten_after_all_that_it_says(server: RedisServer) -> None:
    RedisBackend(server.url).update("key", increment)
    with Redis.from_url(server.url) as client:
        # A pause and a quota are at most a day.
        assert client.ttl("mediaops:rate:key") > 2 * 86_400


def test_a_server_that_went_away_is_used_again(server: RedisServer) -> None:
    backend = RedisBackend(server.url)
    backend.update("key", increment)
    server.stop()
    error_of(backend)
    assert f"{server.url} cannot be used: " in error_of(backend).message
    assert "refused" in error_of(backend).message
    server.start()
    assert backend.update("key", increment) == 1


def test_a_task_that_is_stopped_amid_an_update_leaves_no_replies_to_the_next(server: RedisServer) -> None:
    backend = RedisBackend(server.url)
    backend.update("key", increment)

    def stop(_text: str | None, _now: float) -> tuple[str, None]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backend.update("key", stop)
    assert backend.update("key", increment) == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"-MOVED 3999 127.0.0.1:6381\r\n", "3999"),
        (b"-CLUSTERDOWN The cluster is down\r\n", "The cluster is down"),
        (b"-READONLY You can't write against a read only replica.\r\n", "read only replica"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "is loading the dataset"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "'maxmemory'"),
        (b"-NOAUTH Authentication required.\r\n", "Authentication required"),
        (b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "wrong kind of value"),
        (b"-NOREPLICAS Not enough good replicas to write.\r\n", "good replicas"),
        *((reply * 4, "the address is that of a Redis") for reply in (b"$5\r\nhello\r\n", b":7\r\n", b"*0\r\n")),
        (b"*1\r\n" * 5_000, "RecursionError"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Make sure"),
    ],
)
def test_an_answer_that_cannot_be_used_is_told_in_the_words_of_the_server(reply: bytes, words: str) -> None:
    def serve(peer: Peer) -> None:
        while peer.socket.recv(65_536):
            peer.send(reply)

    with Loopback(serve) as server:
        address = f"redis://127.0.0.1:{server.port}?lib_name=&lib_version=&socket_timeout=1"
        assert words in error_of(RedisBackend(address)).message


def test_a_server_that_does_not_answer_is_an_error() -> None:
    with deaf_port() as port:
        error = error_of(RedisBackend(f"redis://127.0.0.1:{port}?socket_connect_timeout=0.1"))
    assert "Timeout" in error.message or "timed out" in error.message


def test_a_password_that_is_wrong_or_missing_is_an_error(server: RedisServer) -> None:
    with Redis.from_url(server.url) as client:
        client.config_set("requirepass", PASSWORD)
    assert "invalid" in error_of(RedisBackend(f"redis://:s3cr3t@127.0.0.1:{server.port}")).message
    assert "authenticat" in error_of(RedisBackend(server.url)).message.lower()
    right = RedisBackend(f"redis://:{QUOTED}@127.0.0.1:{server.port}")
    assert right.update("key", increment) == 1
    assert right.secrets == (PASSWORD, QUOTED)


@pytest.mark.parametrize("option", ["socket_timeout=soon", "wrong=s3cr3t", "retry=1", "encoding=nope", "protocol=x"])
def test_an_option_that_redis_py_does_not_take_is_an_error(server: RedisServer, option: str) -> None:
    assert "with options that redis-py takes" in error_of(RedisBackend(f"{server.url}?{option}")).message


def test_options_of_the_address_are_heeded(server: RedisServer) -> None:
    backend = RedisBackend(f"{server.url}?decode_responses=true&socket_timeout=240.5&max_connections=1")
    assert [backend.update("key", increment) for _ in range(2)] == [1, 2]
    assert backend.where == server.url


@pytest.mark.parametrize(
    "address", ["redis://", "redis://:s3cr3t@", "redis://:s3cr3t@host:port", "redis://[::1:6379", "rediss:///0"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"redis://host\[:port\]") as caught:
        RedisBackend(address)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_an_address_is_shown_without_secrets_and_options() -> None:
    assert RedisBackend("rediss://me:s3cr3t@[::1]:6380/2?ssl_cert_reqs=none").where == "rediss://[::1]:6380/2"
    assert RedisBackend("redis://host?password=s3cr3t").secrets == ("s3cr3t", "s3cr3t")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_mediaops.http.rate_limit.redis_backend.find_spec", lambda _: None)
    with pytest.raises(ValueError, match="needs the package redis: install this provider's extra 'redis'"):
        RedisBackend("redis://host")


class TestTheRightsOfThePage:
    """The user of docs/deployment.md has the rights that the limiter needs, and no others."""

    @staticmethod
    def address_of(server: RedisServer, rules: list[str]) -> str:
        with Redis.from_url(server.url) as client:
            client.execute_command("ACL", "SETUSER", "mediaops", "reset", "on", ">s3cr3t", *rules)
        return f"redis://mediaops:s3cr3t@127.0.0.1:{server.port}/1?socket_timeout=240"

    @staticmethod
    def use_all(backend: RedisBackend) -> None:
        for _ in range(2):
            backend.update("key", increment)
        backend.forget("key")
        assert backend.read("key")[0] is None

    def test_they_suffice(self, server: RedisServer) -> None:
        self.use_all(RedisBackend(self.address_of(server, LINE.split())))

    @pytest.mark.parametrize("command", COMMANDS)
    def test_none_of_them_is_too_many(self, server: RedisServer, command: str) -> None:
        backend = RedisBackend(self.address_of(server, [rule for rule in LINE.split() if rule != command]))
        with pytest.raises(RateStoreError, match=rf"no permissions .*'{command[1:]}'"):
            self.use_all(backend)

    @pytest.mark.parametrize(
        "command",
        [
            *("SET celery-task-meta result", "GETRANGE _kombu.binding.celery 0 9", "GET mediaops:rate:key"),
            *("HGET mediaops:rate:key field", "FLUSHDB", "CONFIG GET *", "KEYS *", "EVAL return 0"),
        ],
    )
    def test_they_reach_nothing_of_other_programs(self, server: RedisServer, command: str) -> None:
        with (
            Redis.from_url(self.address_of(server, LINE.split())) as client,
            pytest.raises(NoPermissionError),
        ):
            client.execute_command(*command.split())
