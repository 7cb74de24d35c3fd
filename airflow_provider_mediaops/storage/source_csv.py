"""Read tables of text: CSV with any delimiter, as spreadsheets, databases and Spark write it; and one text a line."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_mediaops.storage.source_file import SourceFile, SourceRow
    from airflow_provider_mediaops.storage.source_lines import SourceLines

# In the order of their use; of two that fit, the first counts.
_DELIMITERS = (",", ";", "\t", "|")
# Excel writes this line for itself, before the header.
_SEP_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
# The part of a file by which the delimiter and the escape are recognised.
_HEAD_CHARACTERS = 256 * 1024
_HEAD_LINES = 1_000
_ESCAPED_QUOTE = '\\"'
# The standard library's bound for a cell, which other code in the process may have raised.
_LONGEST_CELL = 131_072


@dataclass(slots=True)
class _Rows:
    """The rows of a table of text, and the lines of the last one."""

    file: SourceFile
    #: Its first lines, which are read to recognise the dialect; the others; and whether there are no others.
    head: list[str]
    rest: Iterator[str]
    is_whole: bool = True
    #: How cells are separated and escaped.
    dialect: dict[str, Any] = field(default_factory=dict)
    #: The number of lines so far; those since the last row was complete, with their characters; whether all were read.
    number: int = 0
    raw: list[str] = field(default_factory=list)
    size: int = 0
    ended: bool = False

    def __iter__(self) -> Iterator[str]:
        for line in chain(self.head, self.rest):
            self.number += 1
            self.file.line = self.number
            self.size += len(line)
            if self.size > self.file.role.max_row_bytes:
                raise self.file.too_long("row")
            # The reader of Python 3.10 refuses NUL.
            text = line.replace("\0", "\N{REPLACEMENT CHARACTER}")
            self.raw.append(text)
            yield text
        self.ended = True

    def skip(self) -> str:
        """Take a line from the head that belongs to no row."""
        self.number += 1
        return self.head.pop(0)

    def cells(self) -> Iterator[list[str]]:
        """Yield the cells of each row that has any."""
        file = self.file
        if not file.role.is_list:
            # A record may be as long as its reply. The number holds for the whole process.
            csv.field_size_limit(max(csv.field_size_limit(), file.role.max_row_bytes))
        try:
            for cells in csv.reader(self, **self.dialect):
                if self.ended:
                    # The reader returns each row at its last line, unless it waits for the end of a quoted cell.
                    start = self.number - cells[-1].removesuffix("\n").count("\n")
                    raise file.error("it is not valid CSV (a quote is opened there and never closed)", start)
                if self.size > _LONGEST_CELL and file.role.is_list and max(map(len, cells)) > _LONGEST_CELL:
                    problem = f"a cell has more than {_LONGEST_CELL:,} characters; perhaps a quote is not closed before"
                    raise file.error(problem)
                # An empty line is a row without cells.
                if cells:
                    yield cells
                self.size = 0
                self.raw.clear()
        except csv.Error as error:
            # The rest may be the inside of a quoted cell, so it is not known where the next row begins.
            if "field larger" in str(error):
                error = csv.Error(f"a cell has more than {_LONGEST_CELL:,} characters")
            raise file.error(f"it is not valid CSV ({error})") from None


def _opened(lines: SourceLines) -> _Rows:
    rows = _Rows(lines.file, [], iter(lines))
    size = 0
    for line in rows.rest:
        rows.head.append(line)
        size += len(line)
        if size >= _HEAD_CHARACTERS or len(rows.head) >= _HEAD_LINES:
            rows.is_whole = False
            break
    return rows


def read_text_lines(lines: SourceLines) -> Iterator[SourceRow]:
    """Read a file with one text a line; or a table, if its first line names a column that is looked for."""
    rows, file = _opened(lines), lines.file
    first = next(filter(str.strip, rows.head), "").strip()
    if (
        file.options.delimiter
        or _SEP_LINE.fullmatch(first)
        or any(file.has_column(_header([first], mark)) for mark in _DELIMITERS)
    ):
        yield from _table(rows)
        return
    for number, line in enumerate(chain(rows.head, rows.rest), 1):
        if text := line.strip():
            yield file.row(text, line=number)


def read_csv(lines: SourceLines) -> Iterator[SourceRow]:
    """Read a table of text, whose first line names its columns."""
    yield from _table(_opened(lines))


def _table(rows: _Rows) -> Iterator[SourceRow]:
    file = rows.file
    while rows.head and not rows.head[0].strip():
        rows.skip()
    delimiter = file.options.delimiter
    if rows.head and (sep := _SEP_LINE.fullmatch(rows.head[0])):
        rows.skip()
        delimiter = delimiter or sep[1]
    delimiter = delimiter or _delimiter_of(rows)
    rows.dialect = {"delimiter": delimiter, **_escape_of(rows.head, delimiter, is_whole=rows.is_whole)}
    table = rows.cells()
    header = [name.strip() for name in next(table, [])]
    if not header:
        raise file.error("it is empty, without even a first line that names the columns")
    file.format, file.delimiter = "csv", delimiter
    chosen, width = file.choose(header), len(header)
    first = chosen.read[0]
    for row in table:
        cells, problem = (row, None) if len(row) <= width else _fitted(rows, row, width)
        columns = chosen.columns(cells)
        if problem:
            # Any cell may be that of another column.
            yield file.row(cells[first], problem, dict.fromkeys(columns) if columns else None)
        elif (text := chosen.text(cells)) is not None:
            yield file.row(text, None, columns)
        else:
            problem = f"it has {len(cells)} of {width} columns, and {header[first]!r} is not among them"
            yield file.row("", problem, columns)


def _fitted(rows: _Rows, cells: list[str], width: int) -> tuple[list[str], str | None]:
    """Return the cells of a row that is wider than the header, or an error: any of them may be that of another one."""
    if not any(cells[width:]):
        return cells[:width], None
    if any(_ESCAPED_QUOTE in line for line in rows.raw) and "escapechar" not in rows.dialect:
        escaped = list(csv.reader(rows.raw, **{**rows.dialect, **_SPARK}))
        if len(escaped) == 1 and len(escaped[0]) == width:
            return escaped[0], None
    return cells, f"it has {len(cells)} cells, but the header names {width} columns, so which is which is not known"


def _header(head: Iterable[str], delimiter: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader(iter(head), delimiter=delimiter), [])]
    except csv.Error:
        # The reader of the table says what is wrong.
        return []


def _delimiter_of(rows: _Rows) -> str:
    """Return the delimiter by which the header names a column that is looked for; of several, the one of most cells."""
    best = (False, 0, ",")
    for mark in _DELIMITERS:
        header = _header(rows.head, mark)
        this = (rows.file.has_column(header), len(header), mark)
        if this[:2] > best[:2]:
            best = this
    return best[2]


# Spark escapes a quote by a backslash, where the standard (RFC 4180) doubles it.
_SPARK: dict[str, Any] = {"escapechar": "\\", "doublequote": False}


def _escape_of(head: list[str], delimiter: str, *, is_whole: bool) -> dict[str, Any]:
    """Return Spark's escape if the first rows are not valid CSV without it, and are with it."""
    if not any(_ESCAPED_QUOTE in line for line in head):
        return {}
    usual, escaped = (_widths(head, {"delimiter": delimiter, **more}, is_whole=is_whole) for more in ({}, _SPARK))
    return _SPARK if len(usual) != 1 and len(escaped) == 1 else {}


def _widths(lines: list[str], dialect: dict[str, Any], *, is_whole: bool) -> set[int]:
    """Return the numbers of cells that rows have; none if a quote is followed by anything but the end of its cell."""
    left = iter(lines)
    widths: list[int] = []
    try:
        for row in csv.reader(left, strict=True, **dialect):
            widths += [len(row)] if row else []
    except csv.Error:
        # A row that is cut is not an error.
        if is_whole or next(left, None) is not None:
            return set()
    return set(widths if is_whole else widths[:-1])
