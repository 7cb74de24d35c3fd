"""Files that exist whole or not at all, on the local disk and on any object store."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow.sdk import ObjectStoragePath

# What of the destination's name a staged file carries, and how long a name may be on the usual file systems.
_KEPT_NAME = 50
_LONGEST_NAME = 255
# The properties that change with an object's content, by the names that the stores' clients use. The first one counts.
_VERSION_FIELDS = (
    *("ETag", "etag", "e_tag", "md5Hash", "md5", "generation", "checksum"),
    *("mtime", "LastModified", "last_modified", "updated", "modified", "created"),
)


def write_whole(path: ObjectStoragePath, data: bytes) -> None:
    """
    Write a file that others see whole or not at all; an older one stays until the new one replaces it.

    :param path: the destination; folders above it are made.
    :param data: all of its content.
    :raises OSError: where the destination cannot be written; the message names it.
    """
    if is_local(path):
        with naming_path(path):
            _write_local(target_of(path), data)
    else:
        put(path, path.path, lambda target: path.fs.pipe_file(target, data))


def is_local(path: ObjectStoragePath) -> bool:
    """Say whether a path is on the local disk."""
    return path.protocol in ("", "file", "local")


def target_of(path: ObjectStoragePath) -> Path:
    """
    Give the local file that is to be written, with the folder that it stands in.

    :param path: a path on the local disk.
    :returns: what a link at the path leads to, so that the link stays one.
    :raises OSError: where it is a folder, or the folders above it cannot be made.
    """
    # "~" is the home folder to fsspec, so to those who read the file as well.
    target = Path(os.path.realpath(Path(path.path).expanduser()))
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def beside(name: str, kind: str) -> str:
    """
    Name the hidden companion of a file.

    :param name: the file's name.
    :param kind: what the companion is; the end of its name.
    :returns: a name that other files' companions do not have.
    """
    hidden = f".{name}.{kind}"
    if len(os.fsencode(hidden)) <= _LONGEST_NAME:
        return hidden
    return f".{name[:_KEPT_NAME]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.{kind}"


def replace(file: Path, target: Path) -> None:
    """
    Give a file, of which all is on the disk, its final name in one step.

    :param file: a file in the target's folder.
    :param target: the name; a file that has it is replaced.
    """
    file.replace(target)
    # After a power failure it should still have the name. Not every file system can do this for a folder.
    with suppress(OSError):
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def object_version(info: Mapping[str, Any]) -> str:
    """
    Return the property of an object that changes with its content.

    :param info: the object's properties, as the store's client returns them.
    :returns: its tag or time as text; empty if the client reports neither.
    """
    return str(next((info[name] for name in _VERSION_FIELDS if info.get(name)), ""))


def put(path: ObjectStoragePath, target: str, send: Callable[[str], None], what_to_do: str = "") -> None:
    """
    Write an object.

    :param path: a path on its store, which messages name.
    :param target: the object's own path.
    :param send: writes it.
    :param what_to_do: a sentence for the reader of an error.
    :raises OSError: where the store refuses, or cannot be reached.
    """
    with translating_errors(path, "written", what_to_do):
        try:
            send(target)
        except FileNotFoundError:
            # Object stores have no folders; stores such as SFTP do.
            path.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            send(target)


@contextmanager
def translating_errors(path: object, done: str = "read", what_to_do: str = "") -> Iterator[None]:
    """
    Let any error of a store be an ``OSError`` that says which destination it is about.

    :param path: the destination.
    :param done: what is done with it: ``read`` or ``written``.
    :param what_to_do: a sentence for the reader.
    :raises OSError: for whatever the store's client raises; some have errors of their own for a lost network.
    """
    with naming_path(path, what_to_do, done):
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {error}") from error


@contextmanager
def naming_path(path: object, what_to_do: str = "", done: str = "written") -> Iterator[None]:
    """
    Let an error of the system or of a store say which destination it is about.

    :param path: the destination.
    :param what_to_do: a sentence for the reader.
    :param done: what is done with it: ``read`` or ``written``.
    :raises OSError: of the same class as the error where it is the system's; the message names the path.
    """
    try:
        yield
    except OSError as error:
        # With its number the system's error keeps its class: PermissionError, FileNotFoundError, …
        what = f"{path} cannot be {done}: {error.strerror or error}"
        raise with_message(error, f"{what}. {what_to_do}" if what_to_do else what) from error


def with_message(error: OSError, what: str) -> OSError:
    """
    Give an error another text.

    :param error: the error.
    :param what: the text.
    :returns: an error with the same number, and of the same class where that is one of Python's own: those of stores'
        clients cannot all be made of a text.
    """
    if error.errno:
        return OSError(error.errno, what)
    return type(error)(what) if type(error).__module__ == "builtins" else OSError(what)


def _write_local(target: Path, data: bytes) -> None:
    file = target.with_name(f".{target.name[:_KEPT_NAME]}.{secrets.token_hex(4)}.part")
    try:
        with file.open("xb") as opened:
            opened.write(data)
            opened.flush()
            # After a power failure the name must not lead to a file whose content never reached the disk.
            os.fsync(opened.fileno())
        replace(file, target)
    finally:
        file.unlink(missing_ok=True)
