"""What people are shown of a key's rate, read off each of the stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.key_state import KeyState
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, SlowDown
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Schedule, Slot
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import Key, damage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.redis_server import RedisServer


def state_of(key: Key, *, rate_is_known: bool = True) -> KeyState:
    reading = key.store.read(key.name)
    assert reading
    return KeyState.of(*reading, key.gap if rate_is_known else None)


def test_a_key_that_nobody_has_used_has_no_state(key: Key) -> None:
    assert key.store.read(key.name) is None
    assert key.name not in key.store.names()


def test_a_key_is_free_again_after_a_request(key: Key) -> None:
    key.go()
    key.wait(1.5)
    assert state_of(key) == KeyState(0.0, 0.0, 0.0, 0, 1.0, 1.5)
    assert state_of(key).state == "free"


def test_slots_that_are_waited_for_are_reserved(key: Key) -> None:
    key.go()
    for _ in range(3):
        key.slot()
    key.wait(0.25)
    state = state_of(key)
    assert (state.state, state.reserved) == ("reserved", 3)
    assert state.reserved_seconds == pytest.approx(3.75)
    assert state.idle_seconds == pytest.approx(0.25)


def test_a_slot_that_was_returned_is_not_reserved(key: Key) -> None:
    key.go()
    _, second, _ = key.slot(), key.slot(), key.slot()
    key.release(second)
    assert state_of(key).reserved == 2 + 1  # the first of the four is due just now
    key.wait(0.5)
    assert state_of(key).reserved == 2


def test_without_the_rate_the_time_is_known_and_the_number_is_not(key: Key) -> None:
    key.go()
    key.slot()
    state = state_of(key, rate_is_known=False)
    assert (state.state, state.reserved) == ("reserved", None)
    assert state.reserved_seconds == pytest.approx(2.0)


def test_a_pause_is_shown_with_what_waits_behind_it(key: Key) -> None:
    key.go()
    key.slot()
    key.pause(20.0)
    key.wait(5.0)
    state = state_of(key)
    assert (state.state, state.reserved) == ("paused", 2)
    assert state.paused_seconds == pytest.approx(15.0)


def test_a_key_that_was_refused_is_slowed_down(key: Key) -> None:
    granted = key.go()
    key.do(SlowDown(key.gap, 0.0, granted.epoch))
    assert state_of(key).rate_factor == pytest.approx(0.7)


def test_a_quota_that_is_used_up_counts_for_more_than_a_pause(key: Key) -> None:
    key.go()
    key.pause(20.0)
    key.do(ExhaustQuota(3600.0))
    state = state_of(key)
    assert state.state == "exhausted"
    assert state.exhausted_seconds == pytest.approx(3602.0)


def test_reading_changes_nothing(key: Key) -> None:
    key.go()
    slot = key.slot()
    for _ in range(3):
        key.wait(0.1)
        state_of(key)
    assert isinstance(key.come_back(slot), Granted)


def test_the_names_of_the_keys_are_listed(key: Key) -> None:
    other = Key(key.store, key.clock)
    key.go()
    other.go()
    assert {key.name, other.name} <= set(key.store.names())


def test_a_key_that_is_forgotten_begins_anew(key: Key) -> None:
    key.go()
    waiting = key.slot()
    key.pause(500.0)
    key.do(ExhaustQuota(3600.0))
    key.store.forget(key.name)
    assert key.store.read(key.name) is None
    assert key.name not in key.store.names()
    # As carefully as a key whose schedule was lost; a caller that has waited does not send at its former slot.
    key.cooldown = 1.0
    key.wait(waiting.wait)
    again = key.ask(waiting)
    if isinstance(key.store, (SqliteStore, RedisStore)):
        assert isinstance(again, Slot)
        assert again.wait == pytest.approx(1.0)


def test_to_forget_a_key_that_is_not_there_is_no_error(key: Key) -> None:
    key.store.forget(key.name)


def test_a_damaged_schedule_is_none(key: Key) -> None:
    key.go()
    if key.store.where == "memory://":
        return
    damage(key, rate_factor=float("nan") if key.store.where.startswith("redis") else 1e999)
    assert key.store.read(key.name) is None


def test_looking_does_not_make_the_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "rates.db"
    store = SqliteStore(path)
    assert store.read("key") is None
    assert store.names() == []
    store.forget("key")
    assert not path.parent.exists()


@pytest.mark.parametrize("call", ["read", "names", "forget"])
def test_a_file_that_is_none_of_ours_is_an_error_with_advice(tmp_path: Path, call: str) -> None:
    path = tmp_path / "rates.db"
    path.write_bytes(b"no database " * 1000)
    arguments = [] if call == "names" else ["key"]
    with pytest.raises(RateStoreError, match=r"cannot be used: .* Make sure that workers"):
        getattr(SqliteStore(path), call)(*arguments)


@pytest.mark.parametrize("call", ["read", "names", "forget"])
def test_a_redis_that_is_gone_is_an_error_without_its_password(call: str) -> None:
    store = RedisStore("redis://:s3cr3t-w0rd@127.0.0.1:1/0")
    arguments = [] if call == "names" else ["key"]
    with pytest.raises(RateStoreError, match="cannot be used") as caught:
        getattr(store, call)(*arguments)
    assert "s3cr3t" not in str(caught.value)


def test_the_permissions_that_tasks_need_are_enough_to_read_and_forget(redis_server: RedisServer) -> None:
    client = RedisStore(redis_server.url)._client.get()  # noqa: SLF001 - an administrator's
    allowed = ["+eval", "+evalsha", "+time", "+info", "+hmget", "+hset", "+expire"]
    user = ("ACL", "SETUSER", "worker", "on", ">w0rker-s3cr3t", "~mediaops:rate:*", "-@all", *allowed)
    client.execute_command(*user)  # type: ignore[no-untyped-call]
    store = RedisStore(redis_server.url.replace("redis://", "redis://worker:w0rker-s3cr3t@"))
    key = Key(store, FakeClock())  # but by the server's clock
    key.go()
    assert state_of(key).state in {"free", "reserved"}
    with pytest.raises(RateStoreError, match="SCAN"):
        store.names()
    store.forget(key.name)
    assert store.read(key.name) is None
    store.close()


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    schedule = Schedule.begin(1000.0, 5.0)
    state = KeyState.of(schedule, 10.0, 1.0)
    assert (state.paused_seconds, state.reserved, state.idle_seconds) == (5.0, 0, None)
