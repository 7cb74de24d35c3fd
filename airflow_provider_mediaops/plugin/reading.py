"""Read the texts of captures: bounded, regular files only, on the local disk or any object store."""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError, without_password
from airflow_provider_mediaops.storage.files import is_local, lasting, modified_time, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import ObjectStoragePath

_log = logging.getLogger(__name__)

_MEGABYTE = 1_000_000
_ON_THIS_MACHINE = (
    "There is no file {} on the machine of the API server. Either it was not written or it was deleted; or the task "
    "ran on another machine: then write captures to an object store or a shared folder."
)
_IN_STORE = "There is no file {}. It was not written, or it was deleted."


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
    return _version_of(_path_of(path))


def read_text(path: str, *, max_bytes: int, is_whole: bool = True) -> CaptureText:
    """
    Read a text, or its beginning, in which a character at the cut may be broken. May block.

    :raises NothingToShowError: if it is not there, empty, too large or no file, or its store cannot be read.
    """
    opened = _path_of(path)
    version = _version_of(opened)
    if not version.size:
        raise NothingToShowError(f"{version.path} is empty.")
    if is_whole and version.size > max_bytes:
        raise NothingToShowError(
            f"{version.path} has {version.size / _MEGABYTE:,.1f} MB, more than the {max_bytes / _MEGABYTE:,.1f} MB "
            "that this page reads. Open the file itself, or the .html beside it."
        )
    try:
        data = opened.fs.cat_file(_place_of(opened), start=0, end=min(version.size, max_bytes))
    except Exception as error:
        raise _unreadable(version.path, error) from error
    return CaptureText(version, data[:max_bytes].decode("utf-8", "surrogateescape"))


def _path_of(path: str) -> ObjectStoragePath:
    try:
        return path_of(path)
    except InvalidArgumentError as error:
        # For example a scheme that this machine has no package for; the worker may have one.
        raise NothingToShowError(without_password(str(error))) from error


def _place_of(path: ObjectStoragePath) -> str:
    return lasting(path) if is_local(path) else path.path


def _version_of(path: ObjectStoragePath) -> TextVersion:
    name = without_password(lasting(path))
    try:
        info = _info_of(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFileError((_ON_THIS_MACHINE if is_local(path) else _IN_STORE).format(name)) from error
    except Exception as error:
        raise _unreadable(name, error) from error
    if info.get("type") in ("directory", "other"):
        raise NothingToShowError(f"{name} is not a regular file, and is not read.")
    return TextVersion(name, int(info.get("size") or 0), modified_time(info))


def _info_of(path: ObjectStoragePath) -> Mapping[str, Any]:
    if not is_local(path):
        info: Mapping[str, Any] = path.fs.info(path.path)
        return info
    # fsspec does not follow links everywhere.
    status = os.stat(lasting(path))  # noqa: PTH116 - no path object is needed
    is_file = stat.S_ISREG(status.st_mode)
    return {"type": "file" if is_file else "other", "size": status.st_size, "mtime": status.st_mtime}


def _unreadable(name: str, error: Exception) -> NothingToShowError:
    # A client's message may contain anything, a signed address for example; the page names the kind of error only.
    metrics.count("pages.reads.unreadable")
    _log.warning("The text of a capture, %s, cannot be read.", name, exc_info=error)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return NothingToShowError(f"{name} cannot be read: {reason}. The log of the API server says more.")
