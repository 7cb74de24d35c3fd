"""Read one column of a file on any object storage, row by row."""

from __future__ import annotations

import csv
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.files import naming_path, path_of
from airflow_provider_mediaops.storage.object_info import content_tag

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

_GZIP = ".gz"
_PARQUET = ".parquet"
# The part of the first line that is searched for signs of another format, and the part of a file that is read at once.
_HEAD_BYTES = 4096
_BLOCK_BYTES = 256 * 1024
# The compressed bytes that are read at once. After each member the rest is copied, so more would cost more.
_GZIP_BLOCK_BYTES = 8 * 1024
# zlib's code for a gzip header and checksum.
_GZIP_WINDOW = 31
# A longer line would fill the memory, and is not a line of a list.
_MAX_LINE_BYTES = 16 * 1024 * 1024
# A kilobyte of gzip may hold a million empty lines. So a file may have this many, and a few more for each row.
_BLANK_LINES = 1_000_000
_BLANK_LINES_A_ROW = 10
_ROWS_A_BATCH = 1_000
# The number of columns that an error names, and the characters of each name.
_MAX_NAMES, _MAX_NAME_LENGTH = 20, 40


class InvalidSourceError(InvalidArgumentError):
    """The file has another format, is no text, or lacks the column."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """
    One row of a source.

    :param text: the text in the column; empty if it cannot be read.
    :param error: why the row cannot be read, with its line number; None if it can.
    """

    text: str
    error: str | None = None


def check_source(source: str | ObjectStoragePath) -> None:
    """
    Make sure that the path of a file names a known format.

    :param source: the file's path.
    :raises InvalidSourceError: if its suffix is unknown.
    """
    _suffix_of(source)


def read_rows(source: str | ObjectStoragePath, column: str, *, skip: int = 0) -> Iterator[SourceRow]:
    """
    Read one column of a file lazily.

    A ``.txt`` file has one text per line. A ``.csv`` file names its columns in its first line. A ``.jsonl`` file has
    one object per line. Each is UTF-8, and may be compressed with gzip (``.csv.gz``). A ``.parquet`` file is read by
    its row groups. A row that cannot be read is yielded with an error, and does not affect other rows.

    Memory is bounded: a line may have 16 MB. A list may have any number of rows, so the time is that of the
    decompressed size. Empty lines are skipped; a million of them, and ten more for each row, are an error.

    :param source: the file's path.
    :param column: the name of the column or field; ignored for ``.txt``.
    :param skip: how many rows to skip.
    :returns: the rows.
    :raises OSError: if the file is missing or cannot be read; the message names it.
    :raises InvalidSourceError: if it is not such a file or lacks the column; the message says what it is instead.
    :raises PermanentError: for Parquet, if pyarrow is not installed.
    """
    path = path_of(source)
    suffix = _suffix_of(source)
    if suffix == _PARQUET:
        return _parquet_rows(path, column, skip)
    return _READERS[suffix](_Lines(path), column, skip)


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
        with _opened_parquet(path_of(source), column) as file:
            return int(file.metadata.num_rows)
    return sum(1 for _ in read_rows(source, column))


def version_of(source: str | ObjectStoragePath) -> str:
    """
    Return a digest that changes when the file does.

    :param source: the file's path.
    :returns: a digest of its size and its tag or time, as the store reports them.
    :raises OSError: if the file is missing or cannot be reached; the message names it.
    """
    path = path_of(source)
    with _naming_source(path):
        # A triggerer runs for long, and clients of stores cache listings.
        path.fs.invalidate_cache()
        info = path.fs.info(path.path)
    marks = [str(info.get("size")), content_tag(info)]
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()


class _Lines:
    """
    The lines of a file as text, and the number of the last one.

    A byte that is not UTF-8 becomes a lone surrogate, because it matters only in the column that is read.
    """

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        self._blank = 0
        self.number = 0
        #: Whether all lines have been read.
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        with _naming_source(self._path), self._whole_gzip(), self._path.fs.open(self._path.path, "rb") as file:
            packed = self._path.name.lower().endswith(_GZIP)
            for line in self._split(_unzipped(file.read) if packed else iter(lambda: file.read(_BLOCK_BYTES), b"")):
                self.number += 1
                if self.number == 1:
                    self._check_text(line[:_HEAD_BYTES])
                text = line.decode("utf-8-sig" if self.number == 1 else "utf-8", "surrogateescape")
                # The readers strip texts. Bytes have other blanks than texts, such as no-break spaces.
                if text.isspace():
                    self._count_blank()
                yield text
        self.ended = True

    def _count_blank(self) -> None:
        self._blank += 1
        if self._blank > _BLANK_LINES + _BLANK_LINES_A_ROW * (self.number - self._blank):
            raise self.error(f"{self._blank:,} of the lines up to here are empty, so it is no list")

    def _split(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        rest = b""
        for block in blocks:
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield line + b"\n"
            if len(rest) > _MAX_LINE_BYTES:
                raise self.error(f"the next line is longer than {_MAX_LINE_BYTES >> 20} MB, so it is no list")
        if rest:
            yield rest

    @contextmanager
    def _whole_gzip(self) -> Iterator[None]:
        try:
            yield
        except (zlib.error, EOFError) as error:
            raise self.error(f"it is no whole gzip file ({error})") from None

    def _check_text(self, head: bytes) -> None:
        for start, kind in _NO_TEXT.items():
            if head.startswith(start):
                raise self.error(f"it is {kind}")
        if b"\0" in head:
            raise self.error("it is no text (it holds NUL bytes)")
        if b"\r" in head.rstrip(b"\r\n"):
            raise self.error("its lines end in CR alone, as on old Macs; save it with LF, or with CR and LF")

    def error(self, problem: str) -> InvalidSourceError:
        place = f", line {self.number}" if self.number else ""
        return InvalidSourceError(f"source {self._path}{place}: {problem}.")

    def row(self, text: str, error: str | None = None) -> SourceRow:
        """Return a row of the last line."""
        if not text.isascii():
            error, text = error or _no_utf8(text), _readable(text)
        return SourceRow(text, f"Line {self.number}: {error}." if error else None)


def _unzipped(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """
    Decompress a gzip file block by block.

    ``gzip.GzipFile`` reads padding, and the file name in a header, byte by byte: 50 MB take 12 seconds.

    :param read: reads the file.
    :returns: blocks of at most ``_BLOCK_BYTES``.
    :raises zlib.error: if it is damaged.
    :raises EOFError: if its end is missing.
    """
    member = zlib.decompressobj(_GZIP_WINDOW)
    data = read(_GZIP_BLOCK_BYTES)
    if not data:
        return
    while data:
        if member.eof and (data := data.lstrip(b"\0")):
            # Files that are joined are one file with several members. Zeros may follow each.
            member = zlib.decompressobj(_GZIP_WINDOW)
        if data:
            if block := member.decompress(data, _BLOCK_BYTES):
                yield block
            data = member.unused_data if member.eof else member.unconsumed_tail
        data = data or read(_GZIP_BLOCK_BYTES)
    if not member.eof:
        raise EOFError("its end is missing")


def _is_byte(char: str) -> bool:
    # The decoder maps a byte that is not UTF-8 to one of these surrogates.
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
            raise lines.error(error)
        yield lines.row(text)


def _csv_rows(lines: _Lines, column: str, skip: int) -> Iterator[SourceRow]:
    cells = _csv_cells(lines)
    header = [name.strip() for name in next(cells, [])]
    if not header:
        raise lines.error("it is empty, without even a first line that names the columns")
    if error := _column_error(column, header):
        raise lines.error("; ".join(filter(None, (_no_utf8(",".join(header)), error))))
    place = header.index(column)
    for row in islice(cells, skip, None):
        if place < len(row):
            yield lines.row(row[place])
        else:
            yield lines.row("", f"it has {len(row)} of {len(header)} columns, and {column!r} is not among them")


def _csv_cells(lines: _Lines) -> Iterator[list[str]]:
    try:
        # The reader of Python 3.10 refuses NUL.
        for cells in csv.reader(line.replace("\0", "\N{REPLACEMENT CHARACTER}") for line in lines):
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


def _json_rows(lines: _Lines, column: str, skip: int) -> Iterator[SourceRow]:
    for number, line in enumerate(line for line in lines if line.strip()):
        # Reading the objects takes nearly all of the time.
        if 0 < number < skip:
            continue
        record, error = _json_object(line)
        if not error and column not in record:
            error = _column_error(column, list(record))
        if number == 0 and error:
            raise lines.error(error)
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
            for batch in file.iter_batches(_ROWS_A_BATCH, row_groups=[group], columns=[column], use_threads=False):
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
    with _naming_source(path), path.fs.open(path.path, "rb") as opened:
        try:
            with pq.ParquetFile(opened, pre_buffer=False) as file:
                if error := _column_error(column, file.schema_arrow.names):
                    raise InvalidSourceError(f"source {path}: {error}.")
                yield file
        except pa.ArrowException as error:
            raise InvalidSourceError(f"source {path}: it is no whole Parquet file ({error}).") from None


def _column_error(column: str, names: Sequence[str]) -> str | None:
    """Return an error unless exactly one column has the name."""
    if column in names:
        number = names.count(column)
        return f"there are {number} columns {column!r}; give them different names" if number > 1 else None
    shown = ", ".join(map(_start_of, names[:_MAX_NAMES])) or "nothing"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"there is no column {column!r}, but {shown}{more}"


def _start_of(text: str) -> str:
    text = text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 1]}…"
    return f"'{_readable(text)}'" if _no_utf8(text) else repr(text)


def _naming_source(path: ObjectStoragePath) -> AbstractContextManager[None]:
    return naming_path(f"source {path}", "read")


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
