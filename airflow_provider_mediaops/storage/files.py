"""Write files that readers see whole or not at all, on the local disk and on any object store; name them in errors."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from airflow_provider_mediaops.arguments import is_web_address, read_iso_time, unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError
from airflow_provider_mediaops.storage.errors import refusal_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

T = TypeVar("T")

# The characters of a long file name that its companions keep, and the maximum of the usual file systems in bytes.
_KEPT_NAME_LENGTH = 50
_MAX_NAME_BYTES = 255
#: The end of the name of a file that is not yet whole.
PART = ".part"
_RANDOM_BYTES = 8
_KINDS_OF_NO_FILE = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}

# Their clients create a missing bucket or container together with a folder.
_BUCKET_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "adl"})

_AZURE_SCHEMES = frozenset({"abfs", "abfss"})
# The addresses of Microsoft's tools, of Hadoop and of fsspec for files on Azure.
_AZURE_FORM = re.compile(r"(abfss?|wasbs?|az|https)://(?:([^@/]*)@)?([^@/]*)/(.*)", re.DOTALL)
_AZURE_HOST = re.compile(r"\.(dfs|blob)\.")

# The names for the time of the last write. The first that is present counts.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
# The names for a property that differs between two versions of a file. The first that is present counts.
# Google has an ETag as well, but only the generation can be the condition of a write.
_TAGS = ("generation", "ETag", "etag", "e_tag", "md5Hash", "md5", "checksum", *_TIMES)

Action = Literal["read", "written"]


def path_of(text: object) -> ObjectStoragePath:
    """Return the path of a file on any storage; raise InvalidArgumentError if it can never name one."""
    # Importing it takes time, and this module is imported early.
    from airflow.sdk import ObjectStoragePath

    # ObjectStoragePath cannot be constructed from a local one.
    words = str(text)
    shown = unsigned(words)
    if form := airflow_form(shown):
        raise InvalidArgumentError(
            f"Airflow does not read the path {shown!r}. Write {form!r}: the account and its key are in a connection, "
            "whose id stands before the @."
        )
    if is_web_address(words):
        raise InvalidArgumentError(
            f"{shown!r} is a web address, not the path of a file. Put the file on s3://, gs://, abfs:// or sftp://, or "
            "on a disk that the machines share."
        )
    try:
        path = ObjectStoragePath(words)
    except (ValueError, ImportError) as error:
        # An ImportError names the package that a scheme needs.
        message = f"{shown!r} is not the path of a file: {error}. Use file://, s3:// or another scheme of fsspec."
        raise InvalidArgumentError(message) from error
    if is_local(path):
        _local_path_of(path)
    if path.protocol in _AZURE_SCHEMES:
        _quieten_azure()
    if not path.protocol and path.path.startswith("/") and not words.startswith("/"):
        # The universal_pathlib of Airflow 3.1 lets relative paths, and those of a home folder, begin at the root.
        path = ObjectStoragePath(str(Path.cwd() / _expanded(words)))
    return path


def _quieten_azure() -> None:
    """Leave out the headers of each request, which Azure's client logs at INFO, unless the user has set a level."""
    client = logging.getLogger("azure")
    if client.level == logging.NOTSET:
        client.setLevel(_azure_level())


def _azure_level() -> str:
    """Return the level that Airflow's ``namespace_levels`` gives: Airflow itself does not set it on such a logger."""
    from airflow_provider_mediaops.version_compat import conf

    found = re.search(r"(?:^|[\s,])azure\s*=\s*(\w+)", conf.get("logging", "namespace_levels", fallback="") or "")
    level = found[1].upper() if found else ""
    return level if isinstance(logging.getLevelName(level), int) else "WARNING"


def airflow_form(words: str) -> str:
    """
    Return Airflow's path for an address of Azure as other tools write it; empty for other paths.

    The path has ``<conn_id>`` in the place of a connection, which has the account.
    """
    found = _AZURE_FORM.match(words)
    if found is None:
        return ""
    scheme, user, host, rest = found.groups()
    if scheme == "https":
        return f"abfs://<conn_id>@{rest}" if _AZURE_HOST.search(host) else ""
    if _AZURE_HOST.search(host):
        return f"abfs://<conn_id>@{user or '<container>'}/{rest}"
    return "" if scheme.startswith("abfs") else f"abfs://{user or '<conn_id>'}@{host}/{rest}"


def _local_path_of(path: ObjectStoragePath) -> Path:
    if "\0" in path.path:
        raise InvalidArgumentError(f"{str(path)!r} is not the path of a file: it holds a NUL byte. Remove that byte.")
    return _expanded(path.path)


def _expanded(words: str) -> Path:
    try:
        # fsspec reads "~" as the home folder, so readers of the file do, too.
        return Path(words).expanduser()
    except RuntimeError as error:
        message = f"{words!r} is not the path of a file: there is no such home folder. Write the absolute path instead."
        raise InvalidArgumentError(message) from error


def write_whole(path: ObjectStoragePath, data: bytes) -> None:
    """Write a file that readers see whole or not at all. An older file stays until the new one replaces it."""
    if is_local(path):
        with naming_path(path, "written"), replacing(target_of(path)) as descriptor:
            write_at(descriptor, data, 0)
    else:
        put(path, path.path, lambda target: path.fs.pipe_file(target, data))


def lasting(path: ObjectStoragePath) -> str:
    """Return a path as other processes can open it: one on the local disk is absolute, without ``file://``."""
    return str(_local_path_of(path).absolute()) if is_local(path) else str(path)


def is_local(path: ObjectStoragePath) -> bool:
    """Return whether a path is on the local disk."""
    return path.protocol in ("", "file", "local")


def target_of(path: ObjectStoragePath) -> Path:
    """
    Return the local file to write, of a link the one that it leads to, so that it stays a link; create its folder.

    Raise InvalidArgumentError for a path that can never name a file, OSError for a folder, a device or a named pipe.
    """
    kind = irregular_kind(path)
    if kind == _KINDS_OF_NO_FILE[stat.S_IFDIR]:
        raise IsADirectoryError("it is a folder")
    if kind:
        raise FileExistsError(f"it is {kind}, which the file would replace; choose another path")
    target = Path(os.path.realpath(_local_path_of(path)))
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def irregular_kind(path: ObjectStoragePath) -> str | None:
    """Return the kind of what a path on the local disk leads to, such as ``a named pipe``; None for a regular file."""
    with suppress(FileNotFoundError, NotADirectoryError):
        # The system follows links that have no path, too, such as /dev/stdout.
        return _KINDS_OF_NO_FILE.get(stat.S_IFMT(_local_path_of(path).stat().st_mode))
    return None


def beside(name: str, kind: str) -> str:
    """Return the name of a file's hidden companion, which no companion of another file has."""
    hidden = f".{name}.{kind}"
    if len(os.fsencode(hidden)) <= _MAX_NAME_BYTES:
        return hidden
    return f".{name[:_KEPT_NAME_LENGTH]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.{kind}"


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


def adopt_mode(descriptor: int, target: Path) -> None:
    """Give a new file the permissions of the file that it replaces; those of any new file (the umask's) if none."""
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode) & 0o777)


def create(file: Path, mode: int = 0o600) -> int:
    """Create a file; FileExistsError if the name is taken, also by a dangling link."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def check_own_folder(folder: Path) -> None:
    """
    Make sure that a hidden folder is one of this user, into which nobody else can look.

    Raise FileNotFoundError if there is none, PermissionError if it is something else or another user's.
    """
    status = folder.lstat()
    kind = None if stat.S_ISDIR(status.st_mode) else _KINDS_OF_NO_FILE.get(stat.S_IFMT(status.st_mode), "a file")
    if kind is None and not _is_own(folder, status):
        kind = f"a folder of another user (uid {status.st_uid})"
    if kind:
        message = f"{folder} is {kind}; remove it, and let no other user write to that folder"
        raise PermissionError(errno.EPERM, message)
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def _is_own(folder: Path, status: os.stat_result) -> bool:
    if status.st_uid == os.geteuid():
        return True
    # Some network file systems show every file as another user's, those that this process creates included.
    with temporary_file(part_of(folder)) as probe:
        return status.st_uid == os.fstat(probe).st_uid


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


def part_of(target: Path) -> Path:
    """Return a random name beside a file, for a file that is to replace it."""
    return target.with_name(beside(target.name, f"{secrets.token_hex(_RANDOM_BYTES)}{PART}"))


def put(path: ObjectStoragePath, target: str, send: Callable[[str], T], hint: str = "") -> T:
    """Write an object; an ``OSError`` names it."""
    with naming_path(path, "written", hint):
        try:
            return send(target)
        except FileNotFoundError as error:
            # Object stores have no folders: only the bucket can be missing. Its name may be misspelt, so it is not
            # created. Stores such as SFTP have folders.
            if path.protocol in _BUCKET_SCHEMES:
                message = "there is no such bucket; create it, or correct its name"
                raise FileNotFoundError(errno.ENOENT, message) from error
            path.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            return send(target)


@contextmanager
def naming_path(path: object, action: Action, hint: str = "") -> Iterator[None]:
    """
    Raise any error of the system or of a store as an ``OSError`` that names the file.

    Its class stays if it is one of Python's own: some clients have others.
    """
    try:
        yield
    except (MediaOpsError, InvalidArgumentError):
        raise
    except Exception as error:
        found = refusal_of(error) or error
        if not isinstance(found, OSError):
            found = OSError(f"{type(error).__name__}: {error}")
        # Stores raise FileNotFoundError with nothing but a path.
        is_missing = isinstance(found, FileNotFoundError) and not found.errno
        reason = "there is no such file" if is_missing else found.strerror or found
        message = f"{unsigned(str(path))} cannot be {action}: {reason}"
        # An error with a number keeps its class: PermissionError, FileNotFoundError, …
        raise _with_message(found, f"{message}. {hint}" if hint else message) from error


def _with_message(error: OSError, message: str) -> OSError:
    """Return an error like another one with another message, of the same class if that is one of Python's own."""
    if error.errno:
        return OSError(error.errno, message)
    return type(error)(message) if type(error).__module__ == "builtins" else OSError(message)


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
