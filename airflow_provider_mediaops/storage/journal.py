"""
The journal of a dataset that is being staged on a local disk: its owner, its commits, its receipt.

The first line names the owner, and the latest receipt when it began. Each commit adds a line. A companion that is
published together with the dataset adds two: the name under which it is staged, and the same once it is written.
Publishing adds the receipt of what is published. A journal without an owner belongs to no attempt: it keeps a receipt.

The journal is locked (``flock``) while a task writes, and is replaced as a whole to shorten it. So the lock protects
the destination only while the locked file is the one that has the journal's name.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.durability import sync
from airflow_provider_mediaops.storage.errors import files_changed_error, unknown_version_error
from airflow_provider_mediaops.storage.files import beside, create, is_still_at, open_own, replacing
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner, Receipt
from airflow_provider_mediaops.storage.records import Extent, read_blocks, write_at
from airflow_provider_mediaops.storage.staged_files import StagedCompanion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VERSION = 1
# A journal that is longer than this is replaced by a shorter one.
_LONG_BYTES = 256 * 1024
# A journal is replaced a few times in the life of a dataset. If it is replaced this often in a row, something is wrong.
_TRIES = 100


@dataclass(frozen=True, slots=True)
class Commit:
    """
    One commit.

    :param extent: the committed records.
    :param state: the state that the writer saved with them.
    :param end: where the commit's line ends in the journal, in bytes.
    """

    extent: Extent
    state: Any
    end: int


@dataclass(slots=True)
class Journal:
    """
    The content of a journal.

    :param owner: the owner of the staged records; None if nothing is staged.
    :param last: the latest receipt when the owner began. It may describe an earlier file than that at the destination.
        None if there was no file, or no receipt.
    :param commits: the commits in order.
    :param receipt: the receipt of the dataset that the owner has published, or was about to publish.
    :param companion: the companion that is staged with that dataset; None if there is none.
    :param start: where the first line ends, in bytes.
    """

    owner: Owner | None = None
    last: Receipt | None = None
    commits: list[Commit] = field(default_factory=list)
    receipt: Receipt | None = None
    companion: StagedCompanion | None = None
    start: int = 0


def header_line(owner: Owner | None, last: Receipt | None) -> bytes:
    """Return the first line of a journal."""
    fields = {"owner": asdict(owner) if owner else None, "last_receipt": asdict(last) if last else None}
    return json_line({"version": _VERSION, **fields}) + b"\n"


def commit_line(extent: Extent, state: Any) -> bytes:
    """Return the line of a commit."""
    return json_line({"extent": (extent.size, extent.rows, extent.crc), "state": state}) + b"\n"


def companion_line(companion: StagedCompanion) -> bytes:
    """Return the line of a staged companion."""
    return json_line({"companion": companion.to_dict()}) + b"\n"


def receipt_line(receipt: Receipt) -> bytes:
    """Return the last line of a journal."""
    return json_line({"receipt": asdict(receipt)}) + b"\n"


def read_journal(data: bytes, file: object) -> Journal:
    """
    Parse a journal up to the first line that is damaged.

    :param data: its content. A killed process or a full disk may have cut its last line short, and a power failure may
        have left anything at its end.
    :param file: its path, for messages.
    :returns: the journal; an empty one if even the first line is damaged.
    :raises PermanentError: if another version of this package has written it.
    """
    journal = Journal()
    end = 0
    for line in data.split(b"\n")[:-1]:
        end += len(line) + 1
        fields = _fields(line)
        try:
            if not journal.start:
                journal = _parse_header(fields, end, file)
            elif "receipt" in fields:
                journal.receipt = Receipt.from_dict(fields["receipt"])
            elif "companion" in fields:
                journal.companion = StagedCompanion.from_dict(fields["companion"])
            else:
                before = journal.commits[-1].extent if journal.commits else Extent()
                journal.commits.append(Commit(_parse_extent(fields["extent"], before), fields["state"], end))
        except (KeyError, TypeError, ValueError):
            break
    return journal


def _parse_extent(numbers: Any, before: Extent) -> Extent:
    """Return the extent of a commit; ValueError or TypeError if it cannot follow the extent before it."""
    extent = Extent.of(*numbers)
    size, rows = extent.size - before.size, extent.rows - before.rows
    # A record takes more than a byte. A commit may have a state alone.
    if not 0 <= rows <= size or (size and not rows):
        raise ValueError("no growth")
    return extent


def _parse_header(fields: Mapping[str, Any], end: int, file: object) -> Journal:
    if fields["version"] != _VERSION:
        raise unknown_version_error(file, fields["version"])
    owner, last = fields["owner"], fields["last_receipt"]
    return Journal(Owner.from_dict(owner) if owner else None, Receipt.from_dict(last) if last else None, start=end)


def _fields(line: bytes) -> Mapping[str, Any]:
    try:
        value = parse_json(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class LockedJournal:
    """
    A journal on the disk that this process has locked, until it is closed or the process dies.

    :param target: the file whose journal it is; the journal is beside it.
    :param destination: the path of the target as the user gave it, for messages.
    :raises BlockingIOError: if another process has locked it.
    :raises PermissionError: if it is not a regular file of this user.
    :raises OSError: if it cannot be opened for writing.
    """

    def __init__(self, target: Path, destination: object) -> None:
        self.file = journal_of(target)
        self._destination = destination
        self._descriptor = _locked(self.file)
        self._end = os.fstat(self._descriptor).st_size
        self._long_bytes = _LONG_BYTES

    @property
    def is_long(self) -> bool:
        """Whether it should be replaced by a shorter one."""
        return self._end > self._long_bytes

    def check(self) -> None:
        """
        Make sure that the lock still protects the destination.

        :raises DestinationInUseError: if the journal was removed or replaced, so that another task may hold it.
        """
        if not is_still_at(self._descriptor, self.file):
            raise files_changed_error(self._destination, self.file)

    def read(self) -> Journal:
        """
        Parse the journal up to the first line that is damaged.

        :returns: its content.
        :raises PermanentError: if another version of this package has written it.
        """
        return read_journal(b"".join(read_blocks(self._descriptor, 0, self._end)), self.file)

    def cut(self, end: int) -> None:
        """
        Remove everything after a line.

        :param end: where the line ends, in bytes.
        """
        os.ftruncate(self._descriptor, end)
        self._end = end

    def append(self, line: bytes, *, durable: bool = False) -> None:
        """
        Append a line. It overwrites an earlier one that failed, also if only its sync did.

        :param line: the line.
        :param durable: whether it must be on the disk.
        """
        write_at(self._descriptor, line, self._end)
        if durable:
            sync(self._descriptor)
        self._end += len(line)

    def sync(self) -> None:
        """Write the journal to the disk."""
        sync(self._descriptor)

    def rewrite(self, content: bytes, *, durable: bool = True) -> None:
        """
        Replace its content in one step.

        :param content: the new lines.
        :param durable: whether they must be on the disk before the old ones are gone.
        :raises DestinationInUseError: if the journal was removed or replaced by another process.
        """
        fresh = -1
        try:
            with replacing(self.file, durable=durable, private=True) as descriptor:
                # Locked before it has its name, so that nobody else can lock it first.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The lock belongs to both descriptors.
                fresh = os.dup(descriptor)
                write_at(fresh, content, 0)
                self.check()
        except BaseException:
            if fresh >= 0:
                os.close(fresh)
            raise
        os.close(self._descriptor)
        self._descriptor = fresh
        self._end = len(content)
        self._long_bytes = max(_LONG_BYTES, 4 * self._end)

    def remove(self) -> None:
        """
        Remove the file; the lock stays until it is closed. An attempt that begins makes another journal.

        :raises DestinationInUseError: if the journal was removed or replaced by another process.
        """
        self.check()
        self.file.unlink()

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def journal_of(target: Path) -> Path:
    """Return the path of a file's journal."""
    return target.with_name(beside(target.name, "checkpoint"))


def peek(target: Path) -> Journal:
    """
    Read a journal that another process has locked.

    :param target: the file whose journal it is.
    :returns: the journal; an empty one if it is gone.
    :raises PermissionError: if it is not a regular file of this user.
    :raises PermanentError: if another version of this package has written it.
    """
    file = journal_of(target)
    try:
        descriptor = open_own(file)
    except FileNotFoundError:
        return Journal()
    try:
        return read_journal(b"".join(read_blocks(descriptor, 0, os.fstat(descriptor).st_size)), file)
    finally:
        os.close(descriptor)


def _locked(file: Path) -> int:
    for _ in range(_TRIES):
        descriptor = _opened(file)
        if descriptor is None:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_still_at(descriptor, file):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # It was replaced between the two calls, so the locked file is no longer the journal.
        os.close(descriptor)
    raise OSError(f"{file} is removed again and again")


def _opened(file: Path) -> int | None:
    """Open or create a file; None if others create and remove it at the same moment."""
    try:
        return open_own(file)
    except FileNotFoundError:
        try:
            return create(file)
        except FileExistsError:
            return None
