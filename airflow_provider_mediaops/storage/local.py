"""
The stage of a dataset on the local disk: hidden files beside the destination.

``.<name>.records`` holds the staged JSON lines, and only grows. ``.<name>.checkpoint`` is the journal, and locked for
as long as a task writes; the system frees it when the task's process dies.

A commit is two writes and no more: what a process has written outlives it. What outlives the machine is another matter,
so both files are brought to the disk every 5 seconds, if anything is committed. A journal that got there ahead of the
records gives itself away by their CRC-32, and the stage goes back to the last commit that is whole.

The receipt is in the journal, on the disk, before the file gets its name: so the next attempt can tell what a dying one
has published, or finish it. Then the journal is cut down to the receipt, and stays.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import beside, naming_path, replace, target_of
from airflow_provider_mediaops.storage.journal import commit_line, header_line, read_journal, receipt_line
from airflow_provider_mediaops.storage.locked_journal import LockedJournal, journal_of, sync
from airflow_provider_mediaops.storage.ownership import Owner, Receipt, in_use
from airflow_provider_mediaops.storage.records import Extent, read_lines, resume_hint, verified, write_at
from airflow_provider_mediaops.storage.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.journal import Journal
    from airflow_provider_mediaops.storage.stage import Convert

_SYNC_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class _Files:
    """The destination, and what stands beside it while it is written."""

    target: Path
    records: Path
    converted: Path

    @classmethod
    def of(cls, path: ObjectStoragePath) -> _Files:
        target = target_of(path)
        return cls(target, *(target.with_name(beside(target.name, kind)) for kind in ("records", "converted")))

    def drop_staged(self) -> None:
        self.records.unlink(missing_ok=True)
        self.converted.unlink(missing_ok=True)

    def settle(self, journal: LockedJournal, receipt: Receipt) -> None:
        """Leave the published file and its receipt."""
        journal.rewrite(header_line(None, receipt))
        self.drop_staged()


class LocalStage(Stage):
    """
    The stage of a destination on the local disk.

    :param path: the destination; folders above it are made.
    :param owner: who writes it.
    :raises DestinationInUseError: where another task, or another attempt of this one, is writing it.
    :raises OSError: where the destination cannot be written; the message names it.
    """

    def __init__(self, path: ObjectStoragePath, owner: Owner) -> None:
        self._path = path
        self._owner = owner
        self.extent = Extent()
        self.state: Any = None
        self._synced = time.monotonic()
        with naming_path(path):
            self._files = _Files.of(path)
            self._journal = _taken(path, self._files)
            try:
                self._begin(self._journal.read())
            except BaseException:
                self._journal.close()
                raise

    def _begin(self, journal: Journal) -> None:
        self.last = _standing(self._files, journal.receipt or journal.last)
        self.resumed = False
        goes_on = journal.owner is not None and self._owner.continues(journal.owner) and not journal.receipt
        if not goes_on:
            self._files.drop_staged()
            # Its loss in a power cut would be that of nothing.
            self._journal.rewrite(header_line(self._owner, self.last), durable=False)
        self._records = os.open(self._files.records, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if goes_on:
            self._resume(journal)

    def _resume(self, journal: Journal) -> None:
        good = verified(self._records, [commit.extent for commit in journal.commits])
        end = journal.start
        if good:
            commit = journal.commits[good - 1]
            self.resumed, self.extent, self.state, end = True, commit.extent, commit.state, commit.end
        os.ftruncate(self._records, self.extent.size)
        self._journal.cut(end)

    def lines(self) -> Iterator[bytes]:
        """Give the lines that are committed."""
        return read_lines(self._records, self.extent.size)

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: all of it, or nothing."""
        grown = self.extent.grown(data, rows)
        line = commit_line(grown, state)
        with self._naming_path():
            write_at(self._records, data, self.extent.size)
            self._journal.append(line)
            self.extent, self.state = grown, state
            now = time.monotonic()
            if now - self._synced >= _SYNC_EVERY:
                self._synced = now
                sync(self._records)
                self._journal.sync()
            if self._journal.is_long:
                # The new journal goes to the disk and has this commit alone: without its records it would have none.
                sync(self._records)
                self._journal.rewrite(header_line(self._owner, self.last) + line)

    def publish(self, convert: Convert | None, summary: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
        """Put the file at its destination in one step; give the summary with its size in bytes."""
        with self._naming_path():
            # What a commit that failed has left behind the last good one.
            os.ftruncate(self._records, self.extent.size)
            ready = self._files.records
            if convert:
                ready = self._files.converted
                convert(ready)
            _sync_file(ready)
            final = {**summary, "bytes": ready.stat().st_size}
            receipt = Receipt(self._owner, final, digest, _identity(ready))
            self._journal.append(receipt_line(receipt))
            self._journal.sync()
            replace(ready, self._files.target)
            self._files.settle(self._journal, receipt)
        return final

    def keep_published(self, last: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take over what was published before as this task's own, with its size; None where it is gone meanwhile."""
        with self._naming_path():
            if not _standing(self._files, last):
                return None
            final = {**summary, "bytes": self._files.target.stat().st_size}
            self._files.settle(self._journal, Receipt(self._owner, final, last.digest, last.identity))
        return final

    def close(self) -> None:
        """Let go of the destination; what is committed stays for the next attempt."""
        os.close(self._records)
        self._journal.close()

    def _naming_path(self) -> AbstractContextManager[None]:
        return naming_path(self._path, resume_hint(self.extent))


def published_locally(path: ObjectStoragePath, owner: Owner) -> dict[str, Any] | None:
    """
    Find what this very task instance has published, and finish it where it died in the last step.

    :param path: the destination.
    :param owner: the task instance.
    :returns: the summary, or None where the file at the destination is not of this task instance.
    :raises OSError: where the folder cannot be read or written; the message names the destination.
    """
    with naming_path(path):
        files = _Files.of(path)
        if not journal_of(files.target).exists():
            return None
        try:
            journal = LockedJournal(files.target)
        except BlockingIOError:
            # Another task has begun to write; until it publishes, what is there may still be ours.
            receipt = read_journal(journal_of(files.target).read_bytes()).last
        else:
            try:
                receipt = _finished(files, journal)
            finally:
                journal.close()
        receipt = _standing(files, receipt)
        return dict(receipt.summary) if receipt and receipt.owner == owner else None


def _finished(files: _Files, journal: LockedJournal) -> Receipt | None:
    said = journal.read()
    if said.receipt is None:
        if said.owner is None:
            files.drop_staged()
        return said.last
    for ready in (files.converted, files.records):
        if _identity(ready) == said.receipt.identity:
            replace(ready, files.target)
    files.settle(journal, said.receipt)
    return said.receipt


def _standing(files: _Files, receipt: Receipt | None) -> Receipt | None:
    """Give the receipt, unless its file is gone or another since."""
    return receipt if receipt and _identity(files.target) == receipt.identity else None


def _taken(path: ObjectStoragePath, files: _Files) -> LockedJournal:
    try:
        return LockedJournal(files.target)
    except BlockingIOError:
        holder = read_journal(journal_of(files.target).read_bytes()).owner
    seen = time.time()
    with suppress(FileNotFoundError):
        seen = files.records.stat().st_mtime
    raise in_use(path, holder.task if holder else "", seen)


def _identity(file: Path) -> str:
    with suppress(FileNotFoundError):
        status = file.stat()
        return f"{status.st_size}:{status.st_mtime_ns}"
    return ""


def _sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
