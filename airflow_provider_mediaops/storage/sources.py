"""Read a column of a file on any object storage, row by row, with the other columns that are to be kept."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.json_text import check_depth, text_of
from airflow_provider_mediaops.storage.file_role import DATASET, LIST, FileRole
from airflow_provider_mediaops.storage.files import path_of, translating_errors
from airflow_provider_mediaops.storage.object_info import content_tag
from airflow_provider_mediaops.storage.path_checks import check_regular, check_store
from airflow_provider_mediaops.storage.source_columns import (
    ColumnType,
    Keep,
    check_number,
    clean,
    column_error,
    fields_of,
    places_of,
)
from airflow_provider_mediaops.storage.source_lines import (
    GZIP,
    InvalidSourceError,
    SourceLines,
    SourceRow,
    no_utf8,
    readable,
)

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.formats import Format

# The column of a table that has the whole record as JSON.
_RECORD = "record"
_PLAIN, _PARQUET = ".txt", ".parquet"


def has_columns(source: str | ObjectStoragePath) -> bool:
    """
    Return whether the format of a file has columns; that of ``.txt`` has none.

    :param source: the file's path.
    :raises InvalidSourceError: if its suffix is unknown.
    """
    return _suffix_of(source) != _PLAIN


def read_rows(
    source: str | ObjectStoragePath, column: str, *, skip: int = 0, keep: Keep = False, format: str | None = None
) -> Iterator[SourceRow]:
    """
    Read a column of a file lazily.

    A ``.txt`` file has one text per line. A ``.csv`` file names its columns in its first line. A ``.jsonl`` file has
    one object per line. Each is UTF-8, and may be compressed with gzip (``.csv.gz``). A ``.parquet`` file is read by
    its row groups. A row that cannot be read is yielded with an error, and does not affect other rows.

    Memory is bounded: a row of a list may have 16 MB, and one of a dataset what this package writes. A list may have
    any number of rows, so the time is that of the decompressed size. Empty lines are skipped; a million of them, and
    ten more for each row, are an error.

    :param source: the file's path.
    :param column: the name of the column or field; ignored for ``.txt``.
    :param skip: how many rows to skip.
    :param keep: which other columns the rows hold: all, none, or those with these names. Cells beyond the header of a
        ``.csv`` file have no column.
    :param format: ``jsonl``, ``csv`` or ``parquet``, for a dataset: it is not compressed, even if its name ends like
        that of a compressed file. None means the suffix.
    :returns: the rows.
    :raises OSError: if the file is missing or cannot be read; the message names it.
    :raises InvalidSourceError: if it is not such a file or lacks a column; the message says what it is instead.
    :raises PermanentError: if a package is not installed: pyarrow for Parquet, or that of the store.
    """
    path = path_of(source)
    suffix = f".{format}" if format else _suffix_of(source)
    role = _role_of(format)
    check_store(path, role.name)
    if suffix == _PARQUET:
        from airflow_provider_mediaops.storage.source_parquet import read_parquet

        return read_parquet(path, role, column, skip, keep)
    return _READERS[suffix](SourceLines(path, role), column, skip, keep)


def read_records(path: ObjectStoragePath, format: Format) -> Iterator[str]:
    """
    Read the records of a dataset lazily.

    :param path: its path, whatever its suffix.
    :param format: its format. CSV and Parquet have each record in the column ``record``.
    :returns: the records as JSON texts.
    :raises OSError: as :func:`read_rows`.
    :raises InvalidSourceError: as :func:`read_rows`; if a row of a table has no record; if it is no regular file.
    :raises PermanentError: as :func:`read_rows`.
    """
    # To open a named pipe would wait for whoever writes to it.
    check_regular(path, DATASET.name)
    if format == "jsonl":
        yield from (line.rstrip("\n") for line in SourceLines(path, DATASET) if line.strip())
        return
    for row in read_rows(path, _RECORD, format=format):
        if row.error:
            raise InvalidSourceError(f"{DATASET.name} {path}: {row.error}")
        yield row.text


def count_rows(source: str | ObjectStoragePath, column: str) -> int:
    """
    Count the rows of a file by reading all of it, so that a damaged file is found before any row is processed.

    :param source: the file's path.
    :param column: the name of the column or field.
    :returns: the number of rows; of Parquet, only the metadata is read.
    :raises OSError: as :func:`read_rows`.
    :raises InvalidSourceError: as :func:`read_rows`.
    :raises PermanentError: as :func:`read_rows`.
    """
    if _suffix_of(source) == _PARQUET:
        from airflow_provider_mediaops.storage.source_parquet import count_parquet

        path = path_of(source)
        check_store(path, LIST.name)
        return count_parquet(path, LIST, column)
    return sum(1 for _ in read_rows(source, column))


def columns_of(source: str | ObjectStoragePath, column: str, keep: Keep) -> dict[str, ColumnType]:
    """
    Return the columns that are kept, with their types, for a table that is to have them.

    :param source: the file's path.
    :param column: the name of the column that is read.
    :param keep: which others are kept.
    :returns: the types by name, in the order of the file. The columns of a ``.jsonl`` file are those of all its rows,
        so all of it is read. Only the numbers of Parquet are numbers; everything else is text.
    :raises OSError: as :func:`read_rows`.
    :raises InvalidSourceError: as :func:`read_rows`; if a column to be kept does not exist; if there are more columns
        than a table should have.
    :raises PermanentError: as :func:`read_rows`.
    """
    suffix = _suffix_of(source)
    if not keep or suffix == _PLAIN:
        return {}
    path = path_of(source)
    if suffix == ".jsonl":
        check_store(path, LIST.name)
        kinds: dict[str, ColumnType] = dict.fromkeys(_json_names(SourceLines(path, LIST), column, keep), "str")
    else:
        kinds = _table_columns(path, suffix, column, keep)
    if error := check_number(kinds):
        raise InvalidSourceError(f"{LIST.name} {path}: {error}.")
    return kinds


def table_names(path: ObjectStoragePath, column: str, format: Literal["csv", "parquet"]) -> list[str]:
    """
    Return the names of the columns of a table; it may have any number of them.

    :param path: its path, whatever its suffix; it is not compressed.
    :param column: the name of a column that it must have; it is left out.
    :param format: its format.
    :raises OSError: as :func:`read_rows`.
    :raises InvalidSourceError: as :func:`read_rows`.
    :raises PermanentError: as :func:`read_rows`.
    """
    return list(_table_columns(path, f".{format}", column, keep=True, format=format))


def _table_columns(
    path: ObjectStoragePath, suffix: str, column: str, keep: Keep, format: str | None = None
) -> dict[str, ColumnType]:
    role = _role_of(format)
    check_store(path, role.name)
    if suffix == _PARQUET:
        from airflow_provider_mediaops.storage.source_parquet import parquet_columns

        return parquet_columns(path, role, column, keep)
    lines = SourceLines(path, role)
    return dict.fromkeys((name for _, name in _csv_header(lines, _csv_cells(lines), column, keep)[1]), "str")


def version_of(source: str | ObjectStoragePath) -> str:
    """
    Return a digest that changes when the file does.

    :param source: the file's path.
    :returns: a digest of its size and its tag or time, as the store reports them.
    :raises OSError: if the file is missing or cannot be reached; the message names it.
    :raises InvalidSourceError: if it is a folder, a named pipe, a socket or a device.
    """
    return version_in(file_info(source, LIST.name))


def file_info(file: str | ObjectStoragePath, role: str) -> dict[str, Any]:
    """
    Return the properties of a file as the client of its store has them.

    :param file: the file's path.
    :param role: what the file is to the user, for example ``source``.
    :raises OSError: if the file is missing or cannot be reached; the message names it.
    :raises InvalidSourceError: if it is a folder, a named pipe, a socket or a device.
    """
    path = path_of(file)
    check_store(path, role)
    check_regular(path, role)
    with translating_errors(f"{role} {path}", "read"):
        # A triggerer runs for long, and clients of stores cache listings.
        path.fs.invalidate_cache()
        info: dict[str, Any] = path.fs.info(path.path)
    return info


def version_in(info: Mapping[str, Any]) -> str:
    """
    Return a digest that changes when the file does.

    :param info: the properties of the file.
    """
    marks = [str(info.get("size")), content_tag(info)]
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()


def _plain_rows(lines: SourceLines, _column: str, skip: int, _keep: Keep) -> Iterator[SourceRow]:
    rows = (line.strip() for line in lines)
    for number, text in enumerate(filter(None, rows)):
        if number < skip:
            continue
        if lines.number == 1 and (error := no_utf8(text)):
            raise lines.error(error)
        yield lines.row(text)


def _csv_rows(lines: SourceLines, column: str, skip: int, keep: Keep) -> Iterator[SourceRow]:
    cells = _csv_cells(lines)
    header, kept = _csv_header(lines, cells, column, keep)
    place = header.index(column)
    for row in islice(cells, skip, None):
        columns = {name: row[at] if at < len(row) else None for at, name in kept} if kept else None
        if columns and lines.has_invalid_utf8:
            columns = {name: cell and readable(cell) for name, cell in columns.items()}
        if place < len(row):
            yield lines.row(row[place], columns=columns)
        else:
            error = f"it has {len(row)} of {len(header)} columns, and {column!r} is not among them"
            yield lines.row("", error, columns)


@dataclass(slots=True)
class _RowSize:
    """
    The lines of a CSV file, as many as a row may have: within quotes, a cell may have any number.

    :param lines: the lines.
    :param size: the characters of the lines since the last row was complete.
    """

    lines: SourceLines
    size: int = 0

    def __iter__(self) -> Iterator[str]:
        limit = self.lines.role.max_row_bytes
        for line in self.lines:
            self.size += len(line)
            if self.size > limit:
                raise self.lines.too_long("row")
            # The reader of Python 3.10 refuses NUL.
            yield line.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _csv_header(
    lines: SourceLines, cells: Iterator[list[str]], column: str, keep: Keep
) -> tuple[list[str], list[tuple[int, str]]]:
    header = [name.strip() for name in next(cells, [])]
    if not header:
        raise lines.error("it is empty, without even a first line that names the columns")
    kept, kept_error = places_of(header, column, keep)
    if error := column_error(column, header) or kept_error:
        raise lines.error("; ".join(filter(None, (no_utf8(",".join(header)), error))))
    return header, kept


def _csv_cells(lines: SourceLines) -> Iterator[list[str]]:
    row = _RowSize(lines)
    # The row is bounded, not the cell by 131,072 characters. The number holds for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), lines.role.max_row_bytes))
    try:
        for cells in csv.reader(row):
            row.size = 0
            if lines.ended:
                # The reader returns each row at its last line, unless it waits for the end of a quoted cell.
                lines.number -= cells[-1].removesuffix("\n").count("\n")
                raise lines.error("it is no CSV (a quote is opened there and never closed)")
            # An empty line is a row without cells.
            if cells:
                yield cells
    except csv.Error as error:
        # The rest may be the inside of a quoted cell, so it is not known where the next row begins.
        raise lines.error(f"it is no CSV ({error})") from None


def _json_rows(lines: SourceLines, column: str, skip: int, keep: Keep) -> Iterator[SourceRow]:
    for number, line in enumerate(line for line in lines if line.strip()):
        # Reading the objects takes nearly all of the time.
        if 0 < number < skip:
            continue
        record, error = _json_object(line)
        if not error and column not in record:
            error = column_error(column, list(record))
        if number == 0 and error:
            raise lines.error(error)
        if number >= skip:
            text = "" if error and record else line.strip() if error else text_of(record[column])
            yield lines.row(text, error, _json_columns(line, record, column, keep) if keep else None)


def _json_columns(line: str, record: dict[str, Any], column: str, keep: Keep) -> dict[str, Any]:
    if record and no_utf8(line):
        # Within a JSON text, a backslash is written as two.
        record, _ = _json_object(readable(line, r"\\x"))
    return fields_of(record, column, keep)


def _json_object(line: str) -> tuple[dict[str, Any], str | None]:
    try:
        record = json.loads(line)
        check_depth(record, line.count("{") + line.count("["))
    except (ValueError, RecursionError) as error:
        return {}, f"it is no JSON ({error})"
    if not isinstance(record, dict):
        return {}, f"it is a JSON {type(record).__name__}, not an object"
    return record, None


def _json_names(lines: SourceLines, column: str, keep: Keep) -> list[str]:
    """Return the names of the fields of all rows, in the order in which they appear first."""
    names: dict[str, None] = {}
    for row in _json_rows(lines, column, 0, keep=True):
        names.update(dict.fromkeys(row.columns or ()))
        if error := check_number(names) if keep is True else None:
            raise lines.error(error)
    if isinstance(keep, bool):
        return list(names)
    named = list(map(clean, keep))
    if lines.number and (error := next(filter(None, (column_error(name, [column, *names]) for name in named)), None)):
        raise lines.error(error)
    return named


_Reader = Callable[[SourceLines, str, int, Keep], Iterator[SourceRow]]
_READERS: dict[str, _Reader] = {_PLAIN: _plain_rows, ".csv": _csv_rows, ".jsonl": _json_rows}


def _role_of(format: str | None) -> FileRole:
    return DATASET if format else LIST


def _suffix_of(source: str | ObjectStoragePath) -> str:
    name = str(source).lower()
    if name.endswith(_PARQUET):
        return _PARQUET
    for suffix in _READERS:
        if name.removesuffix(GZIP).endswith(suffix):
            return suffix
    path, suffixes = unsigned(str(source)), ", ".join(_READERS)
    raise InvalidSourceError(f"source {path!r} ends in none of {suffixes} (each also with {GZIP}) and {_PARQUET}.")
