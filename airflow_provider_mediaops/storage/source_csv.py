"""Read tables of text: CSV with any delimiter, as spreadsheets, databases and Spark write it; and one text a line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.source_file import DATASET, LIST, SourceRow
from airflow_provider_mediaops.storage.source_lines import read_lines

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_file import SourceFile

# In the order of their use; of two that fit, the first counts.
_DELIMITERS = (",", ";", "\t", "|")
# Excel writes this line for itself, before the header.
_SEP_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
# The part of a file by which the delimiter and the escape are recognised.
_HEAD_CHARACTERS = 256 * 1024
_HEAD_LINES = 1_000
# Spark escapes a quote by a backslash, where the standard (RFC 4180) doubles it.
_SPARK: dict[str, Any] = {"escapechar": "\\", "doublequote": False}
_LONGEST_CELL = 131_072


def read_text_lines(file: SourceFile) -> Iterator[SourceRow]:
    """Read a file with one text a line; or a table, if its first line names a column that is looked for."""
    head, others = _begun(file)
    first = next(filter(str.strip, head), "").strip()
    if (
        file.options.delimiter
        or _SEP_LINE.fullmatch(first)
        or any(file.has_column(_header([first], mark)) for mark in _DELIMITERS)
    ):
        yield from _read_table(file, head, others)
        return
    for number, line in enumerate(chain(head, others), 1):
        if stripped := line.strip():
            yield SourceRow(stripped, line=number)


def read_csv(file: SourceFile) -> Iterator[SourceRow]:
    """Read a table of text, whose first line names its columns."""
    yield from _read_table(file, *_begun(file))


def _begun(file: SourceFile) -> tuple[list[str], Iterator[str]]:
    """Return the first lines of a file, by which its form is recognised, and the others."""
    head: list[str] = []
    others, size = read_lines(file), 0
    while size < _HEAD_CHARACTERS and len(head) < _HEAD_LINES and (line := next(others, None)) is not None:
        head.append(line)
        size += len(line)
    return head, others


def _read_table(file: SourceFile, head: list[str], others: Iterator[str]) -> Iterator[SourceRow]:
    delimiter = file.options.delimiter
    skipped = next((at for at, line in enumerate(head) if line.strip()), len(head))
    if head[skipped:] and (sep := _SEP_LINE.fullmatch(head[skipped])):
        skipped += 1
        delimiter = delimiter or sep[1]
    is_whole = len(head) < _HEAD_LINES and sum(map(len, head)) < _HEAD_CHARACTERS
    head = head[skipped:]
    file.format, file.delimiter = "csv", delimiter or _delimiter_of(file, head)
    dialect = {"delimiter": file.delimiter, **_escape_of(head, file.delimiter, is_whole=is_whole)}
    rows = _cells_of(file, enumerate(chain(head, others), skipped + 1), dialect)
    header = [name.strip() for name in next(rows, [])]
    if not header:
        raise file.error("it is empty, without even a first line that names the columns")
    chosen, width = file.choose(header), len(header)
    first = chosen.read[0]
    for row in rows:
        cells = row if any(row[width:]) else row[:width]
        columns = chosen.columns(cells)
        found = chosen.text(cells)
        reason = None
        if len(cells) > width:
            reason = f"it has {len(cells)} cells, but the header names {width} columns, so which is which is not known"
            # Any cell may be that of another column.
            found, columns = cells[first], dict.fromkeys(columns) if columns else None
        elif found is None:
            reason = f"it has {len(cells)} of {width} columns, and {header[first]!r} is not among them"
        yield SourceRow(found or "", reason, columns, file.line)


def _cells_of(file: SourceFile, numbered: Iterable[tuple[int, str]], dialect: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the cells of each row that has any; an empty line is a row without cells."""
    lines = _CsvLines(file, numbered)
    # A record of a dataset may be as long as its reply. The number holds for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), DATASET.max_row_bytes))
    try:
        for cells in csv.reader(lines, **dialect):
            if lines.ended:
                # The reader returns each row at its last line, unless it waits for the end of a quoted cell.
                start = file.line - cells[-1].removesuffix("\n").count("\n")
                raise file.error("it is not valid CSV (a quote is opened there and never closed)", start)
            if file.role is LIST and lines.size > _LONGEST_CELL and max(map(len, cells)) > _LONGEST_CELL:
                # The rest may be the inside of a quoted cell, so it is not known where the next row begins.
                problem = f"a cell has more than {_LONGEST_CELL:,} characters; perhaps a quote is not closed before"
                raise file.error(problem)
            if cells:
                yield cells
            lines.size = 0
    except csv.Error as error:
        raise file.error(f"it is not valid CSV ({error})") from None


class _CsvLines:
    """The lines of a table for the reader of the standard library, counted in their file."""

    def __init__(self, file: SourceFile, numbered: Iterable[tuple[int, str]]) -> None:
        self._file, self._numbered = file, numbered
        #: The characters since the last row was complete, and whether all lines were read.
        self.size = 0
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        for number, line in self._numbered:
            self._file.line = number
            self.size += len(line)
            if self.size > self._file.role.max_row_bytes:
                raise self._file.too_long("row")
            # The reader of Python 3.10 refuses NUL.
            yield line.replace("\0", "\N{REPLACEMENT CHARACTER}")
        self.ended = True


def _header(head: Iterable[str], delimiter: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader(iter(head), delimiter=delimiter), [])]
    except csv.Error:
        # The reader of the table says what is wrong.
        return []


def _delimiter_of(file: SourceFile, head: Sequence[str]) -> str:
    """Return the delimiter by which the header names a column that is looked for; of several, the one of most cells."""
    best = (False, 0, ",")
    for mark in _DELIMITERS:
        header = _header(head, mark)
        this = (file.has_column(header), len(header), mark)
        if this[:2] > best[:2]:
            best = this
    return best[2]


def _escape_of(head: list[str], delimiter: str, *, is_whole: bool) -> dict[str, Any]:
    """Return Spark's escape if the first rows are not valid CSV without it, and are with it."""
    if not any('\\"' in line for line in head):
        return {}
    usual, escaped = (_widths(head, {"delimiter": delimiter, **more}, is_whole=is_whole) for more in ({}, _SPARK))
    return _SPARK if len(usual) != 1 and len(escaped) == 1 else {}


def _widths(head: list[str], dialect: dict[str, Any], *, is_whole: bool) -> set[int]:
    """Return the numbers of cells that rows have; none if a quote is followed by anything but the end of its cell."""
    left = iter(head)
    widths: set[int] = set()
    try:
        for row in csv.reader(left, strict=True, **dialect):
            widths |= {len(row)} if row else set()
    except csv.Error:
        # A row that is cut is not an error.
        if is_whole or next(left, None) is not None:
            return set()
    return widths
