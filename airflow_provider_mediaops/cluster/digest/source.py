"""Find the files of captures: in folders, by patterns, or one by one, on the local disk and on any object store."""

from __future__ import annotations

import errno
import os
import stat
import zlib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from airflow_provider_mediaops.cluster.report_files import MAX_REPORT_BYTES, NoReportError
from airflow_provider_mediaops.gunzip import inflated
from airflow_provider_mediaops.storage.files import (
    is_local,
    lasting,
    modified_time,
    naming_path,
    path_of,
    translating_errors,
)
from airflow_provider_mediaops.storage.path_checks import check_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import ObjectStoragePath

_TEXT, _JSON, _GZIP = ".txt", ".json", ".gz"
_FIELDS = {_TEXT: "text", _JSON: "json"}
# The page and the stacks of a capture, which a pattern matches, too.
_DRAWN = (".html", ".folded", ".kinds")
_PATTERN = frozenset("*?[")
# In a pattern, it stands for any number of folders.
_ANY_FOLDERS = "**"
_NO_FILE = "it is not a regular file"
_CUT = "it is gzip, but cut"
_GZIP_START = b"\x1f\x8b"
# zlib reads the head of gzip with these window bits.


class FoundFile(NamedTuple):
    """
    A file of a capture.

    :param store: a path on its store.
    :param path: its path within the store.
    :param modified: the time of its last write in seconds since 1970; None if the store does not say.
    """

    store: ObjectStoragePath
    path: str
    modified: float | None

    @property
    def name(self) -> str:
        """The path for people, without a connection."""
        return self.path if is_local(self.store) else f"{self.store.protocol}://{self.path.lstrip('/')}"

    def read(self, most: int) -> bytes:
        """
        Read the beginning of the file, decompressed if it is compressed with gzip.

        :raises NoReportError: if it is damaged gzip, or no regular file.
        :raises OSError: if it cannot be read; the message names it.
        """
        if is_local(self.store):
            with naming_path(self.path, "read"), _opened(self.path) as file:
                return _plain(file.read(most), most)
        with translating_errors(self.name, "read"):
            return _plain(self.store.fs.cat_file(self.path, start=0, end=most), most)


class FoundCapture(NamedTuple):
    """
    The files of one capture.

    :param stem: their path without suffix, with the store.
    :param text: the text; at least one of the two is there.
    """

    stem: str
    text: FoundFile | None = None
    json: FoundFile | None = None

    @property
    def name(self) -> str:
        """The file for people."""
        file = self.text or self.json
        return file.name if file else self.stem


def find_captures(sources: Iterable[str]) -> list[FoundCapture]:
    """
    Find captures. Hidden files, and those of other formats, are left out.

    :param sources: folders, which are searched with all below them, patterns with ``*``, ``?`` and ``[…]``, and files.
        In a folder, the files end in ``.txt`` or ``.json``, each also with ``.gz``; otherwise any other is a text, too.
    :returns: the captures in the order of their paths. A folder that this user may not list is one of them.
    :raises PermanentError: if Airflow has no support for the scheme of a path.
    :raises OSError: if a path cannot be read, or a file that is named does not exist; the message names it.
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
    with translating_errors(store, "read"):
        # Some clients cache what they have listed.
        store.fs.invalidate_cache()
        if _PATTERN & set(root):
            found: Mapping[str, Any] = store.fs.glob(root, detail=True)
            is_chosen, base = True, root[: min(root.find(sign) for sign in _PATTERN if sign in root)].rpartition("/")[0]
        elif source.endswith("/") or store.fs.isdir(root):
            found, is_chosen, base = store.fs.find(root.rstrip("/") or "/", detail=True), False, root.rstrip("/")
        else:
            found, is_chosen, base = {root: store.fs.info(root)}, True, root.rpartition("/")[0]
        closed = _closed_folders(base, root, is_chosen=is_chosen) if is_local(store) and root not in found else []
    for path, info in found.items():
        below = path.removeprefix(base)
        if info.get("type") != "directory" and not any(part.startswith(".") for part in below.split("/")):
            yield FoundFile(store, path, modified_time(info)), is_chosen
    for path in closed:
        # It is read as a file, which is refused, so that it is named among those that were left out.
        yield FoundFile(store, path, None), True


def _closed_folders(base: str, root: str, *, is_chosen: bool) -> list[str]:
    """Return the local folders of a source that this user may not list: fsspec takes them for empty ones."""
    closed: list[str] = []
    parts = root.removeprefix(base).strip("/").split("/") if is_chosen else [_ANY_FOLDERS]

    def note(error: OSError) -> None:
        # A folder may be deleted meanwhile.
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            if not isinstance(error, PermissionError) or error.filename == (base or "/"):
                raise error
            closed.append(error.filename)

    for folder, names, _ in os.walk(base or "/", onerror=note):
        depth = len(list(filter(None, folder.removeprefix(base).split("/"))))
        names[:] = [name for name in names if not name.startswith(".") and _leads_on(parts, depth, name)]
    return closed


def _leads_on(parts: Sequence[str], depth: int, name: str) -> bool:
    """Return whether files below a folder may match a pattern, by the parts of the pattern."""
    return _ANY_FOLDERS in parts[: depth + 1] or (depth < len(parts) - 1 and fnmatchcase(name, parts[depth]))


def _stem_of(name: str, *, is_chosen: bool) -> tuple[str, str]:
    """Return the path without suffix, and the suffix of its kind; an empty one for a file of another format."""
    plain = name.removesuffix(_GZIP)
    for suffix in _FIELDS:
        if plain.endswith(suffix):
            return plain.removesuffix(suffix), suffix
    return (name, _TEXT) if is_chosen and not plain.endswith(_DRAWN) else (name, "")


def _opened(path: str) -> BinaryIO:
    """Open a local file; raise NoReportError for a pipe, which would block, a device, and a circle of links."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # No process listens at a socket, and a name may lead to itself: neither is read by another try.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NoReportError(_NO_FILE) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoReportError(_NO_FILE)
    return os.fdopen(descriptor, "rb")


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
            raise NoReportError(_CUT) from error
    return bytes(plain[:room])
