"""What is particular to states in a file: the file itself."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE

import pytest

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.backends import SqliteBackend
from tests.unit.http.rate_limit.test_backends import increment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "rates.db"


@pytest.fixture
def backend(path: Path) -> SqliteBackend:
    return SqliteBackend(path, busy_seconds=0.05)


def error_of(backend: SqliteBackend) -> RateStoreError:
    with pytest.raises(RateStoreError) as caught:
        backend.update("key", increment)
    for words in (backend.where, "workers and triggerer", "rate_limit_store"):
        assert words in caught.value.message
    return caught.value


def test_a_file_that_is_removed_is_made_anew_for_all(path: Path, backend: SqliteBackend) -> None:
    assert [each.update("key", increment) for each in (backend, SqliteBackend(path))] == [1, 2]
    path.unlink()
    assert [each.update("key", increment) for each in (backend, SqliteBackend(path))] == [1, 2]


def test_looking_does_not_make_the_file(path: Path, backend: SqliteBackend) -> None:
    assert backend.read("key")[0] is None
    backend.forget("key")
    assert not path.parent.exists()


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o660), (0o022, 0o640), (0o077, 0o600)])
def test_other_users_can_neither_read_nor_lock_it(path: Path, backend: SqliteBackend, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        backend.update("key", increment)
    finally:
        os.umask(before)
    assert {file.name: S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {"rates.db": mode}


@pytest.mark.parametrize(("in_the_way", "words"), [("a file", "exists"), ("a folder", "directory")])
def test_what_is_in_the_way_is_an_error(path: Path, backend: SqliteBackend, in_the_way: str, words: str) -> None:
    if in_the_way == "a file":
        path.parent.touch()
    else:
        path.mkdir(parents=True)
    assert words in error_of(backend).message


def test_a_file_of_another_kind_is_refused_and_left_as_it_is(path: Path, backend: SqliteBackend) -> None:
    text = b"not a database, however long this text may be" * 30
    path.parent.mkdir()
    path.write_bytes(text)
    assert "not a database" in error_of(backend).message
    assert path.read_bytes() == text
    path.unlink()
    assert backend.update("key", increment) == 1


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda whole: whole[:4096] + b"\xff" * (len(whole) - 4096), id="pages"),
        pytest.param(lambda whole: whole.replace(b"CREATE TABLE", b"CREATE T\xd9BLE"), id="schema"),
    ],
)
def test_a_file_that_a_power_cut_has_damaged_is_put_aside(
    path: Path, backend: SqliteBackend, damage: Callable[[bytes], bytes]
) -> None:
    for number in range(200):
        backend.update(f"key {number}", lambda _text, _now: ("x" * 400, None))
    path.write_bytes(damage(path.read_bytes()))
    assert backend.update("key 7", increment) == 1
    assert {file.name for file in path.parent.iterdir()} == {"rates.db", "rates.db.damaged"}


def test_a_holder_that_does_not_end_is_an_error_and_one_that_ends_is_waited_for(
    path: Path, backend: SqliteBackend
) -> None:
    backend.update("key", increment)
    with sqlite3.connect(path, isolation_level=None, check_same_thread=False) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "locked" in error_of(backend).message
        ending = threading.Timer(0.1, other.execute, ["ROLLBACK"])
        ending.start()
        assert SqliteBackend(path, busy_seconds=240.0).update("key", increment) == 2
        ending.join()
    other.close()


def test_threads_behind_one_that_waits_for_the_file_are_told_so(backend: SqliteBackend) -> None:
    waits, ends = threading.Event(), threading.Event()

    def hold(_text: str | None, _now: float) -> tuple[None, None]:
        waits.set()
        ends.wait(240)
        return None, None

    backend.update("key", increment)
    holder = threading.Thread(target=backend.update, args=("key", hold))
    holder.start()
    assert waits.wait(240)
    try:
        assert "other threads of this process use it" in error_of(backend).message
    finally:
        ends.set()
        holder.join(240)
