"""Reading one column of a file on any object storage, row by row."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.files import with_message

if TYPE_CHECKING:
    from collections.abc import Sequence

_GZIP = ".gz"
_PARQUET = ".parquet"
# What is looked at to tell text from anything else.
_HEAD = 4096
_BLOCK = 256 * 1024
# What is longer than this is no line of a text, and would fill the memory.
_LONGEST_LINE = 16 * 1024 * 1024
_BATCH = 1_000
# How many columns an error names, and how much of each name.
_NAMED, _NAME_LENGTH = 20, 40
# What tells one version of a file from the next, in the words of the various stores; the first that is there counts.
_VERSIONS = (
    *("ETag", "etag", "e_tag", "md5Hash", "md5", "generation", "checksum"),
    *("mtime", "LastModified", "last_modified", "updated", "modified", "created"),
)


class InvalidSourceError(InvalidArgumentError):
    """A file that is not what it should be: another format, no text, or without the column."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """
    One row of a source.

    :param text: what stands in the column; empty where nothing can be read.
    :param error: what is wrong with the row itself, with its line; None for a row that can be read.
    """

    text: str
    error: str | None = None


def check_source(source: str | ObjectStoragePath) -> None:
    """
    Find out from a path alone whether the file can be read.

    :param source: its path.
    :raises InvalidSourceError: where its suffix is none of a known format.
    """
    _suffix_of(source)


def read_rows(source: str | ObjectStoragePath, column: str, *, skip: int = 0) -> Iterator[SourceRow]:
    """
    Read one column of a file, as its rows are asked for.

    A ``.txt`` file has a text a line, a ``.csv`` file names its columns in its first line, a ``.jsonl`` file has an
    object a line. Each is UTF-8, and may be compressed with gzip (``.csv.gz``). Empty lines are no rows. A ``.parquet``
    file is read by its row groups. A row that cannot be read is a row all the same, with an error: one bad byte in the
    middle of a long list spoils nothing else.

    :param source: the file's path.
    :param column: the name of the column or field; it does not matter for ``.txt``.
    :param skip: how many rows to leave out at the start.
    :returns: the rows.
    :raises OSError: where the file is missing or cannot be read; the message names it.
    :raises InvalidSourceError: where it is no such file or has no such column; the message says what is there instead.
    :raises PermanentError: for Parquet, where pyarrow is not installed.
    """
    path = ObjectStoragePath(str(source))
    suffix = _suffix_of(source)
    if suffix == _PARQUET:
        return _parquet_rows(path, column, skip)
    return _READERS[suffix](_Lines(path), column, skip)


def count_rows(source: str | ObjectStoragePath, column: str) -> int:
    """
    Read a file through, so that what is wrong with the whole of it is known before any row is worked on.

    :param source: the file's path.
    :param column: the name of the column or field.
    :returns: how many rows it has; of Parquet only the metadata are read.
    :raises OSError: as :func:`read_rows`.
    :raises InvalidSourceError: as :func:`read_rows`.
    :raises PermanentError: as :func:`read_rows`.
    """
    if _suffix_of(source) == _PARQUET:
        with _opened_parquet(ObjectStoragePath(str(source)), column) as file:
            return int(file.metadata.num_rows)
    return sum(1 for _ in read_rows(source, column))


def version_of(source: str | ObjectStoragePath) -> str:
    """
    Give what tells this version of a file from another one.

    :param source: the file's path.
    :returns: a digest of its size and its tag or time, as the store has them.
    :raises OSError: where the file is missing or cannot be reached; the message names it.
    """
    path = ObjectStoragePath(str(source))
    with _naming_path(path):
        # A triggerer lives long, and its stores' clients remember listings.
        path.fs.invalidate_cache()
        info = path.fs.info(path.path)
    marks = [str(info.get("size")), str(next(filter(None, map(info.get, _VERSIONS)), ""))]
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()


class _Lines:
    """
    The lines of a file as text, and which one was read last.

    A byte that is no UTF-8 becomes half of a surrogate pair: whether it matters depends on where in the line it is.
    """

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        self.number = 0
        #: Whether there are no more of them.
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        with _naming_path(self._path), self._whole_gzip(), self._path.fs.open(self._path.path, "rb") as file:
            packed = self._path.name.lower().endswith(_GZIP)
            for line in self._split(gzip.GzipFile(fileobj=file).read if packed else file.read):
                self.number += 1
                if self.number == 1:
                    self._check_text(line[:_HEAD])
                yield line.decode("utf-8-sig" if self.number == 1 else "utf-8", "surrogateescape")
        self.ended = True

    def _split(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        rest = b""
        while block := read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield line + b"\n"
            if len(rest) > _LONGEST_LINE:
                raise self.wrong(f"the next line is longer than {_LONGEST_LINE >> 20} MB, so it is no list")
        if rest:
            yield rest

    @contextmanager
    def _whole_gzip(self) -> Iterator[None]:
        try:
            yield
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise self.wrong(f"it is no whole gzip file ({error})") from None

    def _check_text(self, head: bytes) -> None:
        for start, what in _NO_TEXT.items():
            if head.startswith(start):
                raise self.wrong(f"it is {what}")
        if b"\0" in head:
            raise self.wrong("it is no text (it holds NUL bytes)")
        if b"\r" in head.rstrip(b"\r\n"):
            raise self.wrong("its lines end in CR alone, as on old Macs; save it with LF, or with CR and LF")

    def wrong(self, what: str) -> InvalidSourceError:
        place = f", line {self.number}" if self.number else ""
        return InvalidSourceError(f"source {self._path}{place}: {what}.")

    def row(self, text: str, error: str | None = None) -> SourceRow:
        """Give a row of the line that was read last."""
        if not text.isascii():
            error, text = error or _no_utf8(text), _readable(text)
        return SourceRow(text, f"Line {self.number}: {error}." if error else None)


def _is_byte(char: str) -> bool:
    # What the decoder makes of a byte that is no UTF-8.
    return "\udc80" <= char <= "\udcff"


def _byte(char: str) -> str:
    return f"{ord(char) - 0xDC00:02x}"


def _no_utf8(text: str) -> str | None:
    place = next((place for place, char in enumerate(text) if _is_byte(char)), None)
    return None if place is None else f"it is no UTF-8 text (byte 0x{_byte(text[place])} at place {place + 1})"


def _readable(text: str) -> str:
    return "".join(f"\\x{_byte(char)}" if _is_byte(char) else char for char in text)


_NO_TEXT = {
    b"\xff\xfe": "no UTF-8 text but UTF-16; save it as UTF-8",
    b"\xfe\xff": "no UTF-8 text but UTF-16; save it as UTF-8",
    b"\x1f\x8b": "no UTF-8 text but compressed with gzip; let its name end in .gz",
    b"PAR1": "no text but Parquet; let its name end in .parquet",
    b"PK\x03\x04": "no text but a ZIP archive or a workbook; save it as .csv",
}


def _plain_rows(lines: _Lines, _column: str, skip: int) -> Iterator[SourceRow]:
    rows = (line.strip() for line in lines)
    for number, text in enumerate(filter(None, rows)):
        if number < skip:
            continue
        if lines.number == 1 and (error := _no_utf8(text)):
            raise lines.wrong(error)
        yield lines.row(text)


def _csv_rows(lines: _Lines, column: str, skip: int) -> Iterator[SourceRow]:
    cells = _csv_cells(lines)
    header = [name.strip() for name in next(cells, [])]
    if not header:
        raise lines.wrong("it is empty, without even a first line that names the columns")
    if error := _not_one(column, header):
        raise lines.wrong("; ".join(filter(None, (_no_utf8(",".join(header)), error))))
    place = header.index(column)
    for row in islice(cells, skip, None):
        if place < len(row):
            yield lines.row(row[place])
        else:
            yield lines.row("", f"it has {len(row)} of {len(header)} columns, and {column!r} is not among them")


def _csv_cells(lines: _Lines) -> Iterator[list[str]]:
    try:
        # A NUL is more than the reader of Python 3.10 can read.
        for cells in csv.reader(line.replace("\0", "\N{REPLACEMENT CHARACTER}") for line in lines):
            if lines.ended:
                # The reader gives each row with its last line, unless it waits for the end of a quoted cell.
                lines.number -= cells[-1].removesuffix("\n").count("\n")
                raise lines.wrong("it is no CSV (a quote is opened there and never closed)")
            # An empty line is a row without cells.
            if cells:
                yield cells
    except csv.Error as error:
        # What follows may be the inside of a quoted cell: nobody can tell where the next row begins.
        raise lines.wrong(f"it is no CSV ({error})") from None


def _json_rows(lines: _Lines, column: str, skip: int) -> Iterator[SourceRow]:
    for number, line in enumerate(line for line in lines if line.strip()):
        # Reading the objects takes nearly all of the time.
        if 0 < number < skip:
            continue
        record, error = _json_object(line)
        if not error and column not in record:
            error = _not_one(column, list(record))
        if number == 0 and error:
            raise lines.wrong(error)
        if number >= skip:
            yield lines.row("" if error and record else line.strip() if error else text_of(record[column]), error)


def _json_object(line: str) -> tuple[dict[str, Any], str | None]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {}, f"it is no JSON ({error})"
    if not isinstance(record, dict):
        return {}, f"it is a JSON {type(record).__name__}, not an object"
    return record, None


def _parquet_rows(path: ObjectStoragePath, column: str, skip: int) -> Iterator[SourceRow]:
    with _opened_parquet(path, column) as file:
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if rows <= skip:
                skip -= rows
                continue
            for batch in file.iter_batches(_BATCH, row_groups=[group], columns=[column], use_threads=False):
                values = batch.column(0)
                for value in values[skip:].to_pylist() if skip < len(values) else ():
                    yield SourceRow(text_of(value))
                skip = max(0, skip - len(values))


@contextmanager
def _opened_parquet(path: ObjectStoragePath, column: str) -> Iterator[Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise PermanentError(
            "Reading Parquet needs pyarrow, which is not installed here: "
            "install airflow-provider-mediaops[parquet], or give the list as .txt, .csv or .jsonl."
        ) from None
    with _naming_path(path), path.fs.open(path.path, "rb") as opened:
        try:
            with pq.ParquetFile(opened, pre_buffer=False) as file:
                if error := _not_one(column, file.schema_arrow.names):
                    raise InvalidSourceError(f"source {path}: {error}.")
                yield file
        except pa.ArrowException as error:
            raise InvalidSourceError(f"source {path}: it is no whole Parquet file ({error}).") from None


def _not_one(column: str, names: Sequence[str]) -> str | None:
    """Say what is wrong where there is no column of the name, or more than one."""
    if column in names:
        number = names.count(column)
        return f"there are {number} columns {column!r}; give them different names" if number > 1 else None
    shown = ", ".join(map(_start_of, names[:_NAMED])) or "nothing"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"there is no column {column!r}, but {shown}{more}"


def _start_of(text: str) -> str:
    text = text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
    return f"'{_readable(text)}'" if _no_utf8(text) else repr(text)


@contextmanager
def _naming_path(path: ObjectStoragePath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        gone = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        what = f"source {path} cannot be read: {error.strerror or gone}"
        raise with_message(error, what) from error


_Reader = Callable[[_Lines, str, int], Iterator[SourceRow]]
_READERS: dict[str, _Reader] = {".txt": _plain_rows, ".csv": _csv_rows, ".jsonl": _json_rows}


def _suffix_of(source: str | ObjectStoragePath) -> str:
    name = str(source).lower()
    if name.endswith(_PARQUET):
        return _PARQUET
    for suffix in _READERS:
        if name.removesuffix(_GZIP).endswith(suffix):
            return suffix
    raise InvalidSourceError(
        f"source {str(source)!r} ends in none of {', '.join(_READERS)} (each also with {_GZIP}) and {_PARQUET}."
    )
