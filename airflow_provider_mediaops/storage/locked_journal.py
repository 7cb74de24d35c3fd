"""A journal as a file that one process at a time holds."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.files import beside, replace
from airflow_provider_mediaops.storage.journal import Journal, read_journal
from airflow_provider_mediaops.storage.records import read_blocks, write_at

if TYPE_CHECKING:
    from pathlib import Path

# A journal that has grown past this is worth cutting down.
_LONG = 256 * 1024


class LockedJournal:
    """
    A journal that is locked (``flock``) until it is closed, or the process dies.

    :param target: the file whose journal it is; the journal stands beside it.
    :raises BlockingIOError: where another has it.
    :raises OSError: where it cannot be opened for writing.
    """

    def __init__(self, target: Path) -> None:
        self._file = journal_of(target)
        self._fresh = target.with_name(beside(target.name, "checkpoint.new"))
        self._descriptor = _locked(self._file)
        self._end = os.fstat(self._descriptor).st_size
        self._long = _LONG

    @property
    def is_long(self) -> bool:
        """Whether it is time to cut it down."""
        return self._end > self._long

    def read(self) -> Journal:
        """Read it as far as it goes."""
        return read_journal(b"".join(read_blocks(self._descriptor, 0, self._end)))

    def cut(self, end: int) -> None:
        """
        Drop what comes after a line.

        :param end: where the line ends.
        """
        os.ftruncate(self._descriptor, end)
        self._end = end

    def append(self, line: bytes) -> None:
        """
        Add a line.

        :param line: the line; what one that failed has left is written over.
        """
        write_at(self._descriptor, line, self._end)
        self._end += len(line)

    def sync(self) -> None:
        """Bring it to the disk."""
        sync(self._descriptor)

    def rewrite(self, content: bytes, *, durable: bool = True) -> None:
        """
        Replace it in one step.

        :param content: its lines.
        :param durable: whether they must be on the disk before the old ones go.
        """
        fresh = os.open(self._fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            # Before it has its name, so that there is no moment at which another could take it.
            fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_at(fresh, content, 0)
            if durable:
                sync(fresh)
            replace(self._fresh, self._file)
        except BaseException:
            os.close(fresh)
            raise
        os.close(self._descriptor)
        self._descriptor = fresh
        self._end = len(content)
        self._long = max(_LONG, 4 * self._end)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


def journal_of(target: Path) -> Path:
    """Give the file that holds the journal of another file."""
    return target.with_name(beside(target.name, "checkpoint"))


def sync(descriptor: int) -> None:
    """Bring a file's content to the disk."""
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(descriptor)


def _locked(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        # It was replaced between the calls, so that what is locked is no longer the journal.
        os.close(descriptor)
