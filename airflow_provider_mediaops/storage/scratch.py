"""Databases and files for data that does not fit into memory and need not outlive the process."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CACHE_KIB = 2048


def scratch_database(create_table: str) -> sqlite3.Connection:
    """
    Open a new database in the folder for temporary files.

    Its file has no name, so it is removed with the process, however that ends.

    :returns: a connection that any thread may use, one at a time.
    :raises OSError: if the folder cannot hold the file.
    """
    with naming_folder(), tempfile.NamedTemporaryFile(prefix="mediaops-") as file:
        database = sqlite3.connect(file.name, check_same_thread=False, isolation_level=None)
        try:
            # Nothing survives the process, so nothing has to be logged, synced or shared.
            pragmas = (
                "journal_mode = OFF",
                "synchronous = OFF",
                "locking_mode = EXCLUSIVE",
                f"cache_size = -{_CACHE_KIB}",
            )
            for pragma in pragmas:
                database.execute(f"PRAGMA {pragma}")
            database.execute(create_table)
            database.execute("BEGIN")
        except BaseException:
            database.close()
            raise
    return database


class ScratchFile:
    """
    A file in the folder for temporary files that only grows, and is read at any place.

    It has no name, so it is removed with the process, however that ends.
    """

    def __init__(self) -> None:
        with naming_folder():
            self._file = tempfile.TemporaryFile(prefix="mediaops-")  # noqa: SIM115 closed by finalize
        self._size = 0
        self._is_flushed = True
        #: Removes the file.
        self.close = weakref.finalize(self, self._file.close)

    def append(self, data: bytes) -> int:
        """Append data; return where it begins, in bytes."""
        try:
            self._file.write(data)
        except OSError as error:
            raise _full(error) from error
        start, self._size, self._is_flushed = self._size, self._size + len(data), False
        return start

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the file."""
        try:
            if not self._is_flushed:
                self._file.flush()
                self._is_flushed = True
            return os.pread(self._file.fileno(), size, start)
        except OSError as error:
            raise _full(error) from error


@contextmanager
def naming_folder() -> Iterator[None]:
    """
    Name the folder for temporary files in errors of a scratch database.

    :raises OSError: for any error of SQLite or the file system.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _full(error) from error


def _full(error: Exception) -> OSError:
    # If no folder can be used, none is chosen, and the error lists those that were tried.
    folder = f", {tempfile.tempdir}," if tempfile.tempdir else ""
    return OSError(
        f"The folder for temporary files{folder} cannot hold what does not fit into memory: {error}. "
        "Free some space, or set TMPDIR to another folder."
    )
