"""Databases, files and sets for data that does not fit into memory and need not outlive the process."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from airflow_provider_mediaops.storage.files import digest_of, write_at

_CACHE_KIB = 2048
# A database takes many times as long as a set. From 157,000 on, the table of Python's set would double.
_HASHES_IN_MEMORY = 150_000
_BLOCK_BYTES = 1024 * 1024


def scratch_database(create_table: str) -> sqlite3.Connection:
    """
    Open a new database in the folder for temporary files, which any thread may use, one at a time.

    Its file has no name, so it is removed with the process, however that ends.
    """
    with naming_folder(), tempfile.NamedTemporaryFile(prefix="mediaops-") as file:
        database = sqlite3.connect(file.name, check_same_thread=False, isolation_level=None)
        # Nothing survives the process, so nothing has to be logged, and nothing is ever committed.
        database.execute("PRAGMA journal_mode = OFF")
        database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        database.execute("BEGIN")
        database.execute(create_table)
    return database


class SeenSet:
    """
    A set of any number of texts, in bounded memory: it keeps a 64-bit hash of each, and can only grow.

    The first 150,000 hashes are kept in memory (10 MB). Further ones go to a temporary database, whose cache takes
    2 MB; a million texts take 20 MB on disk. Among a million texts, any two are confused with a probability of 1 in 37
    million. Python salts its hashes for each process, so a service cannot choose texts that collide.
    """

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._database: sqlite3.Connection | None = None
        self._in_database = 0

    def __len__(self) -> int:
        return len(self._hashes) + self._in_database

    def add(self, texts: Iterable[str]) -> list[bool]:
        """Add texts, and return for each whether it was new; if the database is full, an OSError names its folder."""
        return [self._is_new(hash(text)) for text in texts]

    def _is_new(self, number: int) -> bool:
        if number in self._hashes:
            return False
        if len(self._hashes) < _HASHES_IN_MEMORY:
            self._hashes.add(number)
            return True
        if self._database is None:
            self._database = scratch_database("CREATE TABLE seen (hash INTEGER PRIMARY KEY)")
            weakref.finalize(self, self._database.close)
        with naming_folder():
            is_new = self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (number,)).rowcount > 0
        self._in_database += is_new
        return is_new


class ByteRange(NamedTuple):
    """A part of an open local file."""

    file: int
    start: int
    end: int

    def blocks(self) -> Iterator[bytes]:
        """Yield the content block by block, without moving the position of the file."""
        start = self.start
        while start < self.end and (block := os.pread(self.file, min(_BLOCK_BYTES, self.end - start), start)):
            yield block
            start += len(block)

    def read(self) -> bytes:
        """Return the content, which is small."""
        return b"".join(self.blocks())


class NewFile:
    """An open local file that only grows, and is read at any place; its path is None if it has no name."""

    def __init__(self, descriptor: int, path: Path | None = None) -> None:
        self.descriptor, self.path = descriptor, path

    @property
    def size(self) -> int:
        """Its size in bytes, whoever has written to it."""
        return os.fstat(self.descriptor).st_size

    @property
    def open_path(self) -> Path:
        """A path that leads to the open file, even if its name has been taken since."""
        return Path(f"/dev/fd/{self.descriptor}")

    @property
    def content(self) -> ByteRange:
        """All of it."""
        return ByteRange(self.descriptor, 0, self.size)

    def write(self, blocks: Iterable[bytes]) -> ByteRange:
        """Append blocks of data; return where they are."""
        start = end = self.size
        for block in blocks:
            write_at(self.descriptor, block, end)
            end += len(block)
        return ByteRange(self.descriptor, start, end)

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the file."""
        return os.pread(self.descriptor, size, start)

    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        return digest_of(self.content.blocks())


class ScratchFile(NewFile):
    """
    A file in the folder for temporary files; an OSError names the folder if it cannot hold it, also when it grows.

    It has no name, so it is removed with the process, however that ends.
    """

    def __init__(self) -> None:
        with naming_folder():
            file = tempfile.TemporaryFile(prefix="mediaops-", buffering=0)  # noqa: SIM115 closed by finalize
        super().__init__(file.fileno())
        #: Removes the file.
        self.close = weakref.finalize(self, file.close)

    def write(self, blocks: Iterable[bytes]) -> ByteRange:
        """Append blocks of data; return where they are."""
        with naming_folder():
            return super().write(blocks)


@contextmanager
def naming_folder() -> Iterator[None]:
    """Name the folder for temporary files in errors of SQLite and of the file system."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        # If no folder can be used, none is chosen, and the error lists those that were tried.
        folder = f", {tempfile.tempdir}," if tempfile.tempdir else ""
        raise OSError(
            f"The folder for temporary files{folder} cannot hold what does not fit into memory: {error}. "
            "Free some space, or set TMPDIR to another folder."
        ) from error
