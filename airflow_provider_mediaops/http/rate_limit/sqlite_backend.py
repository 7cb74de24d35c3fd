"""States of keys in a SQLite file: for all processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.backend import BUSY_SECONDS, RateBackend, process_lock

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.backend import Change

T = TypeVar("T")

# The umask takes away more. Tasks that run as other users (run_as_user) share the file by its group. Others must not
# read it: whoever can read it can lock it, and so hold up every request.
_MODE = 0o660


class SqliteBackend(RateBackend):
    """
    Keeps states in a SQLite file on a disk of this machine, by the machine's date, so that they survive a boot.

    The file is opened for each update, which takes a tenth of a millisecond: a connection would survive neither a fork
    nor the removal of the file. Nothing waits for the disk: a file that a power cut has damaged is put aside.
    """

    def __init__(
        self, path: str | Path, clock: Callable[[], float] = time.time, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        super().__init__(f"sqlite:///{path}")
        self._path, self._clock, self._busy_seconds = Path(path), clock, busy_seconds

    def update(self, name: str, change: Change[T]) -> T:
        """Change a state in a transaction that excludes other processes from its first statement on."""
        with self._errors():
            if not self._path.exists():
                # The file is not made for one who only looks: it would belong to that user.
                text, answer = change(None, self._clock(), 0.0)
                if text is None:
                    return answer
            try:
                return self._update(name, change)
            except sqlite3.DatabaseError as error:
                # A file that is not a database at all may be somebody's, and is left where it is.
                if "malformed" not in str(error):
                    raise
                self._path.replace(f"{self._path}.damaged")
                return self._update(name, change)

    def _update(self, name: str, change: Change[T]) -> T:
        with self._opened() as connection:
            row = connection.execute("SELECT state FROM rate WHERE name = ?", (name,)).fetchone()
            before = row and row[0]
            # The clock is read within the transaction, so that the times of updates are in their order.
            text, answer = change(before, self._clock(), 0.0)
            if text is None:
                connection.execute("DELETE FROM rate WHERE name = ?", (name,))
            elif text != before:
                connection.execute("INSERT OR REPLACE INTO rate VALUES (?, ?)", (name, text))
        return answer

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not process_lock.acquire(timeout=2 * self._busy_seconds):
            raise TimeoutError("other threads of this process use it")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, _MODE))
            with (
                closing(sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None)) as connection,
                connection,
            ):
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("CREATE TABLE IF NOT EXISTS rate (name TEXT PRIMARY KEY, state TEXT) WITHOUT ROWID")
                yield connection
        finally:
            process_lock.release()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise RateStoreError(
                f"The rate store {self.where} cannot be used: {error}. Make sure that workers and triggerer can write "
                "this file and its folder, and that it is on a disk of this machine that is not full; or set "
                "rate_limit_store in Airflow's section [mediaops], or in the connection, to another."
            ) from None
