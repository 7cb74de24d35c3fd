"""SQLite databases for data that does not fit into memory and need not outlive the process."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CACHE_KIB = 2048


def scratch_database(create_table: str) -> sqlite3.Connection:
    """
    Open a new database in the folder for temporary files.

    Its file has no name, so it is removed with the process, however that ends.

    :param create_table: the statement that creates its one table.
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


@contextmanager
def naming_folder() -> Iterator[None]:
    """
    Name the folder for temporary files in errors of a scratch database.

    :raises OSError: for any error of SQLite or the file system.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise OSError(
            f"The folder for temporary files, {tempfile.tempdir}, cannot hold what does not fit into memory: {error}. "
            "Free some space, or set TMPDIR to another folder."
        ) from error
