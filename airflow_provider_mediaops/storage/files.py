"""Files that exist whole or not at all, on the local disk and on any object store."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import ObjectStoragePath

# What of the destination's name a staged file carries; file systems allow 255 bytes for a name.
_KEPT_NAME = 50


def write_whole(path: ObjectStoragePath, data: bytes) -> None:
    """
    Write a file that others see whole or not at all; an older one stays until the new one replaces it.

    :param path: the destination; folders above it are made.
    :param data: all of its content.
    :raises OSError: where the destination cannot be written; the message names it.
    """
    if _is_local(path):
        with staged(path) as file:
            file.write_bytes(data)
    else:
        with _naming(path):
            _put(path, path.path, lambda target: path.fs.pipe_file(target, data))


@contextmanager
def staged(path: ObjectStoragePath) -> Iterator[Path]:
    """
    Give an empty local file to fill, which becomes the destination in one step when the block ends.

    On the local disk it stands beside the destination and takes its name; to an object store it is sent whole, with
    one PUT. Where the block raises, it is removed and an older file at the destination stays. That the destination
    can be written is known before the block begins.

    :param path: the destination; folders above it are made.
    :returns: a context manager that gives the file to fill; it must be closed when the block ends.
    :raises OSError: where the destination cannot be written; the message names it.
    """
    with _naming(path):
        file = _beside(path) if _is_local(path) else _elsewhere(path)
    try:
        yield file
        with _naming(path):
            if _is_local(path):
                _publish(file, _target(path))
            else:
                _put(path, path.path, lambda target: path.fs.put_file(str(file), target))
    finally:
        file.unlink(missing_ok=True)


def _is_local(path: ObjectStoragePath) -> bool:
    return path.protocol in ("", "file", "local")


def _target(path: ObjectStoragePath) -> Path:
    # A link at the destination stays one: what it points to is replaced.
    return Path(os.path.realpath(path.path))


def _staged_name(name: str) -> str:
    return f".{name[:_KEPT_NAME]}.{secrets.token_hex(4)}.part"


def _beside(path: ObjectStoragePath) -> Path:
    target = _target(path)
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    file = target.with_name(_staged_name(target.name))
    file.touch(exist_ok=False)
    return file


def _elsewhere(path: ObjectStoragePath) -> Path:
    # Only writing tells whether one may write.
    folder, _, name = path.path.rpartition("/")
    probe = f"{folder}/{_staged_name(name)}"
    _put(path, probe, lambda target: path.fs.pipe_file(target, b""))
    path.fs.rm_file(probe)
    descriptor, file = tempfile.mkstemp(prefix="mediaops-", suffix=".part")
    os.close(descriptor)
    return Path(file)


def _publish(file: Path, target: Path) -> None:
    # After a power failure the name must not lead to a file whose content never reached the disk.
    _sync(file)
    file.replace(target)
    # Not every file system can do this for a folder, and the file is already there.
    with suppress(OSError):
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put(path: ObjectStoragePath, target: str, put: Callable[[str], None]) -> None:
    try:
        put(target)
    except FileNotFoundError:
        # Object stores have no folders; stores such as SFTP do.
        path.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        put(target)


@contextmanager
def _naming(path: ObjectStoragePath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # With its number the system's error keeps its class: PermissionError, FileNotFoundError, …
        what = f"{path} cannot be written: {error.strerror or error}"
        raise (OSError(error.errno, what) if error.errno else type(error)(what)) from error
