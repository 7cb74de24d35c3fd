"""
Staging on the local disk: hidden files beside the destination.

``.<name>.records`` holds the staged JSON lines, and only grows. ``.<name>.checkpoint`` is the journal. It is locked
while a task writes; the system releases the lock when the process dies. Only this user can read the staged files.

A commit is two writes. They survive the death of the process. For a power failure, a commit also syncs both files if
the last sync is 5 seconds ago. If the journal reached the disk and the records did not, their CRC-32 shows it, and
staging resumes from the last commit that is intact.

An attempt publishes in this order:

1. The CRC-32 of the records is compared with that of the last commit.
2. A companion gets a random hidden name beside its own path, which is added to the journal before the file is created.
   Then it is written, gets its permissions and is synced, and its identity is added to the journal. If the attempt dies
   by then, the next one removes the file.
3. The file to be published (the records, or what they were converted to) gets its permissions and is synced.
4. Its receipt is added to the journal, and the journal is synced. From here on, an attempt that dies is finished by
   the next one of the same owner. A task that was cleared resumes the records instead, unless step 7 was done.
5. The file is renamed to a random name, which no other attempt uses.
6. The renamed file and the journal are compared with the files that this attempt has opened. If either is another one,
   another task may have begun: the attempt ends, and nothing is published.
7. The file is renamed to the destination. If the attempt dies now, the next one of any owner goes on with step 8.
8. The companion is renamed to its path, unless that is done.
9. The journal is cut down to the receipt, and stays.

Each commit, too, makes sure that journal and records are still its own.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.durability import replace, sync
from airflow_provider_mediaops.storage.errors import files_changed_error, in_use_error
from airflow_provider_mediaops.storage.files import (
    check_own,
    create,
    is_still_at,
    naming_path,
    open_own,
    part_of,
    published_mode,
)
from airflow_provider_mediaops.storage.journal import (
    LockedJournal,
    commit_line,
    companion_line,
    header_line,
    journal_of,
    peek,
    receipt_line,
)
from airflow_provider_mediaops.storage.local_files import LocalFiles
from airflow_provider_mediaops.storage.ownership import Owner, Receipt
from airflow_provider_mediaops.storage.records import Extent, read_lines, resume_hint, verified, write_at
from airflow_provider_mediaops.storage.staged_files import StagedCompanion, identity, identity_of, remove_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.companion import CompanionFile
    from airflow_provider_mediaops.storage.journal import Journal
    from airflow_provider_mediaops.storage.stage import Convert

_SYNC_INTERVAL_SECONDS = 5.0


class LocalStage:
    """
    Staging of a destination on the local disk.

    :param path: the destination; missing folders are created.
    :param owner: the task instance that writes it.
    :raises DestinationInUseError: if another task, or another attempt of this one, is writing it.
    :raises PermanentError: if another version of this package has staged something there.
    :raises OSError: if the destination cannot be written; the message names it.
    """

    def __init__(self, path: ObjectStoragePath, owner: Owner) -> None:
        self._path = path
        self._owner = owner
        self.extent = Extent()
        self.state: Any = None
        self.resumed = False
        self._synced = time.monotonic()
        with naming_path(path, "written"):
            self._files = LocalFiles.of(path)
            self._journal = _lock(path, self._files)
            try:
                self._begin(self._journal.read())
            except BaseException:
                self._journal.close()
                raise

    def _begin(self, journal: Journal) -> None:
        #: The receipt of the file at the destination; None if its origin is unknown.
        self.current_receipt = self._files.current(journal.receipt) or self._files.current(journal.last)
        self._files.settle_companion(journal)
        waiting = self._files.unpublished(journal.receipt)
        # Once its file is gone, nothing shows whether it was published or removed.
        may_have_published = journal.receipt is not None and not waiting
        # An attempt is judged by the receipt that it found when it began: the file may have been replaced since.
        if journal.owner is not None and self._owner.continues(journal.owner, journal.last) and not may_have_published:
            # All staged records are judged by this owner and this receipt.
            self._header, self._last_receipt = header_line(journal.owner, journal.last), journal.last
            self._files.take_back_records(waiting)
            self._resume(journal)
            return
        # As on an object store, the latest receipt is kept while there is a file, whichever it is.
        latest = journal.receipt if may_have_published else journal.last
        self._last_receipt = self.current_receipt or (latest if self.identity() else None)
        self._header = header_line(self._owner, self._last_receipt)
        self._files.abandon(self._journal, journal)
        # It holds no commit yet, so a power failure may lose it.
        self._journal.rewrite(self._header, durable=False)
        self._records = create(self._files.records)

    def _resume(self, journal: Journal) -> None:
        self._records, good = self._open_records([commit.extent for commit in journal.commits])
        end = journal.start
        if good:
            commit = journal.commits[good - 1]
            self.resumed, self.extent, self.state, end = True, commit.extent, commit.state, commit.end
        try:
            # What the records hold beyond the last good commit is overwritten, or cut off when they are published.
            self._journal.cut(end)
        except BaseException:
            os.close(self._records)
            raise

    def _open_records(self, extents: Sequence[Extent]) -> tuple[int, int]:
        """Open the records of an earlier attempt; return the descriptor, and how many extents are intact."""
        with suppress(FileNotFoundError):
            descriptor = open_own(self._files.records)
            try:
                good = verified(descriptor, extents)
            except BaseException:
                os.close(descriptor)
                raise
            if good and extents[good - 1].size:
                return descriptor, good
            os.close(descriptor)
            # It may not be ours: none of its records is known to be. So it is replaced, not truncated.
            remove_own(self._files.records)
        descriptor = create(self._files.records)
        return descriptor, verified(descriptor, extents)

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the committed lines."""
        return read_lines(self._records, self.extent.size, start)

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the committed lines."""
        return os.pread(self._records, size, start)

    def identity(self) -> str:
        """Return a text that differs once the file at the destination is replaced; empty if there is none."""
        return identity_of(self._files.target)

    def renew(self) -> None:
        """Make sure that the destination is still this attempt's."""
        self._journal.check()

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: both, or neither."""
        grown = self.extent.grown(data, rows)
        line = commit_line(grown, state)
        now = time.monotonic()
        is_synced = now - self._synced >= _SYNC_INTERVAL_SECONDS
        with self._naming_path():
            self._check_ours(self._records, self._files.records)
            self._shorten_journal()
            write_at(self._records, data, self.extent.size)
            if is_synced:
                sync(self._records)
            # The last step: whoever is told that a commit has failed may make it again.
            self._journal.append(line, durable=is_synced)
        self.extent, self.state = grown, state
        if is_synced:
            self._synced = now

    def _shorten_journal(self) -> None:
        """Shorten the journal if it is long."""
        if self._journal.is_long:
            # The new journal has the last commit alone. If its records were not on the disk, nothing could be resumed.
            sync(self._records)
            self._journal.rewrite(self._header + commit_line(self.extent, self.state))

    def publish(
        self,
        convert: Convert | None,
        summary: Mapping[str, Any],
        digest: str | None,
        companion: CompanionFile | None = None,
    ) -> dict[str, Any]:
        """Put the file at its destination in one step, then the companion; return the summary with its size."""
        with self._naming_path():
            # A commit that failed may have left bytes after the last good one.
            os.ftruncate(self._records, self.extent.size)
            if not verified(self._records, [self.extent]):
                raise files_changed_error(self._path, self._files.records)
            staged = self._stage(companion)
            if convert is None:
                return self._publish_file(self._files.records, self._records, summary, digest, staged)
            remove_own(self._files.converted)
            descriptor = create(self._files.converted)
            try:
                # This path leads to the open file, even if its name has been taken since.
                convert(Path(f"/dev/fd/{descriptor}"))
                return self._publish_file(self._files.converted, descriptor, summary, digest, staged)
            finally:
                os.close(descriptor)

    def _stage(self, companion: CompanionFile | None) -> StagedCompanion | None:
        if companion is None:
            return None
        staged = StagedCompanion.of(companion)
        self._journal.append(companion_line(staged))
        self._journal.sync()
        staged = staged.written(companion)
        self._journal.append(companion_line(staged))
        return staged

    def _publish_file(
        self,
        file: Path,
        descriptor: int,
        summary: Mapping[str, Any],
        digest: str | None,
        companion: StagedCompanion | None,
    ) -> dict[str, Any]:
        os.fchmod(descriptor, published_mode(self._files.target))
        os.fsync(descriptor)
        status = os.fstat(descriptor)
        final = {**summary, "bytes": status.st_size}
        receipt = Receipt(self._owner, final, digest, identity(status)).after(self._last_receipt)
        self._journal.append(receipt_line(receipt))
        self._journal.sync()
        self._check_ours(descriptor, file)
        # Before the next step, another attempt's file may take the name. So the renamed file is checked again.
        part = part_of(self._files.target)
        file.replace(part)
        try:
            self._check_ours(descriptor, part)
        except BaseException:
            part.replace(file)
            raise
        replace(part, self._files.target)
        if companion is not None:
            companion.put_in_place()
        self._files.settle(self._journal, receipt)
        return final

    def keep_published(self, receipt: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make the published file this task's own; return the summary with its size, or None if it is gone."""
        with self._naming_path():
            if not self._files.current(receipt):
                return None
            final = {**summary, "bytes": self._files.target.stat().st_size}
            kept = Receipt(self._owner, final, receipt.digest, receipt.identity)
            self._files.settle(self._journal, kept.after(self._last_receipt))
        return final

    def close(self) -> None:
        """Release the destination; what is committed stays for the next attempt."""
        os.close(self._records)
        self._journal.close()

    def _check_ours(self, descriptor: int, file: Path) -> None:
        """Raise unless the journal and a staged file are still those that this attempt has opened."""
        self._journal.check()
        if not is_still_at(descriptor, file):
            raise files_changed_error(self._path, file)

    def _naming_path(self) -> AbstractContextManager[None]:
        return naming_path(self._path, "written", resume_hint(self.extent))


def published_locally(path: ObjectStoragePath, owner: Owner) -> dict[str, Any] | None:
    """
    Return the summary of the dataset that a task instance has published; finish publishing if it died in the last step.

    :param path: the destination.
    :param owner: the task instance.
    :returns: the summary, or None if the file at the destination is not of this task instance.
    :raises PermanentError: if another version of this package has written the receipt.
    :raises OSError: if the folder cannot be read or written; the message names the destination.
    """
    with naming_path(path, "written"):
        files = LocalFiles.of(path)
        if not os.path.lexists(journal_of(files.target)):
            return None
        try:
            journal = LockedJournal(files.target, path)
        except BlockingIOError:
            # Another task has begun to write. Until it publishes, the file may still be ours.
            receipt = peek(files.target).last
        else:
            try:
                receipt = _finish(files, journal, owner)
            finally:
                journal.close()
        receipt = files.current(receipt)
        return dict(receipt.summary) if receipt and receipt.owner == owner else None


def discard_locally(path: ObjectStoragePath, is_abandoned: Callable[[], bool]) -> bool:
    """
    Remove what is staged for a destination. A published file and its receipt stay.

    :param path: the destination.
    :param is_abandoned: asked once no attempt can begin: whether nothing has been written since it was looked at.
    :returns: whether it was removed.
    :raises DestinationInUseError: if a task is writing the destination.
    :raises PermanentError: if another version of this package has staged something there.
    :raises OSError: if a file cannot be removed; the message names the destination.
    """
    with naming_path(path, "written"):
        files = LocalFiles.of(path)
        journal = _lock(path, files)
        try:
            if not is_abandoned():
                return False
            content = journal.read()
            receipt = files.current(content.receipt) or files.current(content.last)
            files.settle_companion(content)
            if receipt:
                files.settle(journal, receipt)
            else:
                files.abandon(journal, content)
                journal.remove()
        finally:
            journal.close()
    return True


def _finish(files: LocalFiles, journal: LockedJournal, owner: Owner) -> Receipt | None:
    """
    Finish publishing for an attempt of an owner that died in the last step.

    What another owner was about to publish is left alone: after a clear, its records may be older than the clear.

    :returns: the latest receipt. It may describe an earlier file than that at the destination.
    """
    content = journal.read()
    receipt = content.receipt
    # Another attempt may have begun, removed the companion, and died. Then staging it again makes both.
    is_whole = content.companion is None or content.companion.is_staged
    if receipt and receipt.owner == owner and is_whole and (file := files.unpublished(receipt)):
        check_own(file)
        replace(file, files.target)
    if published := files.current(receipt):
        files.settle_companion(content)
        files.settle(journal, published)
        return published
    if content.owner is None:
        files.drop_staged()
    return content.last


def _lock(path: ObjectStoragePath, files: LocalFiles) -> LockedJournal:
    try:
        return LockedJournal(files.target, path)
    except BlockingIOError:
        holder = peek(files.target).owner
    seen = time.time()
    with suppress(FileNotFoundError):
        seen = files.records.lstat().st_mtime
    raise in_use_error(path, holder.task if holder else "", seen)
