"""
A small record that several tasks read and replace, one after the other: in Airflow's task state store, or in files.

In files, each version of the record is a file of its own, ``0001.json``, ``0002.json``, …, that is created once and
never changed: to replace version 3 is to create version 4. So of two tasks that have read the same version, one at most
replaces it, on a disk and on every object store that refuses to create an object that is there.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.backend import read_blocks, temporary_file
from airflow_provider_mediaops.storage.errors import ConflictError, conflict_error, unconditional_error
from airflow_provider_mediaops.storage.files import (
    check_own_folder,
    create,
    is_local,
    lasting,
    naming_path,
    part_of,
    put,
    sync,
    sync_names,
    translating_errors,
    write_at,
)
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.object_store import conditional_write, is_conflict, is_unconditional

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.backend import NewFile

_VERSION_FILE = re.compile(r"([0-9]{4}|[1-9][0-9]{4,8})\.json")
# The errors of a file system without hard links, such as SMB, FAT and some of FUSE.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_ONE_USER = (
    "All tasks that use a journal have to run as one user of the system, and none of its files is a link. Do not "
    "remove single files of it: a bulletin could be posted again."
)


@dataclass(frozen=True, slots=True)
class Version:
    """
    A version of a record.

    :param value: its plain values; None if there are none. If its file holds no JSON, the text of the file.
    :param number: its number; 0 for a record that nobody has written yet.
    """

    value: Any = None
    number: int = 0


class Record(Protocol):
    """A record in some store."""

    #: The record and its place, as the start of a sentence.
    name: str
    #: How to remove it by hand, as a part of a sentence.
    removal: str

    def read(self) -> Version:
        """
        Read the record.

        :raises OSError: if it cannot be read; the message names its place.
        """
        ...

    def replace(self, value: Any, version: Version) -> Version:
        """
        Replace a version of the record.

        :param value: the new plain values; None removes them.
        :raises ConflictError: if another task has replaced that version.
        :raises PermanentError: if the store does not keep two tasks from that.
        :raises OSError: if it cannot be written; the message names its place. It may be there.
        """
        ...


class StateStore(Protocol):
    """A store of JSON values that the attempts of a task share, such as Airflow's task state store."""

    def get(self, key: str, /) -> Any:
        """Return a value; None if there is none."""
        ...

    def set(self, key: str, value: Any, /, *, retention: timedelta | None = None) -> None:
        """Store a value for a time; None leaves the time to the store."""
        ...

    def delete(self, key: str, /) -> None:
        """Delete a value, if there is one."""
        ...


class StateRecord:
    """
    A record in the state store of a task, which has one attempt at a time: it replaces whatever is there.

    :param retention: how long the record is kept; None leaves it to the store.
    """

    def __init__(self, store: StateStore, key: str, retention: timedelta | None = None) -> None:
        self._store, self._key, self._retention = store, key, retention
        self.name = "The record in the task's state store"
        self.removal = f"delete {key} from the task's state store (tab Storage, Task State Store)"

    def read(self) -> Version:
        """Read the record."""
        try:
            return Version(self._store.get(self._key))
        except Exception as error:
            raise self._failure("read from", error) from error

    def replace(self, value: Any, version: Version) -> Version:
        """Replace the record."""
        del version
        try:
            if value is None:
                self._store.delete(self._key)
            else:
                self._store.set(self._key, value, retention=self._retention)
        except Exception as error:
            raise self._failure("written to", error) from error
        return Version(value)

    @staticmethod
    def _failure(action: str, error: Exception) -> OSError:
        # The text of the error may hold anything, so it is not repeated.
        return OSError(
            f"The record could not be {action} the task's state store ({type(error).__name__}). Check that the worker "
            "reaches Airflow's API server, and whether Airflow has given up this try."
        )


class FileRecord:
    """
    A record in a folder of files, on a disk or an object store.

    :param folder: the folder of its versions; missing folders are created.
    :raises PermanentError: if the client of its store cannot refuse to create an object that is there.
    :raises OSError: if the folder cannot be created; the message names it.
    """

    def __init__(self, folder: ObjectStoragePath) -> None:
        self._folder = _DiskFolder(folder) if is_local(folder) else _StoreFolder(folder)
        self._path = folder
        self.name = f"The record {unsigned(str(folder))}"
        self.removal = f"delete {unsigned(str(folder))}"

    def read(self) -> Version:
        """Read the newest version."""
        number = max(
            (int(found[1]) for found in map(_VERSION_FILE.fullmatch, self._folder.names()) if found), default=0
        )
        if not number:
            return Version()
        content = self._folder.read(_file_name(number))
        try:
            return Version(parse_json(content), number)
        except ValueError:
            return Version(content.decode("utf-8", "replace"), number)

    def replace(self, value: Any, version: Version) -> Version:
        """Create the version that follows."""
        # Somebody may have removed the folder since, and another task have begun a new one.
        if version.number and _as_written(self.read()) != _as_written(version):
            raise conflict_error(self._path)
        new = Version(value, version.number + 1)
        self._folder.create(_file_name(new.number), json_line(value) + b"\n", again=version.value is None)
        return new


def _as_written(version: Version) -> tuple[int, bytes]:
    """Return a version as it compares: NaN, in a file that somebody changed, is not equal to itself."""
    return version.number, json_line(version.value)


def _file_name(number: int) -> str:
    return f"{number:04}.json"


class _DiskFolder:
    """Creates files that are there whole or not at all; a folder on a network file system is one, too."""

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        self._folder = Path(lasting(path))
        with naming_path(self._folder.parent, "written"):
            self._folder.parent.mkdir(parents=True, exist_ok=True)
        with naming_path(path, "written"):
            # Who can write in it can have a bulletin taken for posted.
            self._folder.mkdir(mode=0o700, exist_ok=True)
            check_own_folder(self._folder)

    def names(self) -> list[str]:
        with self._reading():
            try:
                return [file.name for file in self._folder.iterdir()]
            except FileNotFoundError:
                return []

    def read(self, name: str) -> bytes:
        with self._reading():
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return b"".join(read_blocks(descriptor, 0, os.fstat(descriptor).st_size))
            finally:
                os.close(descriptor)

    def create(self, name: str, content: bytes, *, again: bool) -> None:
        # A disk has no client between it and its conditions.
        del again
        with naming_path(self._path, "written"):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            part = part_of(self._folder / name)
            descriptor = create(part)
            try:
                write_at(descriptor, content, 0)
                sync(descriptor)
                self._link(part, self._folder / name)
            finally:
                os.close(descriptor)
                part.unlink(missing_ok=True)
            sync_names(self._folder)

    def _link(self, part: Path, target: Path) -> None:
        try:
            os.link(part, target)
        except FileExistsError as error:
            raise conflict_error(self._path) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise PermanentError(
                f"{unsigned(str(self._path))} cannot be kept: its file system has no hard links ({error.strerror}), so "
                "two tasks could do the same work at once. Choose a folder on ext4, XFS or NFS, or on an object store.",
                service="storage",
            ) from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with naming_path(self._path, "read"):
            try:
                yield
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ELOOP):
                    raise
                reason = "one of its files is a symbolic link" if error.errno == errno.ELOOP else error.strerror
                raise OSError(error.errno, f"{reason}. {_ONE_USER}") from error


class _StoreFolder:
    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        write = conditional_write(path.fs)
        if write is None:
            raise unconditional_error(path)
        self._write_if = write

    def names(self) -> list[str]:
        with translating_errors(self._path, "read"):
            # Some clients cache what they have listed.
            self._path.fs.invalidate_cache()
            try:
                return [info["name"].rpartition("/")[2] for info in self._path.fs.ls(self._path.path, detail=True)]
            except FileNotFoundError:
                return []

    def read(self, name: str) -> bytes:
        with translating_errors(self._path, "read"):
            content: bytes = self._path.fs.cat_file(f"{self._path.path}/{name}")
            return content

    def create(self, name: str, content: bytes, *, again: bool) -> None:
        with temporary_file() as new:
            write_at(new.descriptor, content, 0)
            self._put(name, new)
            if again:
                # A server may ignore the condition, although its client knows it: the second creation has to fail.
                try:
                    self._put(name, new)
                except ConflictError:
                    return
                raise unconditional_error(self._path)

    def _put(self, name: str, new: NewFile) -> None:
        put(self._path, f"{self._path.path}/{name}", lambda target: self._create(target, new))

    def _create(self, target: str, new: NewFile) -> None:
        try:
            self._write_if(target, new, None)
        except Exception as error:
            if is_unconditional(error):
                raise unconditional_error(self._path) from error
            if is_conflict(error):
                raise conflict_error(self._path) from error
            raise
