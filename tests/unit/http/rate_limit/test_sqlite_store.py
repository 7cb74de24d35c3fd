"""What is particular to schedules in a file: the file itself."""

from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit import machine
from airflow_provider_mediaops.http.rate_limit.machine import network_file_system
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release, Reserve
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, QuotaExhausted, Slot
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from tests.unit.conversations import FakeClock
from tests.unit.http.rate_limit.rate_stores import Key, sqlite_store, wait_for_returned_slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[4]
# Slots so far apart that no machine is too busy to tell one from the next.
NEXT = Reserve(1_000.0, 1, 900.0, 1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "rates.db"


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Open stores at one file, as processes do."""
    stores: list[SqliteStore] = []

    def opened() -> SqliteStore:
        stores.append(SqliteStore(path, busy_seconds=0.05))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def test_all_who_open_the_file_share_what_is_in_it(path: Path) -> None:
    fake = FakeClock(seconds=100.0)
    first, second = (Key(sqlite_store(path, fake), fake, name="key") for _ in range(2))
    first.go()
    assert [each.slot().wait for each in (second, first, second)] == pytest.approx([1.0, 2.0, 3.0])
    first.store.close()
    assert first.slot().wait == pytest.approx(4.0)
    first.store.close()
    second.store.close()


def test_a_file_that_is_new_begins_with_a_pause(open_store: Callable[[], SqliteStore]) -> None:
    answer = open_store().apply("key", NEXT, 5.0)
    assert isinstance(answer, Slot)
    assert answer.wait == pytest.approx(5.0)


def test_a_file_that_is_taken_away_is_made_anew_for_all(open_store: Callable[[], SqliteStore], path: Path) -> None:
    first, second = open_store(), open_store()
    held = first.apply("key", NEXT, 1_000.0)
    second.apply("key", NEXT, 1_000.0)
    assert isinstance(held, Slot)
    for file in path.parent.iterdir():
        file.unlink()
    again = first.apply("key", replace(NEXT, held=held), 1_000.0)
    assert isinstance(again, Slot)
    assert again.wait == pytest.approx(1_000.0, abs=400.0)
    behind = second.apply("key", NEXT, 1_000.0)
    assert isinstance(behind, Slot)
    assert behind.wait == pytest.approx(2_000.0, abs=400.0)


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o660), (0o022, 0o640), (0o077, 0o600)])
def test_other_users_can_neither_read_nor_lock_it(
    open_store: Callable[[], SqliteStore], path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        open_store().apply("key", NEXT, 0.0)
        modes = {file.name: S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["rates.db", "rates.db-shm", "rates.db-wal"], mode)


def test_a_file_that_is_there_keeps_its_mode(open_store: Callable[[], SqliteStore], path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    path.chmod(0o664)
    open_store().apply("key", NEXT, 0.0)
    assert S_IMODE(path.stat().st_mode) == 0o664


def test_what_is_written_survives_closing(open_store: Callable[[], SqliteStore], path: Path) -> None:
    open_store().apply("key", NEXT, 0.0)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        [row] = connection.execute("SELECT name FROM rate_schedule_2").fetchall()
    connection.close()
    assert row == ("key",)


def error_of(store: SqliteStore) -> RateStoreError:
    with pytest.raises(RateStoreError) as caught:
        store.apply("key", NEXT, 0.0)
    error = caught.value
    assert error.temporary
    assert store.where in error.message
    assert "workers and triggerer" in error.message
    assert "rate_limit_store" in error.message
    return error


class TestFilesThatCannotBeUsed:
    def test_the_place_is_no_folder(self, open_store: Callable[[], SqliteStore], path: Path) -> None:
        path.parent.touch()
        assert "exists" in error_of(open_store()).message

    def test_it_is_a_folder(self, open_store: Callable[[], SqliteStore], path: Path) -> None:
        path.mkdir(parents=True)
        assert "unable to open" in error_of(open_store()).message

    def test_it_is_no_database_until_it_is_taken_away(self, open_store: Callable[[], SqliteStore], path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"not a database, however long this text may be" * 30)
        store = open_store()
        assert "not a database" in error_of(store).message
        path.unlink()
        assert isinstance(store.apply("key", NEXT, 0.0), Granted)

    def test_another_keeps_it_to_itself(self, open_store: Callable[[], SqliteStore], path: Path) -> None:
        store = open_store()
        store.apply("key", NEXT, 0.0)
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            assert "locked" in error_of(store).message
            other.execute("ROLLBACK")
        other.close()
        assert isinstance(store.apply("key", NEXT, 0.0), Slot)

    def test_one_that_is_only_being_made_by_another_is_waited_for(self, path: Path) -> None:
        path.parent.mkdir()
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        ending = threading.Timer(0.1, other.execute, ["COMMIT"])
        ending.start()
        store = SqliteStore(path, busy_seconds=240.0)
        assert isinstance(store.apply("key", NEXT, 0.0), Granted)
        ending.join()
        other.close()
        store.close()

    def test_a_cancelled_caller_does_not_wait_for_it(self, path: Path) -> None:
        """It may be on an event loop; its slot is returned from a thread."""
        store = SqliteStore(path, busy_seconds=240.0)
        store.apply("key", NEXT, 0.0)
        slot = store.apply("key", NEXT, 0.0)
        assert isinstance(slot, Slot)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.release("key", Release(1_000.0, slot), 0.0)
        # Had the caller waited, it would have failed here: the file is free only now.
        other.execute("COMMIT")
        other.close()
        wait_for_returned_slots()
        again = store.apply("key", NEXT, 0.0)
        assert isinstance(again, Slot)
        assert again.position == slot.position
        store.close()

    @pytest.mark.parametrize(("times", "busy_seconds"), [(2, 240.0), (1_000_000, 0.05)])
    def test_processes_that_make_it_at_once_wait_for_each_other(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, times: int, busy_seconds: float
    ) -> None:
        """SQLite refuses at once, without the wait that it was given, where two processes change to the same log."""
        left = [times]

        class Refusing(sqlite3.Connection):
            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                if "journal_mode" in sql and left[0]:
                    left[0] -= 1
                    raise sqlite3.OperationalError("database is locked")
                return super().execute(sql, parameters)

        monkeypatch.setattr("sqlite3.connect", partial(sqlite3.connect, factory=Refusing))
        store = SqliteStore(path, busy_seconds=busy_seconds)
        if times > 2:
            assert "locked" in error_of(store).message
        else:
            assert isinstance(store.apply("key", NEXT, 0.0), Granted)
        store.close()

    def test_a_change_that_fails_half_way_is_taken_back(self, path: Path) -> None:
        def no_time() -> float:
            raise RuntimeError("no time")

        broken, good = SqliteStore(path, clock=no_time), SqliteStore(path, busy_seconds=0.05)
        with pytest.raises(RuntimeError):
            broken.apply("key", NEXT, 0.0)
        assert isinstance(good.apply("key", NEXT, 0.0), Granted)
        broken.close()
        good.close()

    def test_a_file_system_without_a_write_ahead_log(
        self, open_store: Callable[[], SqliteStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Answering(sqlite3.Connection):
            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                return super().execute(sql.replace("WAL", "DELETE"), parameters)

        monkeypatch.setattr("sqlite3.connect", partial(sqlite3.connect, factory=Answering))
        message = error_of(open_store()).message
        assert "does not allow a write-ahead log (SQLite answered 'delete')" in message
        assert "a disk of this machine" in message

    def test_the_disk_is_full(self, path: Path) -> None:
        command = [sys.executable, "-c", _TAKE_ONE_ON_A_FULL_DISK, str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
        assert "RateStoreError" in done.stderr
        assert f"sqlite:///{path} cannot be used" in done.stderr


class TestRowsThatAreNotOurs:
    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("sent", b"seven b"),
            ("sent", "text"),
            ("sent", 5),
            ("sent", struct.pack("<2d", 1.0, float("nan"))),
            ("vacant", struct.pack("<d", float("inf"))),
            ("next_free", "text"),
            ("shift", b"blob"),
            ("seen", float("inf")),
            ("wall", "text"),
            ("boot", b"blob"),
        ],
    )
    def test_the_schedule_begins_anew(self, path: Path, column: str, value: object) -> None:
        fake = FakeClock(seconds=1_000.0)
        store = sqlite_store(path, fake)
        assert isinstance(store.apply("key", NEXT, 0.0), Granted)
        fake.wait(10.0)
        with sqlite3.connect(path) as other:
            other.execute(f"UPDATE rate_schedule_2 SET {column} = ?", (value,))  # noqa: S608 it is one of the above
        other.close()
        answer = store.apply("key", NEXT, 50.0)
        assert isinstance(answer, Slot)
        assert answer.wait == pytest.approx(50.0)
        store.close()


class TestTheMachine:
    @pytest.fixture
    def opened(self, path: Path) -> Iterator[Callable[..., SqliteStore]]:
        stores: list[SqliteStore] = []

        def open_at(clock: float, wall: float, boot: str) -> SqliteStore:
            stores.append(SqliteStore(path, lambda: clock, lambda: wall, lambda: boot))
            return stores[-1]

        yield open_at
        for store in stores:
            store.close()

    def test_a_change_of_the_date_changes_nothing(self, opened: Callable[..., SqliteStore]) -> None:
        opened(1_000.0, 1e9, "one").apply("key", NEXT, 0.0)
        held = opened(1_001.0, 2e9, "one").apply("key", NEXT, 0.0)
        assert isinstance(held, Slot)
        assert held.wait == pytest.approx(999.0)

    @pytest.mark.parametrize("clock", [5.0, 50_000.0])
    def test_after_a_boot_the_schedule_begins_with_a_pause(
        self, opened: Callable[..., SqliteStore], clock: float
    ) -> None:
        opened(1_000.0, 1e9, "one").apply("key", NEXT, 0.0)
        answer = opened(clock, 1e9 + 60, "two").apply("key", NEXT, 30.0)
        assert isinstance(answer, Slot)
        assert answer.wait == pytest.approx(30.0)

    @pytest.mark.parametrize("clock", [5.0, 50_000.0])
    def test_an_exhausted_quota_survives_a_boot(self, opened: Callable[..., SqliteStore], clock: float) -> None:
        opened(1_000.0, 1e9, "one").apply("key", ExhaustQuota(3_600.0), 0.0)
        for later, seconds in ((60.0, 3_542.0), (120.0, 3_482.0)):
            answer = opened(clock + later, 1e9 + later, "two").apply("key", NEXT, 30.0)
            assert isinstance(answer, QuotaExhausted)
            assert answer.seconds == pytest.approx(seconds)

    def test_two_machines_at_one_file_are_refused(self, opened: Callable[..., SqliteStore]) -> None:
        opened(1_000.0, 1e9, "one").apply("key", NEXT, 0.0)
        message = error_of(opened(7.0, 1e9 + 1, "two")).message
        assert "another machine uses the same file, and several machines need a Redis" in message

    def test_a_network_file_system_is_warned_of_once(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        mounts = path.parent.parent / "mountinfo"
        mounts.write_text(f"1 1 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {path.parent} rw - nfs4 server:/a rw\n")
        monkeypatch.setattr("airflow_provider_mediaops.http.rate_limit.machine._MOUNTS", mounts)
        store = SqliteStore(path)
        for _ in range(3):
            store.apply("key", NEXT, 0.0)
            path.unlink()
        store.close()
        [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "is on a network file system (nfs4)" in warning
        assert "to a Redis" in warning

    @pytest.mark.parametrize(
        ("mounts", "kind"),
        [
            ("1 1 0:1 / / rw - ext4 /dev/a rw", None),
            ("1 1 0:1 / / rw - nfs server:/ rw", "nfs"),
            ("1 1 0:1 / / rw - nfs server:/ rw\n2 1 0:2 / /tmp rw shared:1 - tmpfs tmpfs rw", None),
            ("1 1 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /tm rw - cifs a rw", None),
            ("1 1 0:1 / / rw - overlay a rw\n2 1 0:2 / /tmp rw - fuse.sshfs a rw", "fuse.sshfs"),
            ("1 1 0:1 / / rw - fuse.fuse-overlayfs a rw", None),
            ("nonsense\n- -\n", None),
            ("", None),
        ],
    )
    def test_network_file_systems_are_known(self, mounts: str, kind: str | None) -> None:
        assert network_file_system(Path("/tmp"), mounts) == kind  # noqa: S108 nothing is written there

    def test_the_clock_and_the_boot_are_those_of_all_processes(self) -> None:
        script = "from airflow_provider_mediaops.http.rate_limit import machine as m; print(m.clock(), m.boot_id())"
        before = machine.clock()
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
        clock, _, boot = done.stdout.strip().partition(" ")
        assert before <= float(clock) <= machine.clock()
        assert boot == machine.boot_id()


_TAKE_ONE_ON_A_FULL_DISK = """
import resource, sys
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release, Reserve
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
SqliteStore(sys.argv[1]).apply("key", Reserve(1.0, 1, 0.9, 1e9), 0.0)
"""
