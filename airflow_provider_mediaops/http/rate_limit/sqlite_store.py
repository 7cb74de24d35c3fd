"""Schedules in a SQLite file: for all processes of one machine."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import struct
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit import machine
from airflow_provider_mediaops.http.rate_limit.operations import applied
from airflow_provider_mediaops.http.rate_limit.releases import Releases
from airflow_provider_mediaops.http.rate_limit.schedule import Schedule
from airflow_provider_mediaops.http.rate_limit.store_interface import PerProcess, RateStore, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation, Release

log = logging.getLogger(__name__)

_BUSY_SECONDS = 5.0
# The umask takes away more. Tasks that run as other users (run_as_user) share the file by its group. SQLite gives the
# files beside it the same mode.
_MODE = 0o660
# A machine does not boot this fast after it wrote the file. So another boot id within this time is another machine.
_BOOT_SECONDS = 3.0
# The number stands for the meaning of the columns: a version of this package that changes it uses another table.
_TABLE = "rate_schedule_2"
_FIELDS = tuple(field.name for field in fields(Schedule))
# astuple() copies the values in depth, which takes ten times as long.
_values_of = attrgetter(*_FIELDS)
_COLUMNS = ("boot", "wall", *_FIELDS)
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} "
    f"(name TEXT PRIMARY KEY, {', '.join(f'{column} NOT NULL' for column in _COLUMNS)}) WITHOUT ROWID"
)
_READ = f"SELECT {', '.join(_COLUMNS)} FROM {_TABLE} WHERE name = ?"  # noqa: S608 the names are our own
_WRITE = (
    f"INSERT OR REPLACE INTO {_TABLE} (name, {', '.join(_COLUMNS)}) "  # noqa: S608
    f"VALUES (?{', ?' * len(_COLUMNS)})"
)
_NAMES = f"SELECT name FROM {_TABLE} ORDER BY name"  # noqa: S608
_FORGET = f"DELETE FROM {_TABLE} WHERE name = ?"  # noqa: S608


class SqliteStore(RateStore):
    """
    Keeps schedules in a SQLite file on a disk of this machine, by the machine's clock.

    :param path: the file; it and its folder are made when they are first needed.
    :param clock: seconds since the machine booted, the same for all who use the file.
    :param wall: the date in seconds, by which an exhausted quota survives a boot.
    :param boot_id: the name of this boot.
    :param busy_seconds: how long to wait for others that use the file; each of them needs a fraction of a millisecond.
    """

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], float] = machine.clock,
        wall: Callable[[], float] = time.time,
        boot_id: Callable[[], str] = machine.boot_id,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        super().__init__(f"sqlite:///{path}")
        self._path = Path(path)
        self._file = PerProcess(lambda: _File(self._path))
        self._releases = PerProcess(lambda: Releases(self))
        self._clock, self._wall, self._boot_id = clock, wall, boot_id
        self._busy_seconds = busy_seconds

    def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
        """Apply an operation, in a transaction that excludes other processes."""
        with self._connected() as connection:
            return self._apply(connection, name, operation, cooldown)

    def release(self, name: str, operation: Release, cooldown: float) -> None:
        """Return a slot from a thread of its own, so that the caller does not wait for others that use the file."""
        self._releases.get().add(name, operation, cooldown)

    def read(self, name: str) -> Reading | None:
        """Read a schedule; a file that is missing is not made."""
        if not self._path.exists():
            return None
        with self._connected() as connection:
            row = connection.execute(_READ, (name,)).fetchone()
            now = self._clock()
            schedule = self._read(row, now, self._wall() - now, cooldown=0.0) if row else None
        return Reading(schedule, now) if schedule else None

    def names(self) -> list[str]:
        """Return the names of all schedules; a file that is missing is not made."""
        if not self._path.exists():
            return []
        with self._connected() as connection:
            return [name for (name,) in connection.execute(_NAMES)]

    def forget(self, name: str) -> None:
        """Remove a schedule."""
        if self._path.exists():
            with self._connected() as connection:
                connection.execute(_FORGET, (name,))

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        file = self._file.get()
        # Another thread holds the lock for no longer than it may wait for the file itself.
        if not file.lock.acquire(timeout=2 * self._busy_seconds):
            raise self._error("other threads of this process use it")
        try:
            yield file.connect(self._busy_seconds)
        except (sqlite3.Error, OSError) as error:
            file.close()
            raise self._error(str(error)) from None
        finally:
            file.lock.release()

    def _error(self, cause: str) -> RateStoreError:
        return RateStoreError(
            f"The rate store {self.where} cannot be used: {cause}. Make sure that workers and triggerer can write this "
            "file and its folder, and that it is on a disk of this machine that is not full; or set rate_limit_store "
            "in Airflow's section [mediaops], or in the connection, to another."
        )

    def _apply(self, connection: sqlite3.Connection, name: str, operation: Operation[A], cooldown: float) -> A:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # The clock is read within the transaction, so that no other process changes the schedule in between.
            now, boot = self._clock(), self._boot_id()
            wall = self._wall() - now
            row = connection.execute(_READ, (name,)).fetchone()
            before = self._read(row, now, wall, cooldown) if row else None
            after, answer = applied(operation, before, now, cooldown)
            if after != before or row[0] != boot:
                connection.execute(_WRITE, (name, boot, wall, *_values(after)))
        except BaseException:
            # Some errors, such as a full disk, have ended the transaction already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return answer

    def _read(self, row: tuple[object, ...], now: float, wall: float, cooldown: float) -> Schedule | None:
        boot, former_wall, *values = row
        schedule = _schedule_of(values)
        if schedule and _is_time(former_wall) and schedule.is_plausible(now):
            if boot == self._boot_id():
                return schedule
            ahead = wall - float(former_wall)  # type: ignore[arg-type]  # _is_time() has looked
            if abs(schedule.seen - (now + ahead)) < _BOOT_SECONDS:
                raise self._error("another machine uses the same file, and several machines need a Redis")
            schedule = schedule.restarted(now, cooldown, ahead)
            # The date may be damaged as well.
            if schedule.is_plausible(now):
                return schedule
        log.warning("The rate store %s held a row that is not ours; the schedule begins anew.", self.where)
        return None

    def close(self) -> None:
        """Close this process's connection to the file."""
        if file := self._file.pop():
            with file.lock:
                file.close()


def _schedule_of(values: list[object]) -> Schedule | None:
    """Return the schedule of a row's values; None if they are not those of a schedule."""
    *figures, vacant, sent = values
    if not all(_is_time(figure) for figure in figures):
        return None
    lists = []
    for blob in (vacant, sent):
        if not isinstance(blob, bytes) or len(blob) % 8:
            return None
        numbers = struct.unpack(f"<{len(blob) // 8}d", blob)
        if not all(math.isfinite(number) for number in numbers):
            return None
        lists.append(tuple(sorted(numbers)))
    return Schedule(*map(float, figures), *lists)  # type: ignore[arg-type]  # _is_time() has looked


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _values(schedule: Schedule) -> tuple[object, ...]:
    *figures, vacant, sent = _values_of(schedule)
    return (*figures, *(struct.pack(f"<{len(numbers)}d", *numbers) for numbers in (vacant, sent)))


class _File:
    """
    One process's connection to the file, for all its threads.

    :param path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._has_warned = False

    def connect(self, busy_seconds: float) -> sqlite3.Connection:
        """
        Return the connection; a new one if the file was taken away, so that all use the one that is there.

        :param busy_seconds: how long to wait for others.
        """
        if self._connection and self._identity() != self._opened:
            self.close()
        if not self._connection:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._warn_of_network()
            self._create()
            self._connection = sqlite3.connect(
                self._path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
            _prepare(self._connection, busy_seconds)
            self._opened = self._identity()
        return self._connection

    def _create(self) -> None:
        """Create the file, closed to other users: whoever can read it can lock it, and so hold up every request."""
        # An existing file is not opened here, because closing it would drop the locks that SQLite holds on it.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _warn_of_network(self) -> None:
        kind = machine.network_file_system(self._path.parent)
        if kind and not self._has_warned:
            self._has_warned = True
            log.warning(
                "The rate store %s is on a network file system (%s), whose locks cannot be relied on: the rate of a "
                "key may be exceeded. Set rate_limit_store in Airflow's section [mediaops] to a file on a disk of this "
                "machine or, for several machines, to a Redis.",
                self._path,
                kind,
            )

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def _prepare(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # With a write-ahead log a change is one write to one file, with no waiting for the disk. SQLite itself does not
    # wait for the change of mode if several processes make the file at once.
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise sqlite3.OperationalError(
            f"its file system, perhaps one of a network, does not allow a write-ahead log (SQLite answered {mode!r})"
        )
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_CREATE)
