"""Schedules in a SQLite file: for all processes of one machine."""

from __future__ import annotations

import sqlite3
import struct
import threading
import time
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.schedule import Schedule, applied
from airflow_provider_mediaops.http.rate_limit.stores import PerProcess, RateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.rate_limit.schedule import A, Operation

_BUSY_SECONDS = 5.0
# The number is that of the columns' meaning: another version of this package that gives them another has its own.
_TABLE = "rate_schedule_1"
_COLUMNS = [field.name for field in fields(Schedule)]
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} "
    f"(name TEXT PRIMARY KEY, {', '.join(f'{column} NOT NULL' for column in _COLUMNS)}) WITHOUT ROWID"
)
_READ = f"SELECT {', '.join(_COLUMNS)} FROM {_TABLE} WHERE name = ?"  # noqa: S608 the names are our own
_WRITE = (
    f"INSERT OR REPLACE INTO {_TABLE} (name, {', '.join(_COLUMNS)}) "  # noqa: S608
    f"VALUES (?{', ?' * len(_COLUMNS)})"
)


class SqliteStore(RateStore):
    """
    Keeps schedules in a SQLite file on a disk of this machine; the machine's clock counts.

    :param path: the file; it and its folder are made when they are first needed.
    :param clock: seconds, the same for all who use the file.
    :param busy: seconds to wait while others use the file; each of them needs a fraction of a millisecond.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time, busy: float = _BUSY_SECONDS) -> None:
        super().__init__(f"sqlite:///{path}")
        self._file = PerProcess(lambda: _File(Path(path), busy))
        self._clock = clock

    def apply(self, name: str, operation: Operation[A], quiet: float) -> A:
        """Do something with a schedule, while no other process can."""
        file = self._file.get()
        with file.lock:
            try:
                return self._apply(file.connect(), name, operation, quiet)
            except (sqlite3.Error, OSError) as error:
                file.close()
                raise RateStoreError(
                    f"The rate store {self.where} cannot be used: {error}. Make sure that workers and triggerer can "
                    "write this file and its folder, and that the disk is not full; or set rate_limit_store in "
                    "Airflow's section [mediaops], or in the connection, to another."
                ) from None

    def _apply(self, connection: sqlite3.Connection, name: str, operation: Operation[A], quiet: float) -> A:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # The clock is read when no other process can change anything before this one has.
            before = _read(connection, name)
            after, answer = applied(operation, before, self._clock(), quiet)
            if after != before:
                connection.execute(_WRITE, (name, *_row(after)))
        except BaseException:
            # A full disk, for one, has ended it already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return answer

    def close(self) -> None:
        """Close this process's connection to the file."""
        if file := self._file.pop():
            with file.lock:
                file.close()


def _read(connection: sqlite3.Connection, name: str) -> Schedule | None:
    row = connection.execute(_READ, (name,)).fetchone()
    if row is None:
        return None
    *figures, sent = row
    return Schedule(*(*figures, struct.unpack(f"<{len(sent) // 8}d", sent)))


def _row(schedule: Schedule) -> tuple[object, ...]:
    *figures, sent = astuple(schedule)
    return (*figures, struct.pack(f"<{len(sent)}d", *sent))


class _File:
    """
    One process's connection to the file, for all its threads.

    :param path: the file.
    :param busy: seconds to wait for others.
    """

    def __init__(self, path: Path, busy: float) -> None:
        self.lock = threading.Lock()
        self._path = path
        self._busy = busy
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def connect(self) -> sqlite3.Connection:
        """Give the connection; a new one where the file was taken away, so that all use the one that is there."""
        if self._connection and self._identity() != self._opened:
            self.close()
        if not self._connection:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._path, timeout=self._busy, isolation_level=None, check_same_thread=False
            )
            _prepare(self._connection, self._busy)
            self._opened = self._identity()
        return self._connection

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def _prepare(connection: sqlite3.Connection, busy: float) -> None:
    # With a write-ahead log a change is one write to one file, with no waiting for the disk. Changing to it is not
    # waited for by SQLite itself where several processes make the file at once.
    deadline = time.monotonic() + busy
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_CREATE)
