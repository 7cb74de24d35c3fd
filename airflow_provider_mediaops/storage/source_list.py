"""
Read lists as users have them: a file, several, a folder or a pattern, on any storage and in any usual format.

The datasets of this package are read again by the same readers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.storage.files import content_tag, is_local, naming_path, path_of
from airflow_provider_mediaops.storage.path_checks import check_regular, check_store, is_same_file
from airflow_provider_mediaops.storage.source_csv import read_csv, read_text_lines
from airflow_provider_mediaops.storage.source_file import DATASET, LIST, InvalidSourceError, ReadOptions, SourceFile
from airflow_provider_mediaops.storage.source_json import read_json
from airflow_provider_mediaops.storage.source_lines import FALLBACK, GZIP, SourceLines
from airflow_provider_mediaops.version_compat import conn_id_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.formats import Format
    from airflow_provider_mediaops.storage.source_columns import ColumnType, Keep
    from airflow_provider_mediaops.storage.source_file import SourceRow

_FORMATS = {
    ".txt": "txt",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
# These are compressed by themselves.
_PACKED = ("parquet", "xlsx")
_SIGNS = "*?["
# A part of a folder of Spark or Hadoop, whose name may have no suffix.
_PART = "part-"
# Of hidden files and folders, and of those by which Spark notes its success.
_HIDDEN = (".", "_")
# A folder of each volume of ext4, which its root alone may read.
_ROOTS_OWN = "lost+found"
_MAX_NAMES = 5
# The column of a table that has the whole record as JSON.
_RECORD = "record"
# Far more than the parts of a list: whoever names more has named another folder, such as that of the disk.
_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class ListSource:
    """A list. What is None is recognised."""

    paths: Sequence[str]  # files, folders and patterns, in the order in which they are read
    # Of which the first that is filled counts; None for those with a usual name of ISBNs.
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None

    def files(self, *, keep: Keep = False) -> list[SourceFile]:
        """
        Find the files of the list in order: of a folder or a pattern, by their names.

        Raise an OSError that names a file or folder if it is missing or cannot be reached, InvalidSourceError if there
        is none or one has an unknown suffix, PermanentError if the package of a store is not installed.
        """
        options = ReadOptions(self.columns, self.delimiter, self.encoding, keep)
        return [file for path in self.paths for file in _files_of(path, options)]

    def version(self) -> str:
        """Return a digest that changes if a file does, or if there is another; raise the errors of :meth:`files`."""
        marks = [f"{file.path}\n{version_in(file_info(file.path, LIST.name))}" for file in self.files()]
        return hashlib.sha256("\n".join(marks).encode("utf-8", "surrogateescape")).hexdigest()

    def read(self, keep: Keep) -> ListReading:
        """Return a reading of the list from its beginning."""
        return ListReading(self.files(keep=keep))

    def check_destination(self, destination: str) -> None:
        """Refuse a dataset that would become a file of the list: InvalidSourceError."""
        for file in self.files():
            if is_same_file(file.path, destination):
                raise InvalidSourceError(
                    f"the destination {destination!r} is one of the files of the source. Choose another destination, "
                    "in another folder."
                )


@dataclass(slots=True)
class ListReading:
    """One reading of a list."""

    files: Sequence[SourceFile]
    #: The files of which the reading has begun, with what was recognised in each.
    facts: list[SourceFile] = field(default_factory=list)

    def __iter__(self) -> Iterator[SourceRow]:
        """
        Read the rows lazily. One that cannot be read has an error, and does not affect others.

        Memory is bounded: a row may have 16 MB, a cell of CSV 131,072 characters. A list may have any number of rows,
        so the time is that of the decompressed size. Empty lines are skipped. Errors are those of :func:`rows_of`, and
        that of a store whose package is not installed.
        """
        for file in self.files:
            path = path_of(file.path)
            check_store(path, LIST.name)
            check_regular(path, LIST.name)
            self.facts.append(file)
            if file.is_part and not file_info(path, LIST.name).get("size"):
                continue
            for row in rows_of(file):
                file.rows += 1
                row.file = path.name if len(self.files) > 1 else None
                yield row

    @property
    def kept(self) -> dict[str, ColumnType]:
        """The columns that are kept, with their types; of files that differ in the type of one, it is a text."""
        kinds: dict[str, ColumnType] = {}
        for facts in self.facts:
            for name, kind in facts.kept.items():
                kinds[name] = kind if kinds.get(name, kind) == kind else "str"
        return kinds

    @property
    def too_many_columns(self) -> str | None:
        """An error if more columns are kept than a table can have."""
        return next((f"{facts.name}: {facts.too_many}." for facts in self.facts if facts.too_many), None)

    def warnings(self) -> Iterator[str]:
        """Yield what the user should know about how the list was read."""
        fallback = [facts for facts in self.facts if facts.fallback_line]
        if fallback:
            first, more = fallback[0], f" So are {len(fallback) - 1} more files." if len(fallback) > 1 else ""
            yield (
                f"{first.name}, line {first.fallback_line} is not UTF-8, and such lines are read as "
                f"{FALLBACK} (Western Europe).{more} If letters come out wrong, give encoding."
            )


def rows_of(file: SourceFile) -> Iterator[SourceRow]:
    """
    Read the rows of a file lazily. What is recognised is noted in it before the first of them.

    Raise an OSError that names the file if it cannot be read; InvalidSourceError, which says what it is instead, if it
    is not such a file or lacks a column; PermanentError if pyarrow or openpyxl is not installed.
    """
    # pyarrow and openpyxl are imported only for their own formats.
    if file.format == "parquet":
        from airflow_provider_mediaops.storage.source_parquet import read_parquet

        return read_parquet(file)
    if file.format == "xlsx":
        from airflow_provider_mediaops.storage.source_excel import read_excel

        return read_excel(file)
    read = {"csv": read_csv, "txt": read_text_lines}.get(file.format)
    return read(SourceLines(file)) if read else read_json(SourceLines(file, cut=b"},"))


def read_rows(path: ObjectStoragePath, column: str, format: Format, *, keep: Keep = False) -> Iterator[SourceRow]:
    """
    Read a column of a dataset lazily, whatever its suffix; it is not compressed.

    Raise InvalidSourceError if a row cannot be read, or if it is not a regular file.
    """
    check_store(path, DATASET.name)
    # To open a named pipe would wait for whoever writes to it.
    check_regular(path, DATASET.name)
    for row in rows_of(SourceFile(str(path), format, DATASET, ReadOptions([column], ",", keep=keep))):
        if row.error:
            raise InvalidSourceError(f"{DATASET.of(path)}: {row.error}")
        yield row


def read_records(path: ObjectStoragePath, format: Format) -> Iterator[str]:
    """Read the records of a dataset lazily. CSV and Parquet have each in the column ``record``."""
    if format != "jsonl":
        yield from (row.text for row in read_rows(path, _RECORD, format))
        return
    check_regular(path, DATASET.name)
    lines = SourceLines(SourceFile(str(path), format, DATASET, ReadOptions()))
    yield from (line.rstrip("\n") for line in lines if line.strip())


def file_info(file: str | ObjectStoragePath, role: str) -> dict[str, Any]:
    """
    Return the properties of a file as the client of its store has them. The role is what it is to the user.

    Raise an OSError that names it if it cannot be reached, InvalidSourceError for a folder, a named pipe, a socket or a
    device.
    """
    path = path_of(file)
    check_store(path, role)
    check_regular(path, role)
    with naming_path(f"{role} {path}", "read"):
        # A triggerer runs for long, and clients of stores cache listings.
        path.fs.invalidate_cache()
        info: dict[str, Any] = path.fs.info(path.path)
    return info


def version_in(info: Mapping[str, Any]) -> str:
    """Return a digest that changes when the file does."""
    marks = [str(info.get("size")), content_tag(info)]
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()


def format_of_list(path: str) -> str | None:
    """Return the format of a file by its suffix; None if that says none."""
    name = path.lower()
    for suffix, format in _FORMATS.items():
        if name.endswith(suffix) or (format not in _PACKED and name.endswith(suffix + GZIP)):
            return format
    return None


def _files_of(text: str, options: ReadOptions) -> list[SourceFile]:
    path = path_of(text)
    check_store(path, LIST.name)
    with naming_path(LIST.of(path), "read"):
        if not is_local(path):
            # A triggerer runs for long, and clients of stores cache listings.
            path.fs.invalidate_cache()
        names = _names_in(path)
    if names is None:
        if (format := format_of_list(text)) is None:
            raise InvalidSourceError(
                f"source {unsigned(text)!r} ends in none of {_suffixes()}: save or unpack the list as one of these."
            )
        return [SourceFile(text, format, LIST, options)]
    if len(names) > _MAX_FILES:
        raise InvalidSourceError(
            f"{LIST.of(path)}: there are more than {_MAX_FILES:,} files. Name the folder of the list, or a pattern."
        )
    files = [
        SourceFile(_full(path, name), format, LIST, options, is_part=True)
        for name in names
        if (format := _format_of_part(name))
    ]
    if not files:
        others = ", ".join(repr(name.rpartition("/")[2]) for name in names[:_MAX_NAMES]) or "nothing"
        raise InvalidSourceError(
            f"{LIST.of(path)}: there is no list, but {others}. A list ends in {_suffixes()}, in a folder and by a "
            "pattern."
        )
    return files


def _names_in(path: ObjectStoragePath) -> list[str] | None:
    """Return the paths of the files in a folder, or of those that match a pattern; None if it is one file."""
    name = path.path.rstrip("/") or "/"
    kind = None
    with suppress(FileNotFoundError):
        # A key that may read an object, but not list its bucket, is enough for this.
        kind = path.fs.info(name).get("type")
    if kind:
        return _files_below(path, name) if kind == "directory" else None
    signs = [place for sign in _SIGNS if (place := name.find(sign)) >= 0]
    if not signs:
        return None
    names: list[str] = []
    for each in _visible(path.fs.glob(name), name[: min(signs)].rpartition("/")[0]):
        names += _files_below(path, each) if path.fs.isdir(each) else [each]
    return names


def _files_below(path: ObjectStoragePath, name: str) -> list[str]:
    return _visible(_below(name) if is_local(path) else path.fs.find(name), name)


def _below(name: str) -> list[str]:
    # Airflow's client takes a folder that this user may not list for an empty one, and ends only when it has seen all.
    names: list[str] = []
    for folder, inner, files in os.walk(name, onerror=_raise):
        inner[:] = [each for each in inner if not each.startswith(_HIDDEN) and each != _ROOTS_OWN]
        names += (f"{folder.rstrip('/')}/{file}" for file in files if not file.startswith(_HIDDEN))
        if len(names) > _MAX_FILES:
            break
    return names


def _raise(error: OSError) -> None:
    raise OSError(error.errno, f"{error.strerror}: {error.filename!r}") from error


def _format_of_part(name: str) -> str | None:
    """Return the format of a file; one of a part of a folder such as list.csv, which Spark writes, is the folder's."""
    folder, _, base = name.rpartition("/")
    is_bare = base.startswith(_PART) and "." not in base
    return format_of_list(folder if is_bare else base)


def _visible(names: Iterable[str], root: str) -> list[str]:
    """Return the paths below a folder in order, without hidden ones and those by which Spark notes its success."""
    start = root.strip("/")
    below = {name: name.strip("/").removeprefix(start).split("/") for name in names}
    return sorted(name for name, parts in below.items() if not any(part.startswith(_HIDDEN) for part in parts))


def _full(path: ObjectStoragePath, name: str) -> str:
    """Return the path of a file that the client of a store has named, with scheme and connection."""
    if is_local(path):
        return f"/{name.lstrip('/')}"
    conn_id = conn_id_of(path)
    return f"{path.protocol}://{f'{conn_id}@' if conn_id else ''}{name.lstrip('/')}"


def _suffixes() -> str:
    texts = [suffix for suffix, format in _FORMATS.items() if format not in _PACKED]
    return f"{', '.join(texts)} (each also with {GZIP}), .parquet and .xlsx"
