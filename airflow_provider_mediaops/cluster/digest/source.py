"""
Find captures, and read them: in folders, by patterns, or one by one, on the local disk and on any object store.

No more of the files is read than is needed, and of damaged ones the reason is said.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.cluster.capture.json_file import read_head, taken_of
from airflow_provider_mediaops.cluster.digest.sums import SERIES_OF_REASON, CaptureSums, TimeSource, task_rows
from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
from airflow_provider_mediaops.cluster.plain_values import text_of, value_at
from airflow_provider_mediaops.cluster.report_files import MAX_REPORT_BYTES, NoReportError, read_reports
from airflow_provider_mediaops.gunzip import inflated
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.errors import naming_path
from airflow_provider_mediaops.storage.files import modified_time
from airflow_provider_mediaops.storage.paths import check_store, is_local, lasting, path_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.cluster.digest.period import Period

_TEXT, _JSON, _GZIP = ".txt", ".json", ".gz"
_FIELDS = {_TEXT: "text", _JSON: "json"}
# The page and the stacks of a capture, which a pattern matches, too.
_DRAWN = (".html", ".folded", ".kinds")
_PATTERN = frozenset("*?[")
_GZIP_START = b"\x1f\x8b"
#: How many bytes of a JSON file are read to see whether it is of another time.
HEAD_BYTES = 1 << 16
# So the JSON file of a digest begins.
_DIGEST = re.compile(rb'\s*\{\s*"digest"')
# No report, deleted, or not readable by this user: the capture's other file may do.
_UNUSABLE = (NoReportError, FileNotFoundError, PermissionError)

Found = list["CaptureSums | None"]
"""The captures of the files of one name; None for one of another time."""


class FoundFile(NamedTuple):
    """A file of a capture."""

    store: ObjectStoragePath  # a path on its store
    path: str  # within the store
    modified: float | None  # its last write in seconds since 1970; None if the store does not say

    @property
    def name(self) -> str:
        """The path for people, without a connection."""
        return self.path if is_local(self.store) else f"{self.store.protocol}://{self.path.lstrip('/')}"

    def read(self, most: int) -> bytes:
        """
        Read the beginning of the file, decompressed if it is compressed with gzip.

        Raise NoReportError if it is damaged gzip or no regular file, and OSError, which names it, if it cannot be read.
        """
        with naming_path(self.name, "read"):
            if is_local(self.store):
                data = _start_of(self.path, most)
            else:
                data = self.store.fs.cat_file(self.path, start=0, end=most)
        if data is None:
            raise NoReportError("it is not a regular file")
        return _plain(data, most)


class FoundCapture(NamedTuple):
    """The files of one capture: its text, its JSON file, or both."""

    stem: str  # their path without suffix, with the store
    text: FoundFile | None = None
    json: FoundFile | None = None

    @property
    def name(self) -> str:
        """The file for people."""
        file = self.text or self.json
        return file.name if file else self.stem


def find_captures(sources: Iterable[str]) -> list[FoundCapture]:
    """
    Find captures, in the order of their paths. Hidden files, and those of other formats, are left out.

    A source is a folder, which is searched with all below it, a pattern with ``*``, ``?`` and ``[…]``, or a file. In a
    folder, the files end in ``.txt`` or ``.json``, each also with ``.gz``; otherwise any other is a text, too. A folder
    that this user may not list is one of the captures, and cannot be read.

    Raise OSError, which names the path, if a source cannot be read or does not exist.
    """
    found: dict[str, dict[str, FoundFile]] = {}
    for source in sources:
        for file, is_chosen in _files_of(source):
            stem, kind = _stem_of(file.name, is_chosen=is_chosen)
            if kind:
                found.setdefault(stem, {})[_FIELDS[kind]] = file
    return [FoundCapture(stem, **files) for stem, files in sorted(found.items())]


def name_of(path: str) -> str:
    """Return the name that :attr:`FoundFile.name` has for a path."""
    given = path_of(path)
    return lasting(given) if is_local(given) else f"{given.protocol}://{given.path.lstrip('/')}"


def _files_of(source: str) -> Iterable[tuple[FoundFile, bool]]:
    """Yield the files of a source, and whether each was chosen rather than found in a folder."""
    store = path_of(source)
    check_store(store, "source")
    root = lasting(store) if is_local(store) else store.path
    signs = [root.find(sign) for sign in _PATTERN if sign in root]
    is_folder = False
    with naming_path(store, "read"):
        # Some clients cache what they have listed.
        store.fs.invalidate_cache()
        if signs:
            base = root[: min(signs)].rpartition("/")[0]
            found: Mapping[str, Any] = store.fs.glob(root, detail=True)
        elif is_folder := source.endswith("/") or store.fs.isdir(root):
            base = root.rstrip("/")
            found = store.fs.find(base or "/", detail=True)
        else:
            base = root.rpartition("/")[0]
            found = {root: store.fs.info(root)}
        pattern = f"{base}/**" if is_folder else root
        closed = _closed_folders(base, pattern) if is_local(store) and root not in found else []
    for path, info in found.items():
        if info.get("type") != "directory" and not any(part.startswith(".") for part in path[len(base) :].split("/")):
            yield FoundFile(store, path, modified_time(info)), not is_folder
    for path in closed:
        # It is read as a file, which is refused, so that it is named among those that were left out.
        yield FoundFile(store, path, None), True


def _closed_folders(base: str, pattern: str) -> list[str]:
    """Return the local folders of a source that this user may not list: fsspec takes them for empty ones."""
    closed: list[str] = []

    def note(error: OSError) -> None:
        if isinstance(error, PermissionError) and error.filename != (base or "/"):
            closed.append(error.filename)
        # A folder may be deleted meanwhile.
        elif not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise error

    for folder, names, _ in os.walk(base or "/", onerror=note):
        below = folder.rstrip("/")
        names[:] = [name for name in names if not name.startswith(".") and _leads_on(f"{below}/{name}", pattern)]
    return closed


def _leads_on(folder: str, pattern: str) -> bool:
    """Return whether a pattern may match files below a folder."""
    parts, depth = pattern.split("/"), folder.count("/") + 1
    return "**" in parts[:depth] or (depth < len(parts) and fnmatchcase(folder, "/".join(parts[:depth])))


def _stem_of(name: str, *, is_chosen: bool) -> tuple[str, str]:
    """Return the path without suffix, and the suffix of its kind; an empty one for a file of another format."""
    plain = name.removesuffix(_GZIP)
    for suffix in _FIELDS:
        if plain.endswith(suffix):
            return plain.removesuffix(suffix), suffix
    return (name, _TEXT) if is_chosen and not plain.endswith(_DRAWN) else (name, "")


def _start_of(path: str, most: int) -> bytes | None:
    """Read the beginning of a local file; None for a pipe, which would block, a device, and a circle of links."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # No process listens at a socket, and a name may lead to itself: neither is read by another try.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _plain(data: bytes, most: int) -> bytes:
    """Return the data, decompressed if they are compressed; less than ``most`` bytes of them are the whole file."""
    if not data.startswith(_GZIP_START):
        return data
    plain, room = bytearray(), min(most, MAX_REPORT_BYTES + 1)
    try:
        for piece in inflated([data]):
            plain += piece
            if len(plain) >= room:
                break
    except zlib.error as error:
        raise NoReportError(f"it is gzip, but damaged: {error}") from error
    except EOFError as error:
        # Half of a report reads like a whole one.
        if len(data) < most:
            raise NoReportError("it is gzip, but cut") from error
    return bytes(plain[:room])


def is_digest(files: FoundCapture) -> bool:
    """Return whether the files are those of an earlier digest, which is no capture."""
    with suppress(*_UNUSABLE):
        return bool(files.json and _DIGEST.match(files.json.read(HEAD_BYTES)))
    return False


def read_captures(files: FoundCapture, period: Period, warn: Callable[[str], None]) -> Found:
    """
    Read a capture, or those that were appended to one another in one text.

    Its JSON file says when and why it was taken, and holds the report. If there is none, or it is damaged, the text is
    read: its reports say when, and if they do not, the time of the file counts. Raise NoReportError if neither can be
    read.
    """
    damage = ""
    if files.json:
        try:
            return _read_json(files.json, files.name, period)
        except _UNUSABLE as error:
            damage = _in_words(error)
    if files.text is None:
        raise NoReportError(damage)
    try:
        reports = [capture.report for capture, _ in read_reports(files.text.read(MAX_REPORT_BYTES + 1))]
    except _UNUSABLE as error:
        both = f"; of the .json file beside it: {damage}" if damage else ""
        raise NoReportError(f"{_in_words(error)}{both}") from error
    if damage:
        warn(f"Read {files.text.name} without the .json file beside it: {damage}.")
    return _sums(((report, *_time(report, files.text)) for report in reports), files.name, period)


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    return "this user may not read it" if isinstance(error, PermissionError) else str(error)


def _read_json(file: FoundFile, name: str, period: Period) -> Found:
    start = file.read(HEAD_BYTES)
    if _DIGEST.match(start):
        return []
    taken = taken_of(read_head(start.decode("utf-8", "replace")))
    if taken is not None and period.place_of(taken.timestamp()) == "outside":
        return [None]
    data = file.read(MAX_REPORT_BYTES + 1)
    if len(data) > MAX_REPORT_BYTES:
        raise NoReportError(f"it is larger than {MAX_REPORT_BYTES >> 20} MB, which no capture is")
    try:
        document = parse_json(data)
    except ValueError as error:
        raise NoReportError("it is not valid JSON") from error
    try:
        report = HotThreadsReport.from_dict(document)
    except ValueError as error:
        raise NoReportError("it is JSON, but not that of a capture") from error
    if not report.understood:
        raise NoReportError("it is JSON, but not that of a capture, which has nodes")
    taken = taken_of(document)
    time = (taken.timestamp(), "capture") if taken else _time(report, file)
    return _sums([(report, *time)], name, period, document)


def _time(report: HotThreadsReport, file: FoundFile) -> tuple[float | None, TimeSource]:
    return (file.modified, "file") if report.taken is None else (report.taken.timestamp(), "report")


def _sums(
    reports: Iterable[tuple[HotThreadsReport, float | None, TimeSource]],
    name: str,
    period: Period,
    document: object = None,
) -> Found:
    """Sum up reports, each with its time and where that is from."""
    series = SERIES_OF_REASON.get(text_of(value_at(document, "capture", "reason")), "unknown")
    found: Found = []
    for report, taken, source in reports:
        if taken is None:
            raise NoReportError("neither the report nor its store says when it was taken")
        if period.place_of(taken) == "outside":
            found.append(None)
            continue
        tasks = task_rows(value_at(document, "running_tasks"), taken)
        sums = CaptureSums(report=report, path=name, time=taken, time_source=source, series=series, tasks=tasks)
        found.append(sums)
    return found
