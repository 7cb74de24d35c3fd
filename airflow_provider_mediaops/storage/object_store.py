"""
The stage of a dataset on an object store: a claim and parts beside the destination.

``.<name>.checkpoint`` is the claim, later the receipt. Each commit is one PUT of an object of its own, with the records
and the state, below ``.<name>.parts/``: it is there whole or not at all. This machine keeps the records in a temporary
file as well, so that parts are read only where an attempt goes on from another's. To publish is one upload of the whole
file; then the parts are removed.

As small parts become many, they are merged: one PUT of a longer part, out of the temporary file, and then the parts
that it replaces are removed. Until they are, their commits are there twice, and the longest part counts. A merged part
that could not be written is left out: the small ones are as good, and merging goes on with those that come.

Of two tasks that begin within the same instant, both may believe for a moment that the destination is theirs. Neither
counts the other's parts, and the one whose claim was written over learns of it at its first commit, and again before it
publishes: it fails, and only the other publishes. A task that shows no sign of life for 15 minutes can be taken over by
another; it, too, learns of that before it publishes. The clocks of the machines may differ by minutes, not more.

Nobody removes a part that counts for another, although a claim may change between a look at it and what is done then.
Each attempt writes its claim, then lists the parts, then looks whether the claim is still its own. One that merges
writes the merged part, then looks at the claim, then removes the small ones. If that look finds the claim its own, the
next attempt has yet to write its claim, and to list the parts after that: it will see the merged part. If not, nothing
is removed. So a store has to show at once what was written, as those of Amazon, Google and Microsoft do.
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
from airflow_provider_mediaops.storage.compaction import Piece, Tiers
from airflow_provider_mediaops.storage.files import beside, naming_path, put, translating_errors
from airflow_provider_mediaops.storage.lease import STALE_AFTER, Claim
from airflow_provider_mediaops.storage.ownership import Owner, Receipt, in_use, taken_away
from airflow_provider_mediaops.storage.parts import Part, content_of, in_turns, read_content
from airflow_provider_mediaops.storage.records import Extent, read_blocks, read_lines, resume_hint, write_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.dataset import Convert

# How often a task makes sure that the destination is still its own.
_LOOK_EVERY = 30.0
# Parts removed together.
_TOGETHER = 100
# What an object's properties may call the thing that changes with its content.
_TAGS = ("ETag", "etag", "e_tag", "md5Hash", "LastModified", "last_modified", "mtime", "updated", "created")


class _Objects:
    """The objects of one destination."""

    def __init__(self, path: ObjectStoragePath) -> None:
        folder, _, name = path.path.rpartition("/")
        self.path = path
        self.claim = f"{folder}/{beside(name, 'checkpoint')}"
        self.parts = f"{folder}/{beside(name, 'parts')}"

    def read_claim(self) -> Claim:
        with translating_errors(self.path):
            # Some clients remember what they have listed.
            self.path.fs.invalidate_cache()
            try:
                return Claim.from_bytes(self.path.fs.cat_file(self.claim))
            except FileNotFoundError:
                return Claim()

    def write_claim(self, claim: Claim, what_to_do: str = "") -> None:
        put(self.path, self.claim, lambda target: self.path.fs.pipe_file(target, claim.to_bytes()), what_to_do)

    def list_parts(self) -> dict[Part, int]:
        """Give the parts that are there, each with its size in bytes."""
        with translating_errors(self.path):
            self.path.fs.invalidate_cache()
            try:
                found = self.path.fs.ls(self.parts, detail=True)
            except FileNotFoundError:
                return {}
        sizes = {Part.of(info["name"].rpartition("/")[2]): info.get("size") or 0 for info in found}
        return {part: size for part, size in sizes.items() if part}

    def write_part(self, part: Part, content: bytes, what_to_do: str) -> None:
        put(self.path, self._name(part), lambda target: self.path.fs.pipe_file(target, content), what_to_do)

    def _name(self, part: Part) -> str:
        return f"{self.parts}/{part.name}"

    def fetch(self, parts: Iterable[Part], sizes: Mapping[Part, int]) -> Iterator[bytes]:
        for turn in in_turns(sizes, parts):
            with translating_errors(self.path):
                contents = self.path.fs.cat_ranges([self._name(part) for part in turn], None, None, on_error="raise")
            yield from contents

    def remove(self, parts: Iterable[Part]) -> None:
        names = [self._name(part) for part in parts]
        for start in range(0, len(names), _TOGETHER):
            # Nobody counts them; what cannot be removed now is tried again when the destination is next written.
            with suppress(OSError), translating_errors(self.path):
                self._remove(names[start : start + _TOGETHER])

    def _remove(self, names: list[str]) -> None:
        # Many stores remove a list with one request; but in a list, such characters are patterns.
        if not set("*?[") & set(self.parts):
            self.path.fs.rm(names)
            return
        for name in names:
            self.path.fs.rm_file(name)

    def identity(self) -> str:
        with translating_errors(self.path):
            self.path.fs.invalidate_cache()
            try:
                info = self.path.fs.info(self.path.path)
            except FileNotFoundError:
                return ""
        tag = next((info[name] for name in _TAGS if info.get(name)), "")
        return f"{info.get('size')}:{tag}"

    def standing(self, receipt: Receipt | None) -> Receipt | None:
        """Give the receipt, unless its object is gone or another since."""
        return receipt if receipt and self.identity() == receipt.identity else None


class ObjectStage:
    """
    The stage of a destination on an object store.

    :param path: the destination.
    :param owner: who writes it.
    :param clock: seconds since 1970.
    :param tiers: how parts are merged.
    :raises DestinationInUseError: where another task is writing it.
    :raises OSError: where the store refuses or cannot be reached; the message names the destination.
    """

    def __init__(
        self, path: ObjectStoragePath, owner: Owner, clock: Callable[[], float], tiers: Tiers | None = None
    ) -> None:
        self._objects = _Objects(path)
        self._owner = owner
        self._clock = clock
        self._tiers = tiers or Tiers()
        self._pieces: list[Piece] = []
        # The first commit looks again: another may have begun within the same instant.
        self._looked: float | None = None
        self.extent = Extent()
        self.state: Any = None
        self._number = 0
        parts = self._begin()
        # Without a name, so that it goes with the process.
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._resume(parts)
        except BaseException:
            self._spool.close()
            raise
        self._after = self._number
        self.resumed = bool(self._number)

    def _begin(self) -> dict[Part, int]:
        claim, parts = self._objects.read_claim(), self._objects.list_parts()
        now = self._clock()
        if claim.owner and claim.owner.task != self._owner.task and not claim.released:
            seen = claim.seen(parts)
            if now - seen < STALE_AFTER:
                raise self._in_use(claim, seen)
        if not (claim.owner and self._owner.continues(claim.owner)):
            claim = Claim(last=claim.last)
        self.last = self._objects.standing(claim.last)
        self._claim = claim.taken_over(self._owner, secrets.token_hex(4), now, parts)
        self._objects.write_claim(self._claim)
        # Only now it is sure that nothing which is missing there is removed because something there replaces it.
        parts = self._objects.list_parts()
        # And that nothing there is of an attempt which has begun since.
        self._look()
        return parts

    def _resume(self, parts: dict[Part, int]) -> None:
        usable = dict(parts)
        while damaged := self._read(usable):
            # Not every store writes an object in one step; what it was to replace may still be there.
            del usable[damaged]
        self._objects.remove(set(parts) - set(self._claim.counting(usable)))

    def _read(self, parts: dict[Part, int]) -> Part | None:
        """Take in the parts that count, and give the first that is not what it should be."""
        counting = [part for part in self._claim.counting(parts) if part.first > self._number]
        for part, content in zip(counting, self._objects.fetch(counting, parts), strict=True):
            found = read_content(content, self.extent)
            if found is None:
                return part
            with self._naming_spool():
                write_at(self._spool.fileno(), found[2], self.extent.size)
            self.extent, self.state, _ = found
            self._number = part.last
        return None

    def lines(self) -> Iterator[bytes]:
        """Give the lines that are committed."""
        return read_lines(self._spool.fileno(), self.extent.size)

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: all of it, or nothing."""
        self._look_now_and_then()
        number, before, extent = self._number + 1, self.extent, self.extent.grown(data, rows)
        part = self._part(number, number)
        with self._naming_spool():
            write_at(self._spool.fileno(), data, before.size)
        self._objects.write_part(part, content_of(extent, state, data), self._advice())
        self._number, self.extent, self.state = number, extent, state
        self._pieces.append(Piece(part, before, len(data)))
        if due := self._tiers.due(self._pieces):
            self._merge(self._pieces[-due:])

    def _merge(self, pieces: list[Piece]) -> None:
        """Replace the last parts by one."""
        before = pieces[0].before
        with self._naming_spool():
            data = b"".join(read_blocks(self._spool.fileno(), before.size, self.extent.size))
            if before.grown(data, self.extent.rows - before.rows) != self.extent:
                raise OSError("the temporary file no longer holds what was written to it")
        merged = self._part(pieces[0].part.first, self._number)
        try:
            self._objects.write_part(merged, content_of(self.extent, self.state, data), "")
        except OSError:
            # What is committed is committed. To try the same again after each commit would cost more than it saves.
            self._pieces.clear()
            return
        self._pieces[-len(pieces) :] = [Piece(merged, before, len(data), max(piece.level for piece in pieces) + 1)]
        with suppress(OSError):
            self._look()
            self._objects.remove(piece.part for piece in pieces)

    def _part(self, first: int, last: int) -> Part:
        return Part(first, last, self._claim.token, self._after, int(self._clock()))

    def publish(self, convert: Convert | None, summary: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
        """Put the file at its destination in one step; give the summary with its size in bytes."""
        self._look()
        path = self._objects.path
        with tempfile.TemporaryFile() as file:
            with self._naming_spool():
                # What a commit that failed has left behind the last good one.
                os.ftruncate(self._spool.fileno(), self.extent.size)
                # A file without a name has a path of this form while it is open.
                ready = Path(f"/dev/fd/{(file if convert else self._spool).fileno()}")
                if convert:
                    convert(ready)
                    # On macOS all who open that path share one place to read at.
                    file.seek(0)
                final = {**summary, "bytes": ready.stat().st_size}
            put(path, path.path, lambda target: path.fs.put_file(str(ready), target), self._advice())
        self._settle(Receipt(self._owner, final, digest, self._objects.identity()))
        return final

    def keep_published(self, last: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take over what was published before as this task's own, with its size; None where it is gone meanwhile."""
        self._look()
        if not self._objects.standing(last):
            return None
        final = {**summary, "bytes": last.summary["bytes"]}
        self._settle(Receipt(self._owner, final, last.digest, last.identity))
        return final

    def close(self) -> None:
        """Let go of the destination; what is committed stays for the next attempt."""
        self._spool.close()
        if self._claim.owner:
            # What the attempt failed of may be the store; then the claim ends by itself.
            with suppress(OSError, DestinationInUseError):
                self._look()
                self._objects.write_claim(replace(self._claim, released=True))

    def _settle(self, receipt: Receipt) -> None:
        self._claim = Claim(last=receipt)
        self._objects.write_claim(self._claim, self._advice())
        self._objects.remove(self._objects.list_parts())

    def _look_now_and_then(self) -> None:
        if self._looked is None or self._clock() - self._looked >= _LOOK_EVERY:
            self._look()
            self._looked = self._clock()

    def _look(self) -> None:
        claim = self._objects.read_claim()
        if claim.token != self._claim.token:
            raise self._in_use(claim, claim.seen(()))

    def _in_use(self, claim: Claim, seen: float) -> DestinationInUseError:
        if not claim.owner:
            return taken_away(self._objects.path, self._objects.claim)
        return in_use(self._objects.path, claim.owner.task, seen, seen + STALE_AFTER)

    def _naming_spool(self) -> AbstractContextManager[None]:
        return naming_path(tempfile.gettempdir(), self._advice())

    def _advice(self) -> str:
        return resume_hint(self.extent)


def published_in_store(path: ObjectStoragePath, owner: Owner) -> dict[str, Any] | None:
    """
    Find what this very task instance has published.

    :param path: the destination.
    :param owner: the task instance.
    :returns: the summary, or None where the object at the destination is not of this task instance.
    :raises OSError: where the store refuses or cannot be reached; the message names the destination.
    """
    objects = _Objects(path)
    claim = objects.read_claim()
    receipt = claim.last
    if receipt is None or receipt.owner != owner or not objects.standing(receipt):
        return None
    if claim.owner is None:
        # Those that the attempt did not live to remove.
        objects.remove(objects.list_parts())
    return dict(receipt.summary)
