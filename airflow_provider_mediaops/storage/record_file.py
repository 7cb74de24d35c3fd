"""
A small file that several tasks read and replace, one after the other.

A write names the content that it replaces, and fails if another task has written since. So of two tasks that read the
same content, one at most can replace it:

- On the local disk, a new file is linked to its name, which fails if there is one. A file is replaced or removed while
  it is locked (``flock``), after its content was compared. A reader sees it whole or not at all.
- On an object store, a write carries a condition: create only, or replace this version only. Clients other than that of
  S3 know only the first (those of Google and Microsoft), or none, and a server may ignore both. So each creation is
  tried once more, which has to fail. A store that checks no creation is refused. A deletion has no condition: the
  content is compared right before.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from airflow_provider_mediaops.storage.durability import sync, sync_names
from airflow_provider_mediaops.storage.errors import unconditional_error
from airflow_provider_mediaops.storage.files import (
    beside,
    create,
    is_local,
    is_still_at,
    lasting,
    naming_path,
    open_own,
    part_of,
    put,
    replacing,
    translating_errors,
)
from airflow_provider_mediaops.storage.object_info import modified_time
from airflow_provider_mediaops.storage.records import read_blocks, write_at
from airflow_provider_mediaops.storage.store_objects import ConflictError, Found, StoreObjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import ObjectStoragePath

#: A larger record is not written, and the rest of a larger file is not read.
MAX_RECORD_BYTES = 1024 * 1024


class RecordFile(Protocol):
    """A record on some storage."""

    def read(self) -> Found:
        """
        Read the record.

        :raises OSError: if it cannot be read, or is no regular file of this user; the message names it.
        """
        ...

    def write(self, content: bytes, replaces: Found) -> None:
        """
        Write the record.

        :param content: the new content.
        :param replaces: what was read before, and is replaced.
        :raises ConflictError: if another task has written since. A store that checks creation only may write all the
            same.
        :raises PermanentError: if it was created on a store that does not check creation either. It is there then.
        :raises OSError: if it cannot be written; the message names it. It may be there.
        """
        ...

    def remove(self, found: Found) -> None:
        """
        Remove the record.

        :param found: what was read before, and is removed.
        :raises ConflictError: if another task has written since.
        :raises OSError: if it cannot be removed; the message names it.
        """
        ...

    def age_seconds(self, found: Found) -> float | None:
        """
        Return the time since the last write, by the storage's own clock.

        :param found: what was read.
        :returns: seconds; None if the storage does not say.
        """
        ...


def record_file(path: ObjectStoragePath) -> RecordFile:
    """
    Return the record at a path.

    :param path: the path of the file; missing folders are created.
    :raises PermanentError: if the client of its store knows no conditional writes.
    :raises OSError: if its folder cannot be created; the message names it.
    """
    return _LocalRecord(path) if is_local(path) else _StoreRecord(path)


class _LocalRecord:
    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        with naming_path(path, "written"):
            given = Path(lasting(path))
            given.parent.mkdir(parents=True, exist_ok=True)
            # Of the folder only: a link in the place of the record is another user's trick, and refused.
            self._file = Path(os.path.realpath(given.parent)) / given.name

    def read(self) -> Found:
        with naming_path(self._path, "read"):
            try:
                descriptor = open_own(self._file)
            except FileNotFoundError:
                return Found()
            try:
                return Found(_content_of(descriptor), modified=os.fstat(descriptor).st_mtime)
            finally:
                os.close(descriptor)

    def write(self, content: bytes, replaces: Found) -> None:
        with naming_path(self._path, "written"):
            _check_size(content)
            if replaces.content is None:
                self._create(content)
                return
            with self._locked(replaces), replacing(self._file, private=True) as descriptor:
                write_at(descriptor, content, 0)

    def _create(self, content: bytes) -> None:
        part = part_of(self._file)
        descriptor = create(part)
        try:
            write_at(descriptor, content, 0)
            sync(descriptor)
            os.link(part, self._file)
        except FileExistsError as error:
            raise ConflictError(str(self._file)) from error
        finally:
            os.close(descriptor)
            part.unlink(missing_ok=True)
        sync_names(self._file.parent)

    def remove(self, found: Found) -> None:
        with naming_path(self._path, "written"), self._locked(found):
            self._file.unlink()
            sync_names(self._file.parent)

    @contextmanager
    def _locked(self, found: Found) -> Iterator[None]:
        """Lock the file while it is replaced; raise ConflictError unless its content is what was read."""
        try:
            descriptor = open_own(self._file)
        except FileNotFoundError as error:
            raise ConflictError(str(self._file)) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConflictError(str(self._file)) from error
            if not is_still_at(descriptor, self._file) or _content_of(descriptor) != found.content:
                raise ConflictError(str(self._file))
            yield
        finally:
            os.close(descriptor)

    def age_seconds(self, found: Found) -> float | None:
        if found.modified is None:
            return None
        with naming_path(self._path, "written"):
            # On a network file system, the server's clock counts.
            part = part_of(self._file)
            descriptor = create(part)
            try:
                return os.fstat(descriptor).st_mtime - found.modified
            finally:
                os.close(descriptor)
                part.unlink(missing_ok=True)


class _StoreRecord:
    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        self._objects = StoreObjects(path, MAX_RECORD_BYTES)
        if not self._objects.checks_creation:
            raise unconditional_error(path)

    def read(self) -> Found:
        return self._objects.read(self._path.path, MAX_RECORD_BYTES)

    def write(self, content: bytes, replaces: Found) -> None:
        with naming_path(self._path, "written"):
            _check_size(content)
        self._objects.write(self._path.path, content, replaces.condition)
        if replaces.content is None:
            self._try_condition(content)

    def _try_condition(self, content: bytes) -> None:
        """Raise if the store creates an object that is there."""
        try:
            self._objects.write(self._path.path, content, "")
        except ConflictError:
            return
        raise unconditional_error(self._path)

    def remove(self, found: Found) -> None:
        if self.read().content != found.content:
            raise ConflictError(self._path.path)
        with translating_errors(self._path, "written"):
            self._path.fs.rm_file(self._path.path)

    def age_seconds(self, found: Found) -> float | None:
        if found.modified is None:
            return None
        folder, _, name = self._path.path.rpartition("/")
        probe = f"{folder}/{beside(name, f'{secrets.token_hex(4)}.probe')}"
        put(self._path, probe, lambda target: self._path.fs.pipe_file(target, b""))
        written = modified_time(self._objects.info(probe))
        with translating_errors(self._path, "written"):
            self._path.fs.rm_file(probe)
        return None if written is None else written - found.modified


def _content_of(descriptor: int) -> bytes:
    return b"".join(read_blocks(descriptor, 0, MAX_RECORD_BYTES))


def _check_size(content: bytes) -> None:
    if len(content) > MAX_RECORD_BYTES:
        raise OSError(f"it is larger than {MAX_RECORD_BYTES:,} bytes")
