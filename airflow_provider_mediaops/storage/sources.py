"""Reading one column of a file on any object storage."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

if TYPE_CHECKING:
    from collections.abc import Iterable

_GZIP = ".gz"


class InvalidSourceError(ValueError):
    """A file that is not what it should be: another format, no text, or without the column."""


def check_source(source: str | ObjectStoragePath) -> None:
    """
    Find out from a path alone whether the file can be read.

    :param source: its path.
    :raises InvalidSourceError: where its suffix is none of a known format.
    """
    _reader_of(source)


def read_column(source: str | ObjectStoragePath, column: str) -> Iterator[str]:
    """
    Read the texts of one column, one a row, as they are asked for.

    A ``.txt`` file has a text a line, a ``.csv`` file names its columns in its first line, a ``.jsonl`` file has an
    object a line. Each is UTF-8, and may be compressed with gzip (``.csv.gz``). Empty lines are no rows; a row without
    a value in the column gives an empty text.

    :param source: the file's path.
    :param column: the name of the column or field; it does not matter for ``.txt``.
    :returns: the texts.
    :raises OSError: where the file is missing or cannot be read; the message names it.
    :raises InvalidSourceError: where it is no such text or has no such column; the message says what is there instead.
    """
    return _reader_of(source)(_Lines(ObjectStoragePath(source)), column)


class _Lines:
    """The lines of a file as text, and which one was read last."""

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        try:
            with self._path.fs.open(self._path.path, "rb") as file:
                for line in gzip.GzipFile(fileobj=file) if self._path.name.lower().endswith(_GZIP) else file:
                    self.number += 1
                    yield self._decoded(line)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise self.wrong(f"it is no whole gzip file ({error})") from None
        except OSError as error:
            gone = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
            what = f"source {self._path} cannot be read: {error.strerror or gone}"
            raise (OSError(error.errno, what) if error.errno else type(error)(what)) from error

    def wrong(self, what: str) -> InvalidSourceError:
        return InvalidSourceError(f"source {self._path}, line {self.number}: {what}.")

    def _decoded(self, line: bytes) -> str:
        try:
            return line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise self.wrong(f"it is no UTF-8 text (byte 0x{byte:02x} at place {error.start + 1})") from None


def _plain_lines(lines: _Lines, _column: str) -> Iterator[str]:
    return (text for line in lines if (text := line.strip()))


def _csv_column(lines: _Lines, column: str) -> Iterator[str]:
    rows = _csv_rows(lines)
    header = [name.strip() for name in next(rows, [])]
    if column not in header:
        raise lines.wrong(_lacking(column, header))
    place = header.index(column)
    for row in rows:
        yield row[place] if place < len(row) else ""


def _csv_rows(lines: _Lines) -> Iterator[list[str]]:
    try:
        # An empty line is a row without cells to the reader.
        yield from filter(None, csv.reader(lines))
    except csv.Error as error:
        raise lines.wrong(f"it is no CSV ({error})") from None


def _json_column(lines: _Lines, column: str) -> Iterator[str]:
    first = True
    for line in lines:
        if not line.strip():
            continue
        record = _json_object(lines, line)
        if first and column not in record:
            raise lines.wrong(_lacking(column, record))
        first = False
        value = record.get(column)
        yield value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _json_object(lines: _Lines, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise lines.wrong(f"it is no JSON ({error})") from None
    if not isinstance(record, dict):
        raise lines.wrong(f"it is a JSON {type(record).__name__}, not an object")
    return record


def _lacking(column: str, names: Iterable[str]) -> str:
    return f"there is no column {column!r}, but {', '.join(map(repr, names)) or 'nothing'}"


_Reader = Callable[[_Lines, str], Iterator[str]]
_READERS: dict[str, _Reader] = {".txt": _plain_lines, ".csv": _csv_column, ".jsonl": _json_column}


def _reader_of(source: str | ObjectStoragePath) -> _Reader:
    name = str(source).lower().removesuffix(_GZIP)
    for suffix, reader in _READERS.items():
        if name.endswith(suffix):
            return reader
    raise InvalidSourceError(f"source {str(source)!r} ends in none of {', '.join(_READERS)}, each also with {_GZIP}.")
