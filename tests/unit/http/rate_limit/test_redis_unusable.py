"""Servers that are no Redis or cannot be used, and addresses: errors that say what to do, free of credentials."""

from __future__ import annotations

import socketserver
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted
from tests.unit.http.rate_limit.redis_errors import NEXT, PASSWORD, QUOTED, error_of
from tests.unit.loopback import closed_port, deaf_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis_server import RedisServer


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
            (b"-NOPERM this user has no permissions to run the 'evalsha' command\r\n", "Let its user run SELECT, EVAL"),
            (b"-ERR The user executing the script can't run this command or subcommand\r\n", "Let its user run SELECT"),
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
        with pytest.raises(ValueError, match="needs the package redis: install this provider's extra 'redis' on every"):
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
