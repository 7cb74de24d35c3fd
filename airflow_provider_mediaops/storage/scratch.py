"""Databases and files for data that does not fit into memory and need not outlive the process."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from airflow_provider_mediaops.storage.files import write_at

_CACHE_KIB = 2048
_BLOCK_BYTES = 1024 * 1024


def scratch_database(create_table: str) -> sqlite3.Connection:
    """
    Open a new database in the folder for temporary files, which any thread may use, one at a time.

    Its file has no name, so it is removed with the process, however that ends.
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


class ByteRange(NamedTuple):
    """A part of an open local file."""

    file: int
    start: int
    end: int

    def blocks(self) -> Iterator[bytes]:
        """Yield the content, block by block."""
        return read_blocks(self.file, self.start, self.end)


class NewFile:
    """An open local file that only grows, and is read at any place; its path is None if it has no name."""

    def __init__(self, descriptor: int, path: Path | None = None) -> None:
        self.descriptor, self.path = descriptor, path
        #: Where the next data begins.
        self.end = 0

    @property
    def size(self) -> int:
        """Its size in bytes, whoever has written to it."""
        return os.fstat(self.descriptor).st_size

    def append(self, data: bytes) -> int:
        """Append data; return where it begins, in bytes."""
        start = self.end
        write_at(self.descriptor, data, start)
        self.end += len(data)
        return start

    def write(self, blocks: Iterable[bytes]) -> None:
        """Append blocks of data."""
        for block in blocks:
            self.append(block)

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the file."""
        return os.pread(self.descriptor, size, start)

    def blocks(self) -> Iterator[bytes]:
        """Yield the content, block by block."""
        return read_blocks(self.descriptor, 0, self.size)

    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        return digest_of(self.blocks())


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

    def append(self, data: bytes) -> int:
        """Append data; return where it begins, in bytes."""
        with naming_folder():
            return super().append(data)


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Read a part of a file block by block, without moving its position."""
    while start < end and (block := os.pread(descriptor, min(_BLOCK_BYTES, end - start), start)):
        yield block
        start += len(block)


def digest_of(blocks: Iterable[bytes]) -> str:
    """Return the SHA-256 of a content."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


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
