"""Read the texts of captures: bounded, regular files only, on the local disk or any object store."""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError, without_password
from airflow_provider_mediaops.storage.files import is_local, lasting, path_of
from airflow_provider_mediaops.storage.object_info import modified_time

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

_log = logging.getLogger(__name__)

_MEGABYTE = 1_000_000


class NoFileError(NothingToShowError):
    """There is no such file."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        metrics.count("pages.reads.missing")


@dataclass(frozen=True, slots=True)
class TextVersion:
    """A version of a text, by its size in bytes and the time of its last write, if the store reports that."""

    path: str
    size: int
    modified: float | None


@dataclass(frozen=True, slots=True)
class CaptureText:
    """The text of a capture, with a surrogate for each byte that is not UTF-8."""

    version: TextVersion
    text: str


def look_up(path: str) -> TextVersion:
    """Look up a text without reading it. May block."""
    opened = _path_of(path)
    if is_local(opened):
        return _local_version(lasting(opened), _local_status(lasting(opened)))
    return _remote_version(opened)


def read_text(path: str, *, max_bytes: int, is_whole: bool = True) -> CaptureText:
    """
    Read a text, or its beginning, in which a character at the cut may be broken. May block.

    :raises NothingToShowError: if it is not there, empty, too large or no file, or its store cannot be read.
    """
    opened = _path_of(path)
    if is_local(opened):
        return _read_local(lasting(opened), max_bytes, is_whole=is_whole)
    version = _remote_version(opened)
    _check_size(version, max_bytes if is_whole else None)
    try:
        data = opened.fs.cat_file(opened.path, start=0, end=min(version.size, max_bytes))
    except Exception as error:
        raise _unreadable(str(opened), error) from error
    return CaptureText(version, _decoded(data[:max_bytes]))


def _path_of(path: str) -> ObjectStoragePath:
    try:
        return path_of(path)
    except InvalidArgumentError as error:
        # For example a scheme that this machine has no package for; the worker may have one.
        raise NothingToShowError(without_password(str(error))) from error


def _read_local(path: str, max_bytes: int, *, is_whole: bool) -> CaptureText:
    _local_version(path, _local_status(path))
    try:
        # It may have been replaced by a named pipe since the first look, at which reading would wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise _unreadable(path, error) from error
    with os.fdopen(descriptor, "rb") as file:
        version = _local_version(path, os.fstat(descriptor))
        _check_size(version, max_bytes if is_whole else None)
        try:
            return CaptureText(version, _decoded(file.read(max_bytes)))
        except OSError as error:
            raise _unreadable(path, error) from error


def _local_status(path: str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116 - no path object is needed
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFileError(
            f"There is no file {path} on the machine of the API server. Either it was not written or it was deleted; "
            "or the task ran on another machine: then write captures to an object store or a shared folder."
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _local_version(path: str, status: os.stat_result) -> TextVersion:
    if not stat.S_ISREG(status.st_mode):
        raise NothingToShowError(f"{path} is no regular file, and is not read.")
    return TextVersion(path, status.st_size, status.st_mtime)


def _remote_version(path: ObjectStoragePath) -> TextVersion:
    try:
        info = path.fs.info(path.path)
    except FileNotFoundError as error:
        raise NoFileError(
            f"There is no file {without_password(str(path))}. It was not written, or it was deleted."
        ) from error
    except Exception as error:
        raise _unreadable(str(path), error) from error
    name = without_password(str(path))
    if info.get("type") == "directory":
        raise NothingToShowError(f"{name} is no file, and is not read.")
    return TextVersion(name, int(info.get("size") or 0), modified_time(info))


def _check_size(version: TextVersion, max_bytes: int | None) -> None:
    if not version.size:
        raise NothingToShowError(f"{version.path} is empty.")
    if max_bytes is not None and version.size > max_bytes:
        raise NothingToShowError(
            f"{version.path} has {version.size / _MEGABYTE:,.1f} MB, more than the {max_bytes / _MEGABYTE:,.1f} MB "
            "that this page reads. Open the file itself, or the .html beside it."
        )


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _unreadable(path: str, error: Exception) -> NothingToShowError:
    # A client's message may contain anything, a signed address for example; the page names the kind of error only.
    path = without_password(path)
    metrics.count("pages.reads.unreadable")
    _log.warning("The text of a capture, %s, cannot be read.", path, exc_info=error)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return NothingToShowError(f"{path} cannot be read: {reason}. The log of the API server says more.")
