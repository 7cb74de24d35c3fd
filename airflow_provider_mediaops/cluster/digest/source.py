"""
Find captures, and read them: in folders, by patterns, or one by one, on the local disk and on any object store.

No more of the files is read than is needed, and of damaged ones the reason is said.
"""

from __future__ import annotations

import codecs
import os
import posixpath
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.cluster.capture.reading import (
    MAX_REPORT_BYTES,
    NoReportError,
    read_head,
    read_reports,
    taken_of,
)
from airflow_provider_mediaops.cluster.digest.sums import ReadCapture
from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
from airflow_provider_mediaops.cluster.plain_values import text_of, value_at
from airflow_provider_mediaops.gunzip import inflated
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.errors import naming_path
from airflow_provider_mediaops.storage.files import modified_time
from airflow_provider_mediaops.storage.paths import check_store, is_local, lasting, path_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.cluster.digest.period import Period
    from airflow_provider_mediaops.cluster.digest.sums import Series, TimeSource

_TEXT, _JSON, _GZIP = ".txt", ".json", ".gz"
_FIELDS = {_TEXT: "text", _JSON: "json"}
# The page and the stacks of a capture, which a pattern matches, too.
_DRAWN = (".html", ".folded", ".kinds")
_PATTERN = frozenset("*?[")
_GZIP_START = b"\x1f\x8b"
# The captures of a spike, and those of a schedule, by the reason in their JSON files.
_SERIES: dict[str | None, Series] = {"spike": "spike", "at_once": "scheduled", "time_limit": "scheduled"}
#: How many bytes of a JSON file are read to see whether it is of another time.
HEAD_BYTES = 1 << 16
# So the JSON file of a digest begins.
_DIGEST = re.compile(rb'\s*\{\s*"digest"')
# No report, deleted, or not readable by this user: the capture's other file may do.
_UNUSABLE = (NoReportError, FileNotFoundError, PermissionError)


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
        if is_local(self.store):
            _check_regular(Path(self.path))
        with naming_path(self.name, "read"):
            if is_local(self.store):
                with Path(self.path).open("rb") as file:
                    data = file.read(most)
            else:
                data = self.store.fs.cat_file(self.path, start=0, end=most)
        return _plain(data, most).removeprefix(codecs.BOM_UTF8)


class FoundCapture(NamedTuple):
    """The files of one capture: its text, its JSON file, or both."""

    stem: str  # their path without suffix, with the store, below the real path of the folder
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
    that this user may not list is one of the captures, and cannot be read. What several sources or links lead to is
    one capture.

    Raise OSError, which names the path, if a source cannot be read or does not exist.
    """
    found: dict[str, dict[str, FoundFile]] = {}
    for source in sources:
        for file, is_chosen in _files_of(source):
            stem, kind = _stem_of(_in_real_folder(file.name), is_chosen=is_chosen)
            if kind:
                found.setdefault(stem, {})[_FIELDS[kind]] = file
    captures: dict[str, FoundCapture] = {}
    for stem, files in sorted(found.items()):
        capture = FoundCapture(stem, **files)
        captures.setdefault(_real(capture.name), capture)
    return list(captures.values())


def name_of(path: str) -> str:
    """Return a path as :attr:`FoundCapture.stem` has it, with its suffix."""
    given = path_of(path)
    return _in_real_folder(lasting(given) if is_local(given) else f"{given.protocol}://{given.path.lstrip('/')}")


def _real(name: str) -> str:
    """Return the name of a file or folder without links and detours such as ``..``, the same for all its spellings."""
    store, mark, path = name.partition("://")
    return os.path.realpath(name) if name.startswith("/") else f"{store}{mark}{posixpath.normpath(path)}"


def _in_real_folder(name: str) -> str:
    # A link to a file may have another name than that which its text and its JSON file share.
    folder, file = posixpath.split(name)
    return posixpath.join(_real(folder), file)


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
        # The name of a file or folder may hold a sign of a pattern, too.
        if signs and not store.fs.exists(root):
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


def _check_regular(path: Path) -> None:
    """Refuse a pipe, which would block, a device, which may have no end, and a link that leads to no file."""
    # A folder stands for all below it, which this user may not list: to open it says so.
    if not path.is_file() and not path.is_dir() and os.path.lexists(path):
        raise NoReportError("it is not a regular file")


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


def read_captures(files: FoundCapture, period: Period, warn: Callable[[str], None]) -> list[ReadCapture]:
    """
    Read a capture, or those that were appended to one another in one text.

    Its JSON file says when and why it was taken, and holds the report, which is not read if that was at another time.
    If there is none, or it is damaged, the text is read: its reports say when, and if they do not, the time of the file
    counts. Raise NoReportError if neither can be read.
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
    return [ReadCapture(report, files.name, *_time_of(report, files.text)) for report in reports]


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    return "this user may not read it" if isinstance(error, PermissionError) else str(error)


def _read_json(file: FoundFile, name: str, period: Period) -> list[ReadCapture]:
    start = file.read(HEAD_BYTES)
    if _DIGEST.match(start):
        return []
    taken = taken_of(read_head(start.decode("utf-8", "replace")))
    if taken and period.place_of(taken.timestamp()) == "outside":
        return [ReadCapture(HotThreadsReport(), name, taken.timestamp(), "capture")]
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
    time: tuple[float, TimeSource] = (taken.timestamp(), "capture") if taken else _time_of(report, file)
    series = _SERIES.get(text_of(value_at(document, "capture", "reason")), "unknown")
    return [ReadCapture(report, name, *time, series, value_at(document, "running_tasks"))]


def _time_of(report: HotThreadsReport, file: FoundFile) -> tuple[float, TimeSource]:
    if report.taken:
        return report.taken.timestamp(), "report"
    if file.modified is None:
        raise NoReportError("neither the report nor its store says when it was taken")
    return file.modified, "file"
