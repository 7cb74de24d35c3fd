"""Read the files of captures: bounded, regular files only, on the local disk or any object store."""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError
from airflow_provider_mediaops.storage.files import modified_time
from airflow_provider_mediaops.storage.paths import is_local, lasting, path_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

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
class CaptureFile:
    """A version of a file, by its size in bytes and the time of its last write, if the store reports that."""

    path: ObjectStoragePath
    size: int
    modified: float | None

    @property
    def name(self) -> str:
        """Return the path for the reader of a page."""
        return unsigned(lasting(self.path))

    def read(self, *, max_bytes: int, is_whole: bool = True) -> str:
        """
        Read the text, or its beginning, with a surrogate for each byte that is not UTF-8. May block.

        A character at the cut may be broken.

        :raises NothingToShowError: if it is empty or too large, or its store cannot be read.
        """
        if not self.size:
            raise NothingToShowError(f"{self.name} is empty.")
        if is_whole and self.size > max_bytes:
            raise NothingToShowError(
                f"{self.name} has {self.size / _MEGABYTE:,.1f} MB, more than the {max_bytes / _MEGABYTE:,.1f} MB "
                "that this page reads. Open the file itself, or the .html beside it."
            )
        place = lasting(self.path) if is_local(self.path) else self.path.path
        try:
            data = self.path.fs.cat_file(place, start=0, end=min(self.size, max_bytes))
        except Exception as error:
            raise _unreadable(self.name, error) from error
        text: str = data[:max_bytes].decode("utf-8", "surrogateescape")
        return text


def find_file(path: str) -> CaptureFile:
    """
    Find a file without reading it. May block.

    :raises NothingToShowError: if it is not there or no regular file, or its store cannot be read.
    """
    try:
        opened = path_of(path)
        name = unsigned(lasting(opened))
    except InvalidArgumentError as error:
        # For example a scheme that this machine has no package for; the worker may have one.
        raise NothingToShowError(unsigned(str(error))) from error
    try:
        if not is_local(opened):
            info = opened.fs.info(opened.path)
            is_regular = info.get("type") not in ("directory", "other")
            size, modified = int(info.get("size") or 0), modified_time(info)
        else:
            # fsspec does not follow links everywhere.
            status = os.stat(lasting(opened))  # noqa: PTH116 - no path object is needed
            is_regular, size, modified = stat.S_ISREG(status.st_mode), status.st_size, status.st_mtime
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFileError((_ON_THIS_MACHINE if is_local(opened) else _IN_STORE).format(name)) from error
    except Exception as error:
        raise _unreadable(name, error) from error
    if not is_regular:
        raise NothingToShowError(f"{name} is not a regular file, and is not read.")
    return CaptureFile(opened, size, modified)


def report_in(text: str, name: str) -> HotThreadsReport:
    """Read the report in the text of a capture; raise NothingToShowError if it is something else."""
    report = parse(text)
    if not report.understood:
        # Nothing of it is shown: it may be any text, which a reader of the DAG need not be allowed to read.
        raise NothingToShowError(f"{name} is not a report of hot threads: nothing in it was understood.")
    return report


def _unreadable(name: str, error: Exception) -> NothingToShowError:
    # A client's message may contain anything, a signed address for example; the page names the kind of error only.
    metrics.count("pages.reads.unreadable")
    _log.warning("The text of a capture, %s, cannot be read.", name, exc_info=error)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return NothingToShowError(f"{name} cannot be read: {reason}. The log of the API server says more.")
