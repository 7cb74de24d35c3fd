"""Read files of text on any storage, in any encoding, plain or compressed with gzip: CSV, JSON, and one text a line."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import check_depth, text_of
from airflow_provider_mediaops.storage.source_columns import clean, no_column
from airflow_provider_mediaops.storage.source_file import MAX_DATASET_ROW_BYTES, SourceRow

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_file import SourceFile

GZIP = ".gz"
#: The encoding of a line that is not UTF-8, if none is given: that of Windows in Western Europe and America.
FALLBACK = "cp1252"
# The part of a file that is searched for signs of another format, and the part that is read at once.
_HEAD_BYTES, _BLOCK_BYTES = 4096, 256 * 1024
# Lines end in LF, in CR and LF, or on old Macs in CR.
_LINE_ENDS = ("\n", "\r")
# A kilobyte of gzip may hold a million empty lines. This many may follow each other.
_BLANK_LINES = 1_000_000
# The marks of encodings whose characters have two bytes or four.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NO_TEXT = {
    b"\x1f\x8b": "not text but compressed with gzip, though its name does not end in .gz",
    b"par1": "not text but Parquet, though its name does not end in .parquet",
    b"pk\x03\x04": "not text but a ZIP archive, or a workbook whose name does not end in .xlsx",
    b"\xd0\xcf\x11\xe0": "not text but a workbook of Excel in its old form",
    b"%pdf-": "not text but a PDF",
    b"<!doctype html": "a web page; perhaps that of a login",
    b"<html": "a web page; perhaps that of a login",
}

# In the order of their use; of two that fit, the first counts.
_DELIMITERS = (",", ";", "\t", "|")
# Excel writes this line for itself, before the header.
_SEP_LINE = re.compile(r'\s*"?sep=(.)"?\s*', re.IGNORECASE)
# The part of a file by which its form, the delimiter and the escape are recognised.
_HEAD_LINES, _HEAD_CHARACTERS = 1_000, 256 * 1024
# Spark escapes a quote by a backslash, where the standard (RFC 4180) doubles it.
_SPARK: dict[str, Any] = {"escapechar": "\\", "doublequote": False}
_LONGEST_CELL = 131_072

_GAP = re.compile(r"[\s,\x1e]*")


def _number(digits: str) -> float | str:
    """Return a number; one that is too large stays the text that it is, which is no ISBN."""
    number = float(digits)
    return number if math.isfinite(number) else digits


# JSON has neither NaN nor infinity, though Python and pandas write them.
_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=lambda _: None)


def read_lines(file: SourceFile) -> Iterator[str]:
    """
    Yield the lines of a file. Their encoding is noted in it, and so is the number of the last one.

    Without an encoding, a file is UTF-16 or UTF-32 if it begins with the mark of one; otherwise each line is UTF-8, or
    cp1252 if it is none. A list is compressed with gzip if its suffix says so, a dataset never.
    """
    longest = file.max_row_bytes
    for piece in _pieces(file):
        if len(piece) > longest and not piece.endswith(_LINE_ENDS):
            raise file.too_long("line")
        yield piece


def _pieces(file: SourceFile) -> Generator[str, None, None]:
    """Yield the lines of a file, each that is longer than a row can be in several pieces."""
    number, blanks, begins = 0, 0, True
    with _opened_text(file) as text:
        while piece := text.readline(file.max_row_bytes + 1):
            number += begins
            file.line, begins = number, piece.endswith(_LINE_ENDS)
            if text.errors == "surrogateescape" and not piece.isascii():
                piece = _decoded(file, piece)
            if number == 1:
                piece = piece.removeprefix("\ufeff")
                if "\0" in piece[:_HEAD_BYTES]:
                    raise file.error("it is not text (it holds NUL bytes)")
            # Bytes have other blanks than texts, such as no-break spaces.
            blanks = blanks + 1 if piece.isspace() else 0
            if blanks > _BLANK_LINES:
                raise file.error(f"{blanks:,} lines up to here are empty, so it is not a list")
            yield piece


@contextmanager
def _opened_text(file: SourceFile) -> Iterator[io.TextIOWrapper]:
    """Open a file as text, in which bytes that are not UTF-8 are surrogates if no encoding is known."""
    given = file.options.encoding
    file.line = 0
    with file.opened() as opened:
        is_packed = file.path.lower().endswith(GZIP) and not file.is_dataset
        # A store may fetch as much as is asked for, and no more.
        blocks = io.BufferedReader(opened, _BLOCK_BYTES)
        content: Any = gzip.GzipFile(fileobj=blocks) if is_packed else blocks
        try:
            head = content.read(_HEAD_BYTES)
            content.seek(0)
            start = head.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
            if kind := next((kind for sign, kind in _NO_TEXT.items() if start.startswith(sign)), None):
                raise file.error(f"it is {kind}", 1)
            if not file.is_dataset and not given:
                given = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
            file.encoding = given or "utf-8"
            # One odd row of a dataset is no reason to ask for all books anew.
            errors = "strict" if given else "replace" if file.is_dataset else "surrogateescape"
            yield io.TextIOWrapper(content, file.encoding, errors, newline="")
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise file.error(f"it is not a whole gzip file ({error})") from None
        except UnicodeError as error:
            # A block of lines is decoded when the one before it was read. UTF-16 without its mark has none.
            before = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
            advice = "give the encoding in which it was written, or leave encoding out to have it recognised"
            problem = f"it is not text in {file.encoding}; {advice}"
            raise file.error(problem, file.line + before.count(b"\n") + 1) from None


def _decoded(file: SourceFile, line: str) -> str:
    """Return a line that is perhaps not UTF-8."""
    try:
        line.encode()
    except UnicodeEncodeError:
        file.fallback_line = file.fallback_line or file.line
        file.encoding = FALLBACK
        return line.encode("utf-8", "surrogateescape").decode(FALLBACK, "replace")
    return line


def _head_of(file: SourceFile) -> tuple[list[str], bool]:
    """Return the first lines that are not blank, and whether there may be more."""
    head: list[str] = []
    size = 0
    with closing(_pieces(file)) as pieces:
        for piece in filter(str.strip, pieces):
            head.append(piece)
            size += len(piece)
            if size > _HEAD_CHARACTERS or len(head) == _HEAD_LINES:
                return head, True
    return head, False


def read_text(file: SourceFile) -> Iterator[SourceRow]:
    """Read a table, whose first line names its columns; a ``.txt`` is one only if that line names one that is read."""
    table, is_cut = _head_of(file)
    sep = _SEP_LINE.fullmatch(table[0]) if table else None
    if sep:
        del table[0]
    given = file.options.delimiter or (sep[1] if sep else None)
    fits = {mark: (file.has_column(header := _header(table, mark)), len(header)) for mark in _DELIMITERS}
    lines = read_lines(file)
    if file.format == "txt" and not given and not any(has_column for has_column, _ in fits.values()):
        yield from (SourceRow(text, line=file.line) for line in lines if (text := line.strip()))
        return
    file.format = "csv"
    # That by which the header names a column that is looked for; of several, the one of most cells.
    file.delimiter = given or max(_DELIMITERS, key=fits.__getitem__)
    dialect: dict[str, Any] = {"delimiter": file.delimiter}
    has_backslash = any('\\"' in line for line in table)
    if has_backslash and not _is_table(table, dialect, is_cut) and _is_table(table, dialect | _SPARK, is_cut):
        dialect |= _SPARK
    if sep:
        next(filter(_SEP_LINE.fullmatch, lines))
    yield from _rows_of_cells(file, _cells(file, lines, dialect))


def _header(table: Sequence[str], delimiter: str) -> list[str]:
    with suppress(csv.Error):  # The reader of the table says what is wrong.
        return [name.strip() for name in next(csv.reader(table, delimiter=delimiter), [])]
    return []


def _is_table(head: Sequence[str], dialect: dict[str, Any], is_cut: bool) -> bool:  # noqa: FBT001
    """Return whether rows have as many cells each, and every quote that ends is at the end of its cell."""
    left = iter(head)
    widths: set[int] = set()
    try:
        for row in csv.reader(left, strict=True, **dialect):
            widths.add(len(row))
    except csv.Error:
        # A row that is cut is not an error.
        if not is_cut or next(left, None) is not None:
            return False
    return len(widths - {0}) == 1


def _rows_of_cells(file: SourceFile, rows: Iterator[list[str]]) -> Iterator[SourceRow]:
    header = next(filter(any, ([name.strip() for name in cells] for cells in rows)), [])
    if not header:
        raise file.error("it is empty, without even a first line that names the columns")
    chosen, width = file.choose(header), len(header)
    first, least = chosen.read[0], min(chosen.read)
    for cells in rows:
        row = chosen.row(cells, file.line)
        if len(cells) > width and any(cells[width:]):
            # Any cell may be that of another column.
            row.text = cells[first]
            row.columns = dict.fromkeys(row.columns) if row.columns else None
            what = f"it has {len(cells)} cells, but the header names {width} columns"
            row.reason = f"{what}, so which is which is not known"
        elif len(cells) <= least:
            row.reason = f"it has {len(cells)} of {width} columns, and {header[first]!r} is not among them"
        yield row


def _cells(file: SourceFile, lines: Iterator[str], dialect: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the cells of each row that has any; an empty line is a row without cells."""
    # The characters since the last row was complete, and whether all lines were read.
    size, ended = 0, False

    def measured() -> Iterator[str]:
        nonlocal size, ended
        longest = file.max_row_bytes
        for line in lines:
            size += len(line)
            if size > longest:
                raise file.too_long("row")
            # The reader of Python 3.10 refuses NUL.
            yield line.replace("\0", "\N{REPLACEMENT CHARACTER}")
        ended = True

    # The number holds for the whole process, and a record of a dataset may be as long as its reply.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_DATASET_ROW_BYTES))
    try:
        for cells in csv.reader(measured(), **dialect):
            if ended:
                # The reader returns each row at its last line, unless it waits for the end of a quoted cell.
                start = file.line - cells[-1].removesuffix("\n").count("\n")
                raise file.error("it is not valid CSV (a quote is opened there and never closed)", start)
            if size > _LONGEST_CELL and not file.is_dataset and max(map(len, cells)) > _LONGEST_CELL:
                # The rest may be the inside of a quoted cell, so it is not known where the next row begins.
                problem = f"a cell has more than {_LONGEST_CELL:,} characters; perhaps a quote is not closed before"
                raise file.error(problem)
            if cells:
                yield cells
            size = 0
    except csv.Error as error:
        raise file.error(f"it is not valid CSV ({error})") from None


def read_json(file: SourceFile) -> Iterator[SourceRow]:
    """Read rows of JSON: an object a line, one array of all, or values that extend over several lines."""
    head, _ = _head_of(file)
    if not head:
        return
    records = _Records(file)
    if _extends_over_lines(head[0]):
        file.format = "json"
        for value in _values(file):
            yield from records.rows(value)
    else:
        file.format = "jsonl"
        for line in filter(str.strip, read_lines(file)):
            try:
                value = _DECODER.decode(line)
                check_depth(value, line.count("{") + line.count("["))
            except (ValueError, RecursionError) as error:
                yield records.odd_row(line.strip(), f"it is not valid JSON ({getattr(error, 'msg', error)})")
            else:
                yield from records.rows(value)
    records.check_columns()


def _extends_over_lines(first: str) -> bool:
    start = first.lstrip()
    if not start.startswith("{"):
        return start.startswith("[")
    try:
        _DECODER.decode(first)
    except ValueError:
        return True
    except RecursionError:
        pass  # Its depth is the error of this line alone.
    return False


def _values(file: SourceFile) -> Iterator[Any]:
    """Yield the values of a text, or those of the arrays in it, in bounded memory; the line of each is noted."""
    pieces = _pieces(file)
    text, at, line, depth = "", 0, 1, 0
    while True:
        gap = _GAP.match(text, at)
        start, at = at, gap.end() if gap else at
        line += text.count("\n", start, at)
        if text.startswith("[]"[depth], at):
            depth, at = 1 - depth, at + 1
            continue
        problem = None
        try:
            value, end = _DECODER.raw_decode(text, at)
            check_depth(value, text.count("{", at, end) + text.count("[", at, end))
        except json.JSONDecodeError as error:
            problem, end = error.msg, len(text)
        except (ValueError, RecursionError) as error:
            why = "it is nested too deep" if isinstance(error, RecursionError) else error
            raise file.error(f"it is not valid JSON ({why})", line) from None
        # What is at the end of what was read may go on. To read twice as much each time takes linear time.
        if end == len(text) and (more := _some(pieces, len(text) - at)):
            text, at = text[at:] + more, 0
            if len(text) > file.max_row_bytes * 2:
                raise file.too_long("value")
        elif not problem:
            file.line = line
            yield value
            line += text.count("\n", at, end)
            at = end
        elif depth or at < len(text):
            problem = problem if at < len(text) else "its end is missing"
            raise file.error(f"it is not valid JSON ({problem})", line)
        else:
            return


def _some(pieces: Iterator[str], size: int) -> str:
    """Take pieces of a text until they are longer than a size."""
    taken: list[str] = []
    while size >= 0 and (piece := next(pieces, "")):
        taken.append(piece)
        size -= len(piece)
    return "".join(taken)


class _Records:
    """Makes rows of the values of JSON, which may be texts, or records of which each may lack any column."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        # Most records have the same names. A file in which each has others would fill the memory.
        self._choose = lru_cache(1_000)(partial(file.choose, may_lack=True))
        self._has_column = lru_cache(1_000)(file.has_column)
        # The line and the names of the first record.
        self._first: tuple[int, tuple[str, ...]] | None = None

    def rows(self, value: Any) -> Iterator[SourceRow]:
        """Yield the row of a value, or those of the list that it holds."""
        lists: list[list[Any]] = []
        if isinstance(value, dict) and not self._file.is_dataset and not self._has_column(tuple(value)):
            # Such as {"items": [{"isbn": …}, …]}.
            lists = [each for each in value.values() if isinstance(each, list) and any(map(self._is_record, each))]
        yield from map(self._row, lists[0] if len(lists) == 1 else [value])

    def _is_record(self, value: Any) -> bool:
        return isinstance(value, dict) and self._has_column(tuple(value))

    def _row(self, value: Any) -> SourceRow:
        if isinstance(value, list) and len(value) == 1:
            # A row of a query with one column.
            value = value[0]
        if not isinstance(value, dict):
            reason = f"it has {len(value)} values without names" if isinstance(value, list) else None
            return self.odd_row(text_of(value), reason)
        names = tuple(value)
        self._first = self._first or (self._file.line, names)
        row = self._choose(names).row(list(value.values()), self._file.line)
        row.columns = row.columns or self._no_columns()
        return row

    def odd_row(self, text: str, reason: str | None) -> SourceRow:
        """Return a row that is no record."""
        return SourceRow(text, reason, self._no_columns(), self._file.line)

    def _no_columns(self) -> dict[str, Any] | None:
        # In a file of records, a row without any that is kept has an empty object of them.
        return {} if self._file.options.keep and self._first else None

    def check_columns(self) -> None:
        """Raise if there were records, and none had a column that is read, or one that the user has named."""
        file, keep = self._file, self._file.options.keep
        if self._first is None:
            return
        line, names = self._first
        if not file.columns:
            advice = "if the rows are within another value, write them by themselves: an array, or an object a line"
            raise file.error(f"{no_column(file.options.columns, names)}; {advice}", line)
        if lacking := [name for name in map(clean, () if isinstance(keep, bool) else keep) if name not in file.kept]:
            raise file.error(no_column(lacking[:1], names), line)
