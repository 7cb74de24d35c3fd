"""
Read lists as users have them: a file, several, a folder or a pattern, on any storage and in any usual format.

The datasets of this package are read again by the same readers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.storage.errors import naming_path
from airflow_provider_mediaops.storage.files import content_tag
from airflow_provider_mediaops.storage.paths import check_store, is_irregular, is_local, is_same_file, path_of
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, ReadOptions, SourceFile
from airflow_provider_mediaops.storage.source_text import FALLBACK, GZIP, read_json, read_lines, read_text
from airflow_provider_mediaops.version_compat import conn_id_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.formats import Format
    from airflow_provider_mediaops.storage.source_columns import ColumnType
    from airflow_provider_mediaops.storage.source_file import SourceRow

_TEXT_FORMATS = {"txt": "txt"} | dict.fromkeys(("csv", "tsv", "tab"), "csv")
_TEXT_FORMATS |= dict.fromkeys(("json", "jsonl", "ndjson"), "json")
# These are compressed by themselves.
_PACKED_FORMATS = {"parquet": "parquet", "xlsx": "xlsx", "xlsm": "xlsx"}
_SUFFIXES = f".{', .'.join(_TEXT_FORMATS)} (each also with {GZIP}), .parquet and .xlsx"
_SIGN = re.compile(r"[*?\[]")
# A part of a folder of Spark or Hadoop, whose name may have no suffix.
_PART = "part-"
# Of hidden files and folders, of those by which Spark notes its success, and of a folder that each volume of ext4 has,
# which root alone may read.
_HIDDEN, _LOST_AND_FOUND = (".", "_"), "lost+found"
_MAX_NAMES = 5
# Far more than the parts of a list: whoever names more has named another folder, such as that of the disk.
_MAX_FILES = 10_000


def find_files(paths: Sequence[str], options: ReadOptions | None = None) -> list[SourceFile]:
    """
    Find the files of a list, of which each path may be a file, a folder or a pattern, in the order of their names.

    Raise an OSError that names a file or folder if it is missing or cannot be reached, InvalidSourceError if there is
    none or one has an unknown suffix, PermanentError if the package of a store is not installed.
    """
    return [file for path in paths for file in _files_of(path, options or ReadOptions())]


def version_of(files: Iterable[SourceFile]) -> str:
    """Return a digest that changes if a file of a list does, or if there is another."""
    marks = [[file.path, (info := _info_of(file)).get("size"), content_tag(info)] for file in files]
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()


def _info_of(file: SourceFile) -> Mapping[str, Any]:
    """Return the properties of a file; refuse a folder, a named pipe, a socket or a device: InvalidSourceError."""
    path = path_of(file.path)
    check_store(path, file.role)
    with naming_path(file.name, "read"):
        if is_irregular(path):
            # A named pipe without a writer is waited for without end, and a device may never end.
            raise InvalidSourceError(
                f"{file.name} is a folder, a pipe or a device, not a file. Write its content into a file, and give the "
                "path of that."
            )
        # A triggerer runs for long, and clients of stores cache listings.
        path.fs.invalidate_cache()
        info: dict[str, Any] = path.fs.info(path.path)
    return info


def check_destination(files: Iterable[SourceFile], destination: str) -> None:
    """Refuse a dataset that would become a file of the list: InvalidSourceError."""
    if any(is_same_file(file.path, destination) for file in files):
        raise InvalidSourceError(
            f"the destination {destination!r} is one of the files of the source. Choose another destination, in "
            "another folder."
        )


def read_list(files: Sequence[SourceFile], *, goes_on: bool = False) -> Iterator[SourceRow]:
    """
    Read the rows of a list lazily. One that cannot be read has an error, and does not affect others.

    Memory is bounded: a row may have 16 MB, a cell of CSV 131,072 characters, and an enrichment holds 1,000 rows at
    most, with ``bulk`` 3,000. A list may have any number of rows, so the time is that of the decompressed size. Empty
    lines are skipped. Errors are those of :func:`rows_of`, and that of a store whose package is not installed. If it
    ``goes_on``, one file of several that is no list has its ``problem`` noted instead.
    """
    for file in files:
        if not _info_of(file).get("size") and file.is_part:
            continue
        try:
            for row in rows_of(file):
                file.rows += 1
                row.file = file.path.rpartition("/")[2] if len(files) > 1 else None
                yield row
        except InvalidSourceError as error:
            if not goes_on or len(files) == 1:
                raise
            file.problem = str(error)


def rows_of(file: SourceFile) -> Iterator[SourceRow]:
    """
    Read the rows of a file lazily. What is recognised is noted in it before the first of them.

    Raise an OSError that names the file if it cannot be read; InvalidSourceError, which says what it is instead, if it
    is not such a file or lacks a column; PermanentError if pyarrow or openpyxl is not installed.
    """
    if file.format in _PACKED_FORMATS.values():
        from airflow_provider_mediaops.storage.source_tables import read_excel, read_parquet

        return read_parquet(file) if file.format == "parquet" else read_excel(file)
    return read_text(file) if file.format in ("csv", "txt") else read_json(file)


def table_columns(files: Iterable[SourceFile]) -> dict[str, ColumnType]:
    """Return the columns that are kept, with their types; of files that differ in the type of one, it is a text."""
    kinds: dict[str, ColumnType] = {}
    for file in files:
        for name, kind in file.kept.items():
            kinds[name] = kind if kinds.get(name, kind) == kind else "str"
    return kinds


def encoding_warning(files: Iterable[SourceFile]) -> str | None:
    """Return what the user should know if lines were read in an encoding that was guessed."""
    guessed = next((file for file in files if file.fallback_line), None)
    if guessed is None:
        return None
    where = f"{guessed.name}, line {guessed.fallback_line}"
    what = f"is not UTF-8, and such lines are read as {FALLBACK} (Western Europe)"
    return f"{where} {what}. If letters come out wrong, give encoding."


def read_dataset(file: SourceFile) -> Iterator[SourceRow]:
    """Read the rows of a dataset of this package lazily; raise InvalidSourceError if one cannot be read."""
    for row in rows_of(file):
        if row.error:
            raise InvalidSourceError(f"{file.name}: {row.error}")
        yield row


def read_records(path: ObjectStoragePath, format: Format) -> Iterator[str]:
    """Read the records of a dataset lazily. CSV and Parquet have each in the column ``record``."""
    file = SourceFile(str(path), format, ReadOptions(["record"], ","), is_dataset=True)
    # To open a named pipe would wait for whoever writes to it.
    _info_of(file)
    if format == "jsonl":
        yield from (line.rstrip("\n") for line in read_lines(file) if line.strip())
    else:
        yield from (row.text for row in read_dataset(file))


def format_of_list(path: str) -> str | None:
    """Return the format of a file by its suffix; None if that says none."""
    name = path.lower()
    _, dot, suffix = name.removesuffix(GZIP).rpartition(".")
    if not dot:
        return None
    return _TEXT_FORMATS.get(suffix) or (None if name.endswith(GZIP) else _PACKED_FORMATS.get(suffix))


def _files_of(text: str, options: ReadOptions) -> list[SourceFile]:
    path = path_of(text)
    source = f"source {unsigned(text)}"
    check_store(path, "source")
    with naming_path(source, "read"):
        # A triggerer runs for long, and clients of stores cache listings.
        path.fs.invalidate_cache()
        names = _names_in(path)
    if names is None:
        if (format := format_of_list(text)) is None:
            raise InvalidSourceError(
                f"source {unsigned(text)!r} ends in none of {_SUFFIXES}: save or unpack the list as one of these."
            )
        return [SourceFile(text, format, options)]
    if len(names) > _MAX_FILES:
        raise InvalidSourceError(
            f"{source}: there are more than {_MAX_FILES:,} files. Name the folder of the list, or a pattern."
        )
    conn_id = conn_id_of(path)
    start = "/" if is_local(path) else f"{path.protocol}://{f'{conn_id}@' if conn_id else ''}"
    files = [
        SourceFile(f"{start}{name.lstrip('/')}", format, options, is_part=True)
        for name in names
        if (format := _format_of_part(name))
    ]
    if not files:
        others = ", ".join(repr(name.rpartition("/")[2]) for name in names[:_MAX_NAMES]) or "nothing"
        raise InvalidSourceError(
            f"{source}: there is no list, but {others}. A list ends in {_SUFFIXES}, in a folder and by a pattern."
        )
    return files


def _names_in(path: ObjectStoragePath) -> list[str] | None:
    """Return the paths of the files in a folder, or of those that match a pattern; None if it is one file."""
    name = path.path.rstrip("/") or "/"
    kind = None
    with suppress(FileNotFoundError):
        # A key that may read an object, but not list its bucket, is enough for this.
        kind = path.fs.info(name).get("type")
    sign = _SIGN.search(name)
    if kind == "directory":
        names = _below(path.fs, name)
    elif kind or not sign:
        return None
    else:
        folder = name[: sign.start()].rpartition("/")[0].strip("/")
        found = [each for each in path.fs.glob(name) if not _is_hidden(each.strip("/").removeprefix(folder))]
        names = chain.from_iterable(_below(path.fs, each) if path.fs.isdir(each) else [each] for each in found)
    return sorted(islice(names, _MAX_FILES + 1))


def _below(store: Any, folder: str) -> Iterator[str]:
    """Yield the paths below a folder, without hidden ones and those by which Spark notes its success."""
    with naming_path(folder, "read"):
        listed = store.ls(folder, detail=True)
    for info in listed:
        path = info["name"].rstrip("/")
        name = path.rpartition("/")[2]
        if _is_hidden(name) or path.strip("/") == folder.strip("/"):
            continue
        if info["type"] == "directory":
            yield from _below(store, path)
        else:
            yield path


def _is_hidden(path: str) -> bool:
    return any(part.startswith(_HIDDEN) or part == _LOST_AND_FOUND for part in path.split("/"))


def _format_of_part(name: str) -> str | None:
    """Return the format of a file; one of a part of a folder such as list.csv, which Spark writes, is the folder's."""
    folder, _, base = name.rpartition("/")
    is_bare = base.startswith(_PART) and "." not in base
    return format_of_list(folder if is_bare else base)
