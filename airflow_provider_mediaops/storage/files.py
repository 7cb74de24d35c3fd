"""Write files that readers see whole or not at all, on the local disk and on any object store."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from airflow_provider_mediaops.arguments import read_iso_time
from airflow_provider_mediaops.storage.errors import missing_bucket, naming_path
from airflow_provider_mediaops.storage.paths import check_store, is_irregular, is_local, local_path_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

T = TypeVar("T")

#: The end of the name of a file that is not yet whole.
PART = ".part"
# The characters of a long file name that its companions keep, and the maximum of the usual file systems in bytes.
_KEPT_NAME_LENGTH = 50
_MAX_NAME_BYTES = 255
_BLOCK_BYTES = 1024 * 1024
# Their clients create a missing bucket or container together with a folder.
_BUCKET_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "adl"})
# The names for the time of the last write. The first that is present counts.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
# The names for a property that differs between two versions of a file. The first that is present counts.
# Google has an ETag as well, but only the generation can be the condition of a write.
_TAGS = ("generation", "ETag", "etag", "e_tag", "md5Hash", "md5", "checksum", *_TIMES)


class Version(NamedTuple):
    """One version of a file."""

    tag: str  # what the disk or the store calls it
    size: int


class NamedFolder:
    """A folder of small files on a disk or on a store, whose errors name another path: that of the file beside it."""

    def __init__(self, path: ObjectStoragePath, folder: str) -> None:
        self._path = path
        #: Its path within the storage.
        self.folder = folder
        #: A sentence for the reader of an error.
        self.hint = ""

    def _reading(self) -> AbstractContextManager[None]:
        return naming_path(self._path, "read", self.hint)

    def _writing(self) -> AbstractContextManager[None]:
        return naming_path(self._path, "written", self.hint)


def write_whole(path: ObjectStoragePath, data: bytes) -> None:
    """Write a file that readers see whole or not at all. An older file stays until the new one replaces it."""
    if is_local(path):
        with naming_path(path, "written"), replacing(target_of(path)) as descriptor:
            write_at(descriptor, data, 0)
    else:
        put(path, path.path, lambda target: path.fs.pipe_file(target, data))


def check_writable(path: ObjectStoragePath) -> None:
    """Make sure that a file can be written, by writing an empty one beside it; else raise OSError or PermanentError."""
    if is_local(path):
        with naming_path(path, "written"):
            target = target_of(path)
            with suppress(FileNotFoundError):
                target.lstat()  # raises if the name is too long, for example
            with temporary_file(part_of(target)):
                return
    check_store(path, "destination")
    folder, _, name = path.path.rpartition("/")
    probe = f"{folder}/{beside(name, 'probe')}"
    put(path, probe, lambda target: path.fs.pipe_file(target, b""))
    # Another task may have removed it, or the key have no right to delete: then one empty object stays.
    with suppress(FileNotFoundError, PermissionError), naming_path(path, "written"):
        path.fs.rm_file(probe)


def put(path: ObjectStoragePath, target: str, send: Callable[[str], T], hint: str = "") -> T:
    """Write an object; an ``OSError`` names it."""
    with naming_path(path, "written", hint):
        try:
            return send(target)
        except FileNotFoundError as error:
            # Object stores have no folders: only the bucket can be missing. Its name may be misspelt, so it is not
            # created. Stores such as SFTP have folders.
            if path.protocol in _BUCKET_SCHEMES:
                raise missing_bucket() from error
            path.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            return send(target)


def beside(name: str, kind: str) -> str:
    """Return the name of a file's hidden companion, which no companion of another file has."""
    hidden = f".{name}.{kind}"
    if len(os.fsencode(hidden)) <= _MAX_NAME_BYTES:
        return hidden
    return f".{name[:_KEPT_NAME_LENGTH]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.{kind}"


def target_of(path: ObjectStoragePath) -> Path:
    """Return the local file to write, of a link the one that it leads to, so that it stays one; create its folder."""
    target = Path(os.path.realpath(local_path_of(path)))
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    if is_irregular(path):
        raise FileExistsError("it is a pipe or a device, which the file would replace; choose another path")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


@contextmanager
def temporary_file(path: Path, mode: int = 0o600) -> Iterator[int]:
    """Create a file, by default for this user only; it is removed when the block ends, if it has no other name then."""
    descriptor = create(path, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


@contextmanager
def replacing(target: Path) -> Iterator[int]:
    """Open a new file that takes the place of another one when the block ends, unless that raises."""
    part = part_of(target)
    with temporary_file(part, 0o666) as descriptor:
        adopt_mode(descriptor, target)
        yield descriptor
        os.fsync(descriptor)
        part.replace(target)
        sync_names(target.parent)


def create(file: Path, mode: int = 0o600) -> int:
    """Create a file; FileExistsError if the name is taken, also by a dangling link."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def part_of(target: Path) -> Path:
    """Return a random name beside a file, for a file that is to replace it."""
    return target.with_name(beside(target.name, f"{secrets.token_hex(8)}{PART}"))


def adopt_mode(descriptor: int, target: Path) -> None:
    """Give a new file the permissions of the file that it replaces; those of any new file (the umask's) if none."""
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode) & 0o777)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all data at an offset of a file, over the rest of an earlier write that failed."""
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)


def sync_names(folder: Path) -> None:
    """Write the names in a folder to the disk, so that they survive a power failure, if the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_own_folder(folder: Path) -> None:
    """Make sure that a hidden folder is one of this user, into which nobody else can look; else raise OSError."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not _is_own(folder, status.st_uid):
        message = (
            f"{folder} is not a folder of this user (its owner is uid {status.st_uid}); remove it, and let no other "
            "user write to the folder above it"
        )
        raise PermissionError(errno.EPERM, message)
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def _is_own(folder: Path, uid: int) -> bool:
    if uid == os.geteuid():
        return True
    # Some network file systems show every file as another user's, those that this process creates included.
    with temporary_file(part_of(folder)) as probe:
        return uid == os.fstat(probe).st_uid


def file_digest(path: ObjectStoragePath) -> str:
    """Return the SHA-256 of a file; empty if there is none."""
    with naming_path(path, "read"):
        # Some clients cache the size.
        path.fs.invalidate_cache()
        try:
            with path.fs.open(path.path, "rb") as file:
                return digest_of(iter(partial(file.read, _BLOCK_BYTES), b""))
        except FileNotFoundError:
            return ""


def digest_of(blocks: Iterable[bytes]) -> str:
    """Return the SHA-256 of a content."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def content_tag(info: Mapping[str, Any]) -> str:
    """Return the tag or checksum of a file's content, else its time; an empty text if the store has none."""
    tag = _first(info, _TAGS)
    # Some replies have the quotes of HTTP, others have none.
    return "" if tag is None else str(tag).strip('"')


def modified_time(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file's last write by the store's clock, in seconds since 1970; None if it is unknown."""
    value = _first(info, _TIMES)
    if isinstance(value, str):
        value = read_iso_time(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    return float(value) if isinstance(value, (int, float)) else None


def _first(info: Mapping[str, Any], names: Iterable[str]) -> Any:
    # Zero is the time of a file of 1970.
    return next((value for name in names if (value := info.get(name)) not in (None, "")), None)
