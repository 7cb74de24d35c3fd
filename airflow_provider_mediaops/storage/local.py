"""A dataset on a disk: a claim is a file to which only its own attempt appends, and a lock guards each publication."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.errors import naming_path, replaced_error, unconditional_error
from airflow_provider_mediaops.storage.files import (
    NamedFolder,
    Version,
    adopt_mode,
    beside,
    check_own_folder,
    create,
    part_of,
    replacing,
    sync_names,
    target_of,
    temporary_file,
    write_at,
)
from airflow_provider_mediaops.storage.scratch import ByteRange, NewFile

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.log import Claim

# A kill loses nothing that was written; a power failure loses this much at most.
_SYNC_SECONDS = 5.0
# Whoever holds the lock is about to rename a file, unless its process was stopped.
_LOCK_SECONDS = 30.0
_LOCK_PAUSE_SECONDS = 0.05
# The errors of a file system without hard links, such as SMB, FAT and some of FUSE.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class LocalFolder(NamedFolder):
    """A folder of small files on a disk, also a network file system, into which nobody else can look."""

    def __init__(self, path: ObjectStoragePath, folder: Path) -> None:
        super().__init__(path, str(folder))
        self._folder = folder
        with naming_path(folder.parent, "written"):
            folder.parent.mkdir(parents=True, exist_ok=True)
        with self._writing(), suppress(FileNotFoundError):
            check_own_folder(folder)

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        check_own_folder(self._folder)

    def names(self, folder: str = "") -> list[str]:
        """List this folder or one within it, as it is now; an absent one is empty."""
        with self._reading():
            try:
                return os.listdir(self._folder / folder)  # noqa: PTH208 the names are all that is wanted
            except FileNotFoundError:
                return []

    def read(self, name: str) -> bytes | None:
        """Return a small file; None if there is none."""
        with self._reading():
            try:
                descriptor = _open(self._folder / name)
            except FileNotFoundError:
                return None
            with open(descriptor, "rb") as file:  # noqa: PTH123 a descriptor has no path
                return file.read()

    def put(self, name: str, content: bytes) -> None:
        """Write a small file in one step, whatever was there."""
        with self._writing(), replacing(self._folder / name) as descriptor:
            write_at(descriptor, content, 0)

    def create(self, name: str, content: bytes, *, is_first: bool) -> None:
        """Create a small file in one step, by a link; raise DestinationReplacedError if there is one."""
        del is_first  # a disk has no client between it and its conditions
        with self._writing():
            # Somebody may have removed it since.
            self._make_folder()
            part = part_of(self._folder / name)
            with temporary_file(part) as descriptor:
                write_at(descriptor, content, 0)
                os.fsync(descriptor)
                try:
                    os.link(part, self._folder / name)
                except FileExistsError as error:
                    raise replaced_error(self._path) from error
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    reason = f"its file system has no hard links ({error.strerror or error})"
                    raise unconditional_error(self._path, reason) from error
            sync_names(self._folder)

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove files of a folder within this one, and the folder if it is empty then."""
        with self._writing():
            for name in names:
                (self._folder / folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                (self._folder / folder).rmdir()


class LocalBackend(LocalFolder):
    """A file on a disk, also a shared one that has locks and shows at once what was written."""

    #: For how long commits may be held back before they are appended, and how many bytes of them.
    hold_seconds = 0.0
    hold_bytes = 0

    def __init__(self, path: ObjectStoragePath) -> None:
        with naming_path(path, "written"):
            self._target = target_of(path)
        super().__init__(path, self._target.parent / beside(self._target.name, "staging"))
        self._log, self._synced = NewFile(-1), time.monotonic()
        self._opened: list[int] = []

    def claim(self, folder: str, claim: Claim) -> None:
        """Create the file of a claim."""
        with self._writing():
            self._make_folder()
            own = self._folder / folder
            own.mkdir(mode=0o700, exist_ok=True)
            self._log = NewFile(create(own / str(claim)))
            self._opened.append(self._log.descriptor)
            for each in (own, self._folder, self._folder.parent):
                sync_names(each)

    def append(self, number: int, content: Iterable[bytes], *, durable: bool) -> ByteRange:
        """Add a frame at the end of the file of the claim that was created here; return where it can be read."""
        del number  # each follows the one before it
        now = time.monotonic()
        with self._writing():
            part = self._log.write(content)
            if durable or now - self._synced >= _SYNC_SECONDS:
                os.fsync(self._log.descriptor)
                self._synced = now
        return part

    def load(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, ByteRange]]:
        """Open files of a log, and yield where each can be read."""
        for name in names:
            with self._reading():
                descriptor = _open(self._folder / folder / name)
                self._opened.append(descriptor)
                yield name, ByteRange(descriptor, 0, os.fstat(descriptor).st_size)

    def version(self) -> Version | None:
        """Return inode, time of the last write and size: a change of the permissions is not a new version."""
        with self._reading():
            return self._current()

    def _current(self) -> Version | None:
        with suppress(FileNotFoundError):
            return _version_of(self._target.stat())
        return None

    @contextmanager
    def new_file(self) -> Iterator[NewFile]:
        """Open a file in the hidden folder, so that it can be renamed; it is removed when the block ends."""
        with self._writing():
            self._make_folder()
        path = part_of(self._folder / "new")
        # With the permissions of any new file; here nobody else can look at it.
        with temporary_file(path, 0o666) as descriptor:
            yield NewFile(descriptor, path)

    def publish(self, new: NewFile, replaces: Version | None) -> Version:
        """Replace a version, or none, by a new file; raise DestinationReplacedError if another one is there."""
        with self._writing():
            adopt_mode(new.descriptor, self._target)
            os.fsync(new.descriptor)
            with self._locked():
                if self._current() != replaces:
                    raise replaced_error(self._path)
                (new.path or self._target).replace(self._target)
            sync_names(self._target.parent)
            # Not the version that is there now, which may be another run's.
            return _version_of(os.fstat(new.descriptor))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            ends = time.monotonic() + _LOCK_SECONDS
            while not _try_lock(descriptor):
                if time.monotonic() > ends:
                    raise DestinationInUseError(
                        f"{unsigned(str(self._path))} is being published by another process, which has held its lock "
                        "for half a minute: it may have been stopped. This attempt ends; the next one publishes what "
                        "is staged. If no task is at work, end that process.",
                        service="storage",
                    )
                time.sleep(_LOCK_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the files of claims."""
        while self._opened:
            os.close(self._opened.pop())


def _open(file: Path) -> int:
    # No link is followed, and a named pipe is not waited for.
    return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _version_of(status: os.stat_result) -> Version:
    return Version(f"{status.st_ino}:{status.st_mtime_ns}", status.st_size)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
