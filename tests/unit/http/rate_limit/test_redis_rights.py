"""The user of docs/deployment.md has the rights that the limiter needs on a Redis, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release, RestoreQuota, SlowDown
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Slot
from tests.unit.http.rate_limit.redis_errors import NEXT

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

PAGE = (Path(__file__).parents[4] / "docs" / "deployment.md").read_text()
[LINE] = re.findall(r"^ACL SETUSER mediaops on >PASSWORD (.+)$", PAGE, re.MULTILINE)
COMMANDS = [rule for rule in LINE.split() if rule.startswith("+")]


def address_of(server: RedisServer, rules: list[str]) -> str:
    """Make the user with these rules, and return the address of a database with a number of its own."""
    with Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "mediaops", "reset", "on", ">s3cr3t", *rules)
    return f"redis://mediaops:s3cr3t@127.0.0.1:{server.port}/1?socket_timeout=240"


def use_all(store: RedisStore) -> None:
    """Do everything that tasks and `airflow mediaops rate` do with a store."""
    assert isinstance(store.apply("key", NEXT, 0.0), Granted)
    slot = store.apply("key", NEXT, 0.0)
    assert isinstance(slot, Slot)
    store.apply("key", Release(1_000.0, slot), 0.0)
    store.apply("key", SlowDown(1_000.0, 1.0, epoch=-1.0), 0.0)
    store.apply("key", ExhaustQuota(10.0), 0.0)
    store.apply("key", RestoreQuota(), 0.0)
    assert store.read("key")
    assert store.names() == ["key"]
    store.forget("key")
    assert store.read("key") is None


def test_they_suffice(server: RedisServer) -> None:
    store = RedisStore(address_of(server, LINE.split()))
    use_all(store)
    store.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_none_of_them_is_too_many(server: RedisServer, command: str) -> None:
    store = RedisStore(address_of(server, [rule for rule in LINE.split() if rule != command]))
    with pytest.raises(RateStoreError, match=rf"Let its user run .*\b{command[1:].upper()}\b"):
        use_all(store)
    store.close()


@pytest.mark.parametrize(
    "command",
    [
        "HSET celery-task-meta result 1",
        "HMGET _kombu.binding.celery field",
        "GET mediaops:rate:2:key",
        "DEL mediaops:rate:2:key",
        "FLUSHDB",
        "CONFIG GET *",
        "KEYS *",
    ],
)
def test_they_reach_nothing_of_other_programs(server: RedisServer, command: str) -> None:
    with Redis.from_url(address_of(server, LINE.split())) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split())


def test_nor_does_a_script(server: RedisServer) -> None:
    with (
        Redis.from_url(address_of(server, LINE.split())) as client,
        pytest.raises(ResponseError, match="ermission"),
    ):
        client.eval("return redis.call('HMGET', KEYS[1], 'field')", 1, "_kombu.binding.celery")
