"""
The stage of a dataset on an object store: a lease and segments beside the destination.

``.<name>.checkpoint`` is the lease, later the receipt. Below ``.<name>.parts/`` are the segments and a sign of life of
each attempt, with the epoch and the token of its lease in every name. The records are in a local temporary file as
well, from which the published file is made.

*The store* has to show at once what was written, as those of Amazon, Google and Microsoft do. "If unchanged" means a
write that replaces only the version read before: the store refuses it otherwise, if store and client know such writes
(S3: any version; most others: creation only). *Another* is any other attempt, of the same task or another, that may do
all of these steps between any two of ours.

**Acquire**

1. Read the lease. If another task holds it, and its lease, segments and sign of life are younger than 15 minutes by the
   store's own clock, fail. If it cannot be understood, fail. *Another* may do the same; nothing is written yet.
2. List the segments, then write the lease with a new token and a higher epoch, if unchanged. *Another* that wrote it
   since makes us fail. Without conditions ours replaces the other's lease: the other fails when it next verifies its
   lease, and the objects that it has staged meanwhile do not count, because our lease does not name its token.
   Our lease names the tokens of the one before if that was of our task and parameters. It does not if that attempt was
   superfluous and we are no retry of it: by the receipt in its lease, an attempt of the task that was no earlier (by
   the start of the run, then by its clears) had published before it began. Our lease keeps that receipt if we resume,
   since all staged records are judged by it; and if there is a file at the destination, whichever it is: an attempt may
   have replaced it in step 12, and died before step 15.
3. List the segments. *Another* whose lease we name has written them before our lease, so they are in the list; its
   later writes are ignored from the position where we resume.
4. Verify the lease: read it, and fail unless it is ours. *Another* that writes its lease after this lists the segments
   after it, too.
5. Remove the listed objects of lower epochs that our lease does not name. *Another* that acquires now has a higher
   epoch, and can name only tokens that we name.
6. Read the segments. *Another*, which we replaced, can only add objects, or remove a copy of a segment after it wrote a
   longer one that is in our list (see step 8).

**Commit**

7. At the first commit, and later every 30 seconds: verify the lease, and renew it. To renew is to write our own sign of
   life, never the lease, so it cannot overwrite the lease of *another*.
8. Write the current segment under a new name, one commit longer. *Another* that lists before it does not have this
   commit, and has replaced our lease: we learn of it in step 7 or 9. When 16 copies are superseded, verify the lease,
   then remove them: *another* that writes its lease after this finds the longer copy in its list.

**Publish**

9. Verify and renew the lease, then convert; verify and renew every 30 seconds as the records are read.
10. With a companion: stage it as an object, then an object that says what is about to be published: the receipt, the
    version at the destination, the path of the companion. *Another* that acquires after step 11 finds both.
11. Read the version of the destination, then verify the lease. *Another* that published before this read has acquired
    before it, so we fail here.
12. Upload, if the destination is unchanged; during a long upload, verify and renew every 30 seconds and before the last
    request. *Another* that published since step 11 makes the upload fail. Without conditions its file is replaced if it
    acquired and published within the last request, or if we paused there for 15 minutes.
13. Verify the lease. If it is no longer ours, fail; the error says so if the other's file was replaced. We write no
    receipt, so the receipt of *another* does not match our file: our file is not taken for the other's, whose next
    attempt publishes anew.
14. Upload the companion in the same way as the file (steps 11 and 12). If we die before step 15, *another* of any owner
    finishes in step 16. If it has acquired meanwhile, we fail here, and it writes the same companion.
15. Write the receipt in place of the lease, if unchanged. It names the tasks that published before us, too. *Another*
    that acquired since step 13 makes this fail. Without conditions the other fails, when it next verifies its lease.
    Then list the objects, and remove those of lower epochs and our own. *Another* that acquires now resumes nothing,
    and has a higher epoch.

**Finish** (with a companion, after step 5)

16. If the file at the destination has no receipt, and is the one that a staged object of step 10 describes (another
    version than that before it, and of its size), do steps 14 and 15 for it, and acquire again. Otherwise such objects
    stay until we publish: the upload of *another* that verified its lease before ours may still end. Whoever
    acquires next finds it then. If the companion's path is neither below the folder of the destination nor in that of
    our own companion, fail: anybody who can write to the folder of the destination can have planted the object.

**Release** (after an error)

17. Verify the lease, then write it as released, if unchanged. *Another* that acquired since makes this fail; without
    conditions it fails when it next verifies its lease, and nothing is lost.

So with conditional writes no file replaces a newer one, two attempts never succeed at once, and a receipt describes its
file. Without them, all of this still holds unless *another* acquires and publishes within one request of ours, which
takes 15 minutes for another task. Then our file may stand in place of the newer one; we fail and say so. Two attempts
that replace each other's lease or receipt in one request may both succeed, each with a whole file, and the newer stays.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.errors import out_of_reach_error
from airflow_provider_mediaops.storage.files import naming_path, path_of
from airflow_provider_mediaops.storage.held_lease import HeldLease, remove_settled
from airflow_provider_mediaops.storage.lease import parse_lease
from airflow_provider_mediaops.storage.object_info import content_tag
from airflow_provider_mediaops.storage.ownership import Owner, Receipt
from airflow_provider_mediaops.storage.publication import Publication, find_unfinished
from airflow_provider_mediaops.storage.records import Extent, read_lines, resume_hint, write_at
from airflow_provider_mediaops.storage.segment_writer import SegmentWriter
from airflow_provider_mediaops.storage.segments import (
    Segment,
    StagedRecords,
    companion_name,
    is_of_publication,
    publication_name,
)
from airflow_provider_mediaops.storage.store_objects import BLOCK_BYTES, ConflictError, StoreObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.companion import CompanionFile
    from airflow_provider_mediaops.storage.stage import Convert

_SEGMENT_BYTES = 256 * 1024
# The number of superseded copies of segments that are removed together.
_REMOVED_TOGETHER = 16
# While records are converted, the clock is read once for this number of lines.
_LINES_PER_CHECK = 1000
# After this number of conflicts, another program is taken to keep replacing the destination.
_MAX_UPLOADS = 3


class ObjectStage:
    """
    The stage of a destination on an object store.

    :param path: the destination.
    :param owner: the task that writes it.
    :param clock: returns seconds since 1970. The age of another's lease is read off the store's clock if it has one.
    :param companion: the path of the companion that is to be published with the dataset; None for none.
    :param segment_bytes: a segment with at least this many bytes of records is complete.
    :param block_bytes: a file with more bytes than this is uploaded in blocks.
    :raises DestinationInUseError: if another task is writing it.
    :raises PermanentError: if another version of this package has staged something there, or another attempt has begun
        to publish with a companion that this one may not write.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """

    def __init__(
        self,
        path: ObjectStoragePath,
        owner: Owner,
        clock: Callable[[], float],
        *,
        companion: ObjectStoragePath | None = None,
        segment_bytes: int = _SEGMENT_BYTES,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._objects = StoreObjects(path, block_bytes)
        self._owner = owner
        self._companion = companion.path if companion else None
        self._segment_bytes = segment_bytes
        self.extent = Extent()
        self._lease = HeldLease(self._objects, owner, clock, self._hint)
        with ExitStack() as on_error:
            on_error.callback(self._lease.release)
            staged = self._lease.acquire()
            if self._finish(staged):
                staged = self._lease.acquire()
            # It has no name, so it is removed with the process.
            self._spool = on_error.enter_context(tempfile.TemporaryFile())
            self.extent, self.state = self._resume(staged)
            on_error.pop_all()
        self.resumed = self.extent != Extent() or self.state is not None
        self._writer = SegmentWriter(self._objects, *self._lease.epoch_and_token, self.extent, self._segment_bytes)
        # The first commit verifies the lease again: another attempt may have begun at the same instant.
        self._lease.distrust()

    @property
    def current_receipt(self) -> Receipt | None:
        """The receipt of the file at the destination; None if its origin is unknown."""
        return self._lease.current_receipt

    def _finish(self, staged: Mapping[str, int]) -> bool:
        """Finish publishing for an attempt that died after its upload (step 16); return whether there was one."""
        found = None if self.current_receipt else find_unfinished(self._objects, staged)
        if found is None:
            return False
        publication = found.publication
        if not publication.is_within_reach(self._objects.path.path, self._companion):
            name = f"{self._objects.folder}/{found.name}"
            raise out_of_reach_error(self._objects.path, publication.companion, publication.owner.task, name)
        with tempfile.TemporaryFile() as file:
            try:
                self._objects.download(found.companion, staged[found.companion], file.fileno())
            except FileNotFoundError:
                # Another attempt has settled it since we verified our lease, which is not ours then.
                self._lease.verify()
                return False
            self._upload(publication.companion, file.fileno())
        self._lease.settle(found.receipt)
        return True

    def _resume(self, staged: Mapping[str, int]) -> tuple[Extent, Any]:
        def fetch(segments: Any) -> Iterator[bytes | None]:
            return self._objects.fetch([segment.name for segment in segments], staged)

        def write(data: bytes, position: int) -> None:
            with self._naming_spool(Extent()):
                write_at(self._spool.fileno(), data, position)

        segments = [segment for name in staged if (segment := Segment.of(name))]
        return StagedRecords(self._lease.tokens, fetch, write).read(segments)

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Return the lines that are committed; renew the lease while they are read."""
        for number, line in enumerate(read_lines(self._spool.fileno(), self.extent.size, start)):
            if number % _LINES_PER_CHECK == 0:
                self.renew()
            yield line

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the committed lines."""
        return os.pread(self._spool.fileno(), size, start)

    def identity(self) -> str:
        """Return a text that differs once the file at the destination is replaced; empty if there is none."""
        return self._objects.identity()

    def renew(self) -> None:
        """Verify and renew the lease, if it is time."""
        self._lease.check(fresh=False)

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: both, or neither (steps 7-8)."""
        self._lease.check(fresh=False)
        grown = self.extent.grown(data, rows)
        with self._naming_spool(self.extent):
            write_at(self._spool.fileno(), data, self.extent.size)
        self._writer.write(data, grown, state)
        self.extent, self.state = grown, state
        if len(self._writer.superseded) >= _REMOVED_TOGETHER:
            self._remove_superseded()

    def _remove_superseded(self) -> None:
        # The commit is done. Copies that cannot be removed now are removed when the dataset is published.
        with suppress(OSError):
            self._lease.verify()
            self._objects.remove(self._writer.superseded)
        self._writer.superseded.clear()

    def publish(
        self,
        convert: Convert | None,
        summary: Mapping[str, Any],
        digest: str | None,
        companion: CompanionFile | None = None,
    ) -> dict[str, Any]:
        """Put the file at its destination in one step, then the companion; return the summary with its size (9-15)."""
        self._lease.check(fresh=True)
        with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as beside:
            with self._naming_spool(self.extent):
                # A commit that failed may have left records after the last good one.
                os.ftruncate(self._spool.fileno(), self.extent.size)
                descriptor = (file if convert else self._spool).fileno()
                if convert:
                    # A file without a name has a path of this form while it is open.
                    convert(Path(f"/dev/fd/{descriptor}"))
            final = {**summary, "bytes": os.fstat(descriptor).st_size}
            if companion:
                self._stage(companion, beside.fileno(), final, digest)
            identity = self._upload(self._objects.path.path, descriptor)
            self._lease.verify_after_upload()
            if companion:
                self._upload(path_of(companion.path).path, beside.fileno())
        self._lease.settle(Receipt(self._owner, final, digest, identity))
        return final

    def _stage(self, companion: CompanionFile, descriptor: int, summary: Mapping[str, Any], digest: str | None) -> None:
        """Stage a companion, and what is about to be published (step 10)."""
        with self._naming_spool(self.extent):
            companion.write(Path(f"/dev/fd/{descriptor}"))
        who = self._lease.epoch_and_token
        staged = f"{self._objects.folder}/{companion_name(*who)}"
        self._objects.upload(staged, descriptor, None, self._lease.check, self._hint())
        replaces, path = self._objects.identity(), path_of(companion.path).path
        publication = Publication(self._owner, summary, digest, replaces, path)
        self._objects.write_staged(publication_name(*who), publication.to_bytes(), self._hint())

    def _upload(self, target: str, descriptor: int) -> str:
        """Put a file at its path; return its identity (steps 11-12)."""
        for _ in range(_MAX_UPLOADS):
            info = self._objects.info(target)
            version = content_tag(info) or (None if info else "")
            self._lease.check(fresh=True)
            # On a conflict, another program has replaced the file; or another attempt, as the next verification shows.
            with suppress(ConflictError):
                self._objects.upload(target, descriptor, version, self._lease.check, self._hint())
                identity = self._objects.identity(target)
                if identity.startswith(f"{os.fstat(descriptor).st_size}:"):
                    return identity
        self._lease.verify()
        raise OSError(f"{target} cannot be written: another program keeps replacing it. {self._hint()}")

    def keep_published(self, receipt: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make what was published before this task's own; return the summary with its size, or None if it is gone."""
        self._lease.verify()
        if not self._lease.still_published(receipt):
            return None
        final = {**summary, "bytes": int(receipt.identity.partition(":")[0])}
        self._lease.settle(Receipt(self._owner, final, receipt.digest, receipt.identity))
        return final

    def discard(self) -> None:
        """Remove what is staged. What is published and its receipt stay."""
        self._lease.verify()
        self._lease.settle(self.current_receipt)

    def close(self) -> None:
        """Release the destination (step 17); what is committed stays for the next attempt."""
        self._spool.close()
        self._lease.release()

    def _naming_spool(self, extent: Extent) -> AbstractContextManager[None]:
        return naming_path(tempfile.gettempdir(), "written", resume_hint(extent))

    def _hint(self) -> str:
        return resume_hint(self.extent)


def published_in_store(
    path: ObjectStoragePath,
    owner: Owner,
    clock: Callable[[], float] = time.time,
    companion: ObjectStoragePath | None = None,
) -> dict[str, Any] | None:
    """
    Return the summary of the dataset that a task instance has published; finish publishing if it died before the end.

    :param path: the destination.
    :param owner: the task instance.
    :param clock: returns seconds since 1970.
    :param companion: the path of the companion that is published with the dataset; None for none.
    :returns: the summary; None if the object at the destination is not of this task instance.
    :raises DestinationInUseError: if the lease cannot be understood.
    :raises PermanentError: if another version of this package has written the lease; or if the companion of the
        publication to be finished is one that this task may not write.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """
    objects = StoreObjects(path)
    lease = parse_lease(objects.read(objects.lease).content, objects.lease, objects.path)
    receipt = lease.last_receipt
    if receipt and receipt.owner == owner and objects.identity() == receipt.identity:
        if lease.owner is None:
            # The attempt may have died before it could remove them.
            remove_settled(objects, lease)
        return dict(receipt.summary)
    if lease.owner == owner and any(map(is_of_publication, objects.staged())):
        receipt = _finished(path, owner, clock, companion)
        return dict(receipt.summary) if receipt else None
    return None


def _finished(
    path: ObjectStoragePath, owner: Owner, clock: Callable[[], float], companion: ObjectStoragePath | None
) -> Receipt | None:
    """Return the receipt of this owner, if there is one once a publication that was begun is finished."""
    stage = ObjectStage(path, owner, clock, companion=companion)
    try:
        receipt = stage.current_receipt
        if receipt is None or receipt.owner != owner:
            return None
        # It is the receipt that stays, and nobody's lease.
        stage.discard()
        return receipt
    finally:
        stage.close()
