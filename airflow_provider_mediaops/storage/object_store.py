"""
The stage of a dataset on an object store: a lease and segments beside the destination.

``.<name>.checkpoint`` is the lease, later the receipt. Below ``.<name>.parts/`` are the segments and a sign of life of
each attempt, with the epoch and the token of its lease in every name. The records are in a local temporary file as
well, of which the published file is made.

*The store* has to show at once what was written, as those of Amazon, Google and Microsoft do. "If unchanged" means a
write that replaces only the version read before: the store refuses it otherwise, if store and client know such writes
(S3: any version; most others: creation only). *Another* is any other attempt, of the same task or another, that may do
all of these steps between any two of ours.

**Acquire**

1. Read the lease. If another task holds it, and its lease, segments and sign of life are younger than 15 minutes by the
   store's own clock, fail. If it cannot be understood, fail. *Another* may do the same; nothing is written yet.
2. List the segments, then write the lease with a new token and a higher epoch, if unchanged. *Another* that wrote it
   since makes us fail. Without conditions ours replaces the other's lease: the other fails at its next look, and what
   it has staged meanwhile does not count, for our lease does not name its token.
3. List the segments. *Another* whose lease we name has written them before our lease, so they are in the list; what it
   writes from now on is ignored from the position where we resume.
4. Look: read the lease, and fail unless it is ours. *Another* that writes its lease after this look lists the segments
   after it, too.
5. Remove the listed objects of lower epochs that our lease does not name. *Another* that acquires now has a higher
   epoch, and can name only what we name.
6. Read the segments. *Another*, which we replaced, can only add objects, or remove a copy of a segment after it wrote
   a longer one that is in our list (see step 8).

**Commit**

7. At the first commit, and later every 30 seconds: look, and renew. Renew writes our own sign of life, never the lease,
   so it cannot undo what *another* has acquired.
8. Write the current segment under a new name, one commit longer. *Another* that lists before it does not have this
   commit, and has replaced our lease: we learn of it in step 7 or 9. When 16 copies are superseded, look, then remove
   them: *another* that writes its lease after this look finds the longer copy in its list.

**Publish**

9. Look and renew, then convert; look and renew every 30 seconds as the records are read.
10. Read the version of the destination, then look. *Another* that published before this read has acquired before it, so
    the look fails.
11. Upload, if the destination is unchanged; of a long upload, look and renew every 30 seconds and before the last
    request. *Another* that published since step 10 makes the upload fail. Without conditions its file is replaced if it
    acquired and published all within the last request, or if we stood still there for 15 minutes.
12. Look. If the lease is no longer ours, fail, and say so if the other's file was replaced. We write no receipt, so the
    receipt of *another* does not match our file: nobody takes it for the other's, and its next attempt publishes anew.
13. Write the receipt in place of the lease, if unchanged. *Another* that acquired since step 12 makes this fail.
    Without conditions it is the other that fails, at its next look.
14. List the objects, and remove those of lower epochs and our own. *Another* that acquires after step 13 resumes
    nothing, and has a higher epoch.

**Release** (after an error)

15. Look, then write the lease as released, if unchanged. *Another* that acquired since makes this fail; without
    conditions it fails at its next look, and nothing is lost.

So with conditional writes no file replaces a newer one, two attempts never succeed at once, and a receipt describes its
file. Without them, all of this still holds unless *another* acquires and publishes within one request of ours, which
takes 15 minutes for another task. Then our file may stand in place of the newer one; we fail and say so. Two attempts
that replace each other's lease or receipt in one request may both succeed, each with a whole file, and the newer stays.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.files import content_tag, naming_path
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.lease import STALE_AFTER, Lease, modified
from airflow_provider_mediaops.storage.ownership import (
    Owner,
    Receipt,
    in_use,
    not_understood,
    replaced_newer,
    taken_away,
)
from airflow_provider_mediaops.storage.records import Extent, read_lines, resume_hint, write_at
from airflow_provider_mediaops.storage.segments import (
    Position,
    Segment,
    StagedRecords,
    alive_name,
    content_of,
    epoch_and_token,
)
from airflow_provider_mediaops.storage.store_objects import ConflictError, Found, StoreObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.dataset import Convert

_LOOK_SECONDS = 30.0
_SEGMENT_BYTES = 256 * 1024
_BLOCK_BYTES = 8 * 1024 * 1024
# Superseded copies of segments that are removed together.
_REMOVED_TOGETHER = 16
# While records are converted, the clock is read once per so many lines.
_LINES_PER_CHECK = 1000
# Uploads begun before a destination counts as one that another program keeps replacing.
_UPLOADS = 3


class ObjectStage:
    """
    The stage of a destination on an object store.

    :param path: the destination.
    :param owner: the task that writes it.
    :param clock: returns seconds since 1970. The age of another's lease is read off the store's clock if it has one.
    :param segment_size: a segment with at least this many bytes of records is complete.
    :param block_size: a file with more bytes than this is uploaded in blocks.
    :raises DestinationInUseError: if another task is writing it.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """

    def __init__(
        self,
        path: ObjectStoragePath,
        owner: Owner,
        clock: Callable[[], float],
        *,
        segment_size: int = _SEGMENT_BYTES,
        block_size: int = _BLOCK_BYTES,
    ) -> None:
        self._objects = StoreObjects(path, block_size)
        self._owner = owner
        self._clock = clock
        self._segment_size = segment_size
        self._looked = self._renewed = clock()
        staged = self._acquire()
        # Without a name, so that it goes with the process.
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self.extent, self.state = self._resume(staged)
        except BaseException:
            self._spool.close()
            raise
        self.resumed = self.extent != Extent() or self.state is not None
        self._after = Position.at_end_of(self.extent)
        self._number = self._serial = 0
        # The current segment: where it begins, its records, and its newest copy.
        self._start, self._data, self._copy = self._after, b"", ""
        self._superseded: list[str] = []
        # The first commit looks again: another attempt may have begun at the same instant.
        self._looked = float("-inf")

    def _acquire(self) -> dict[str, int]:
        """Acquire the lease; return the names of the segments that may count, with their sizes (steps 1-5)."""
        token = secrets.token_hex(4)
        found = self._objects.read(self._objects.lease)
        lease = self._parse(found)
        staged = self._objects.staged()
        if not lease.is_free_for(self._owner):
            self._check_stale(lease, found, staged, token)
        segments = [segment for name in staged if (segment := Segment.of(name))]
        self.last = self._still_published(lease.last)
        self._lease = lease.acquired_by(self._owner, token, self._clock(), segments)
        try:
            self._objects.write(self._objects.lease, self._lease.to_bytes(), found.condition)
        except ConflictError:
            # A store's client may have written it, lost the reply, and tried again.
            self._look()
        staged = self._objects.staged()
        self._look()
        self._objects.remove(name for name in staged if self._is_abandoned(name))
        return {name: info.get("size") or 0 for name, info in staged.items()}

    def _check_stale(self, lease: Lease, found: Found, staged: Mapping[str, Mapping[str, Any]], token: str) -> None:
        """Raise unless the lease of another task is stale."""
        holder = [info for name, info in staged.items() if (owner := epoch_and_token(name)) and owner[1] == lease.token]
        times = [found.modified, *(modified(info) for info in holder)]
        now = self._store_time(token) if None not in times else None
        if now is None:
            now, times = self._clock(), [lease.since, self._last_renewed(lease)]
        seen = max(time for time in times if time is not None)
        if now - seen < STALE_AFTER:
            raise self._in_use(lease, seen)

    def _store_time(self, token: str) -> float | None:
        """Return the store's own time: that of an object which is written for this."""
        name = alive_name(0, token)
        self._objects.write_staged(name, b"", "")
        written = modified(self._objects.info(f"{self._objects.folder}/{name}"))
        self._objects.remove([name])
        return written

    def _last_renewed(self, lease: Lease) -> float:
        """Return when a lease was renewed last, by the clock of its owner."""
        content = self._objects.read(f"{self._objects.folder}/{alive_name(lease.epoch, lease.token)}").content
        try:
            return float(content or b"0")
        except ValueError:
            return 0.0

    def _is_abandoned(self, name: str) -> bool:
        """Check whether an object is of an attempt that began before this one, and does not count."""
        staged_by = epoch_and_token(name)
        return staged_by is not None and staged_by[0] < self._lease.epoch and staged_by[1] not in self._lease.tokens

    def _resume(self, staged: Mapping[str, int]) -> tuple[Extent, Any]:
        def fetch(segments: Any) -> Iterator[bytes | None]:
            return self._objects.fetch([segment.name for segment in segments], staged)

        def write(data: bytes, position: int) -> None:
            with self._naming_spool(Extent()):
                write_at(self._spool.fileno(), data, position)

        segments = [segment for name in staged if (segment := Segment.of(name))]
        return StagedRecords(self._lease.tokens, fetch, write).read(segments)

    def lines(self) -> Iterator[bytes]:
        """Return the lines that are committed; renew the lease while they are read."""
        for number, line in enumerate(read_lines(self._spool.fileno(), self.extent.size)):
            if number % _LINES_PER_CHECK == 0:
                self._check(fresh=False)
            yield line

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: all of it, or nothing (steps 7-8)."""
        self._check(fresh=False)
        if len(self._data) >= self._segment_size or not self._copy:
            self._number += 1
            self._start, self._data, self._copy = Position.at_end_of(self.extent), b"", ""
        grown = self.extent.grown(data, rows)
        with self._naming_spool(self.extent):
            write_at(self._spool.fileno(), data, self.extent.size)
        self._serial += 1
        name = Segment(self._lease.epoch, self._lease.token, self._number, self._serial, self._after).name
        both = self._data + data
        try:
            self._objects.write_staged(name, content_of(self._start, grown, state, both), resume_hint(self.extent))
        except BaseException:
            # It may be there all the same. The next copy has another name, and a higher serial number.
            self._number -= not self._copy
            raise
        if self._copy:
            self._superseded.append(self._copy)
        self.extent, self.state, self._data, self._copy = grown, state, both, name
        if len(self._superseded) >= _REMOVED_TOGETHER:
            self._remove_superseded()

    def _remove_superseded(self) -> None:
        # The commit is done. What cannot be removed now is removed when the dataset is published.
        with suppress(OSError):
            self._look()
            self._objects.remove(self._superseded)
        self._superseded.clear()

    def publish(self, convert: Convert | None, summary: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
        """Put the file at its destination in one step; return the summary with its size in bytes (steps 9-14)."""
        self._check(fresh=True)
        with tempfile.TemporaryFile() as file:
            with self._naming_spool(self.extent):
                # A commit that failed may have left records behind the last good one.
                os.ftruncate(self._spool.fileno(), self.extent.size)
                descriptor = (file if convert else self._spool).fileno()
                if convert:
                    # A file without a name has a path of this form while it is open.
                    convert(Path(f"/dev/fd/{descriptor}"))
                size = os.fstat(descriptor).st_size
            identity = self._upload(descriptor, size)
        self._look_after_upload()
        final = {**summary, "bytes": size}
        self._settle(Receipt(self._owner, final, digest, identity))
        return final

    def _upload(self, descriptor: int, size: int) -> str:
        """Put the file at its destination; return its identity (steps 10-11)."""
        target = self._objects.path.path
        for _ in range(_UPLOADS):
            info = self._objects.info(target)
            version = content_tag(info) or (None if info else "")
            self._check(fresh=True)
            # On a conflict someone has replaced the file: another attempt, as the next look tells, or another program.
            with suppress(ConflictError):
                self._objects.upload(descriptor, size, version, self._check, self._hint())
                identity = self._identity()
                if identity.startswith(f"{size}:"):
                    return identity
        self._look()
        raise OSError(f"{self._objects.path} cannot be written: another program keeps replacing it. {self._hint()}")

    def _look_after_upload(self) -> None:
        try:
            self._look()
        except DestinationInUseError as error:
            lease = self._parse(self._objects.read(self._objects.lease))
            if lease.last and lease.last != self.last and not self._still_published(lease.last):
                raise replaced_newer(self._objects.path, lease.last.owner.task) from error
            raise

    def keep_published(self, last: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make what was published before this task's own; return the summary with its size, or None if it is gone."""
        self._look()
        if not self._still_published(last):
            return None
        final = {**summary, "bytes": last.summary["bytes"]}
        self._settle(Receipt(self._owner, final, last.digest, last.identity))
        return final

    def close(self) -> None:
        """Release the destination (step 15); what is committed stays for the next attempt."""
        self._spool.close()
        if self._lease.owner:
            # The attempt may have failed because of the store; then the lease goes stale by itself.
            with suppress(OSError, DestinationInUseError, ConflictError):
                self._look()
                self._objects.write(self._objects.lease, replace(self._lease, released=True).to_bytes(), self._version)

    def _settle(self, receipt: Receipt) -> None:
        settled = Lease(token=self._lease.token, epoch=self._lease.epoch, last=receipt)
        try:
            self._objects.write(self._objects.lease, settled.to_bytes(), self._version, self._hint())
        except ConflictError:
            lease = self._parse(self._objects.read(self._objects.lease))
            if lease != settled:
                raise self._in_use(lease, lease.since) from None
        self._lease = settled
        _remove_settled(self._objects, settled)

    def _check(self, *, fresh: bool) -> None:
        """
        Look and renew, if it is time.

        :param fresh: whether to look in any case.
        :raises DestinationInUseError: if the lease is no longer ours.
        """
        now = self._clock()
        if fresh or now - self._looked >= _LOOK_SECONDS:
            self._look()
        if now - self._renewed >= _LOOK_SECONDS:
            alive = alive_name(self._lease.epoch, self._lease.token)
            self._objects.write_staged(alive, json_line(now), self._hint())
            self._renewed = now

    def _look(self) -> None:
        """Raise unless the lease is ours."""
        found = self._objects.read(self._objects.lease)
        lease = self._parse(found)
        if lease.token != self._lease.token:
            raise self._in_use(lease, found.modified or lease.since)
        self._version = found.condition
        self._looked = self._clock()

    def _parse(self, found: Found) -> Lease:
        return _parse(self._objects, found)

    def _still_published(self, receipt: Receipt | None) -> Receipt | None:
        return receipt if receipt and self._identity() == receipt.identity else None

    def _identity(self) -> str:
        return _identity(self._objects)

    def _in_use(self, lease: Lease, seen: float) -> DestinationInUseError:
        if not lease.owner:
            return taken_away(self._objects.path, self._objects.lease)
        return in_use(self._objects.path, lease.owner.task, seen, seen + STALE_AFTER)

    def _naming_spool(self, extent: Extent) -> AbstractContextManager[None]:
        return naming_path(tempfile.gettempdir(), resume_hint(extent))

    def _hint(self) -> str:
        return resume_hint(self.extent)


def published_in_store(path: ObjectStoragePath, owner: Owner) -> dict[str, Any] | None:
    """
    Return what this very task instance has published.

    :param path: the destination.
    :param owner: the task instance.
    :returns: the summary; None if the object at the destination is not of this task instance.
    :raises DestinationInUseError: if the lease cannot be understood.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """
    objects = StoreObjects(path, _BLOCK_BYTES)
    lease = _parse(objects, objects.read(objects.lease))
    receipt = lease.last
    if receipt is None or receipt.owner != owner or _identity(objects) != receipt.identity:
        return None
    if lease.owner is None:
        # The attempt may have died before it could remove them.
        _remove_settled(objects, lease)
    return dict(receipt.summary)


def _remove_settled(objects: StoreObjects, lease: Lease) -> None:
    """Remove what the attempt that published, and those before it, have staged (step 14)."""
    found = ((name, epoch_and_token(name)) for name in objects.staged())
    objects.remove(
        name
        for name, staged_by in found
        if staged_by and (staged_by[0] < lease.epoch or staged_by == (lease.epoch, lease.token))
    )


def _parse(objects: StoreObjects, found: Found) -> Lease:
    if found.content is None:
        return Lease()
    try:
        return Lease.from_bytes(found.content)
    except ValueError as error:
        raise not_understood(objects.path, objects.lease, str(error)) from error


def _identity(objects: StoreObjects) -> str:
    """Return what tells whether the object at the destination is still the same; empty if there is none."""
    info = objects.info(objects.path.path)
    return f"{info.get('size')}:{content_tag(info)}" if info else ""
