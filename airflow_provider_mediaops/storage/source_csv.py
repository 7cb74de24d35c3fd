"""Read tables of text: CSV with any delimiter, as spreadsheets, databases and Spark write it; and one text a line."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.source_columns import (
    check_number,
    find_columns,
    is_missing,
    left_out,
    no_column,
    places_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_provider_mediaops.storage.source_facts import FileFacts, ReadOptions
    from airflow_provider_mediaops.storage.source_lines import SourceLines, SourceRow

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
_EMPTY = "it is empty, without even a first line that names the columns"


@dataclass(slots=True)
class _Rows:
    """
    The rows of a table of text, and the lines of the last one.

    :param lines: the file.
    :param head: its first lines, which were read to recognise the dialect.
    :param rest: the others.
    :param is_whole: whether there are no others.
    :param dialect: how cells are separated and escaped.
    :param number: the number of the last line of a row.
    :param raw: the lines since the last row was complete.
    :param size: their characters.
    :param ended: whether all lines were read.
    """

    lines: SourceLines
    head: list[str]
    rest: Iterator[str]
    is_whole: bool = True
    dialect: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    raw: list[str] = field(default_factory=list)
    size: int = 0
    ended: bool = False

    def __iter__(self) -> Iterator[str]:
        limit = self.lines.role.max_row_bytes
        for line in chain(self.head, self.rest):
            self.number += 1
            self.size += len(line)
            if self.size > limit:
                raise self.lines.too_long("row")
            # The reader of Python 3.10 refuses NUL.
            text = line.replace("\0", "\N{REPLACEMENT CHARACTER}")
            self.raw.append(text)
            yield text
        self.ended = True

    def cells(self) -> Iterator[list[str]]:
        """Yield the cells of each row that has any."""
        lines = self.lines
        if not lines.role.is_list:
            # A record may be as long as its reply. The number holds for the whole process.
            csv.field_size_limit(max(csv.field_size_limit(), lines.role.max_row_bytes))
        try:
            for cells in csv.reader(self, **self.dialect):
                if self.ended:
                    # The reader returns each row at its last line, unless it waits for the end of a quoted cell.
                    start = self.number - cells[-1].removesuffix("\n").count("\n")
                    raise lines.error("it is no CSV (a quote is opened there and never closed)", start)
                if self.size > _LONGEST_CELL and lines.role.is_list and max(map(len, cells)) > _LONGEST_CELL:
                    problem = f"a cell has more than {_LONGEST_CELL:,} characters; perhaps a quote is not closed before"
                    raise lines.error(problem, self.number)
                # An empty line is a row without cells.
                if cells:
                    yield cells
                self.size = 0
                self.raw.clear()
        except csv.Error as error:
            # The rest may be the inside of a quoted cell, so it is not known where the next row begins.
            if "field larger" in str(error):
                error = csv.Error(f"a cell has more than {_LONGEST_CELL:,} characters")
            raise lines.error(f"it is no CSV ({error})", self.number) from None


def _opened(lines: SourceLines) -> _Rows:
    head: list[str] = []
    rest = iter(lines)
    size = 0
    for line in rest:
        head.append(line)
        size += len(line)
        if size >= _HEAD_CHARACTERS or len(head) >= _HEAD_LINES:
            return _Rows(lines, head, rest, is_whole=False)
    return _Rows(lines, head, rest)


def read_text_lines(lines: SourceLines, options: ReadOptions, facts: FileFacts) -> Iterator[SourceRow]:
    """Read a file with one text a line; or a table, if its first line names a column that is looked for."""
    rows = _opened(lines)
    first = next(filter(str.strip, rows.head), "").strip()
    if (
        options.delimiter
        or _SEP_LINE.fullmatch(first)
        or any(_places(_header([first], mark), options) for mark in _DELIMITERS)
    ):
        yield from _table(rows, options, facts)
        return
    for number, line in enumerate(chain(rows.head, rows.rest), 1):
        if text := line.strip():
            yield lines.row(text, line=number)


def read_csv(lines: SourceLines, options: ReadOptions, facts: FileFacts) -> Iterator[SourceRow]:
    """Read a table of text, whose first line names its columns."""
    yield from _table(_opened(lines), options, facts)


def csv_names(lines: SourceLines) -> list[str]:
    """Return the names of the columns of a dataset in CSV."""
    if header := next(_opened(lines).cells(), []):
        return [name.strip() for name in header]
    raise lines.error(_EMPTY)


def _table(rows: _Rows, options: ReadOptions, facts: FileFacts) -> Iterator[SourceRow]:
    lines = rows.lines
    while rows.head and not rows.head[0].strip():
        rows.head.pop(0)
        rows.number += 1
    delimiter = options.delimiter
    if rows.head and (sep := _SEP_LINE.fullmatch(rows.head[0])):
        delimiter = delimiter or sep[1]
        rows.head.pop(0)
        rows.number += 1
    delimiter = delimiter or _delimiter_of(rows.head, options)
    rows.dialect = {"delimiter": delimiter, **_escape_of(rows.head, delimiter, is_whole=rows.is_whole)}
    table = rows.cells()
    header = [name.strip() for name in next(table, [])]
    if not header:
        raise lines.error(_EMPTY)
    try:
        places = find_columns(options.columns, header)
        if not places:
            raise lines.error(no_column(options.columns, header), rows.number)
        kept = places_of(header, left_out(options.columns, header, places), options.keep)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise lines.error(str(error), rows.number) from None
    facts.format, facts.delimiter, facts.columns = "csv", delimiter, [header[place] for place in places]
    facts.kept = dict.fromkeys((name for _, name in kept), "str")
    facts.too_many = check_number(facts.kept)
    yield from _rows_of(rows, table, header, places, kept)


def _rows_of(
    rows: _Rows,
    table: Iterator[list[str]],
    header: list[str],
    places: list[int],
    kept: list[tuple[int, str]],
) -> Iterator[SourceRow]:
    lines, width, first = rows.lines, len(header), places[0]
    only = len(places) == 1
    for row in table:
        cells, error = row, None
        if len(cells) > width:
            cells, error = _fitted(rows, row, width)
        columns = {name: cells[at] if at < len(cells) else None for at, name in kept} if kept else None
        if error:
            # Any cell may be that of another column.
            empty = dict.fromkeys(columns) if columns else None
            yield lines.row(cells[first] if first < len(cells) else "", error, empty, rows.number)
        elif only and first < len(cells):
            yield lines.row(cells[first], None, columns, rows.number)
        elif text := next((cells[at] for at in places if at < len(cells) and not is_missing(cells[at])), None):
            yield lines.row(text, None, columns, rows.number)
        elif present := [cells[at] for at in places if at < len(cells)]:
            yield lines.row(present[0], None, columns, rows.number)
        else:
            problem = f"it has {len(cells)} of {width} columns, and {header[first]!r} is not among them"
            yield lines.row("", problem, columns, rows.number)


def _fitted(rows: _Rows, cells: list[str], width: int) -> tuple[list[str], str | None]:
    """Return the cells of a row that is wider than the header, or an error: any of them may be that of another one."""
    if not any(cells[width:]):
        return cells[:width], None
    if any(_ESCAPED_QUOTE in line for line in rows.raw) and "escapechar" not in rows.dialect:
        escaped = list(csv.reader(rows.raw, **{**rows.dialect, **_SPARK}))
        if len(escaped) == 1 and len(escaped[0]) == width:
            return escaped[0], None
    return cells, f"it has {len(cells)} cells, but the header names {width} columns, so which is which is not known"


def _places(header: Sequence[str], options: ReadOptions) -> list[int]:
    try:
        return find_columns(options.columns, header)
    except ValueError:
        # There are several, which the reader of the table says.
        return [0]


def _header(head: Iterable[str], delimiter: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader(iter(head), delimiter=delimiter), [])]
    except csv.Error:
        # The reader of the table says what is wrong.
        return []


def _delimiter_of(head: list[str], options: ReadOptions) -> str:
    """Return the delimiter by which the header names a column that is looked for; of several, the one of most cells."""
    best = (False, 0, ",")
    for mark in _DELIMITERS:
        header = _header(head, mark)
        this = (bool(_places(header, options)), len(header), mark)
        if this[:2] > best[:2]:
            best = this
    return best[2]


# Spark escapes a quote by a backslash, where the standard (RFC 4180) doubles it.
_SPARK: dict[str, Any] = {"escapechar": "\\", "doublequote": False}


def _escape_of(head: list[str], delimiter: str, *, is_whole: bool) -> dict[str, Any]:
    """Return Spark's escape if the first rows are no CSV without it, and are with it."""
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
        # A row that is cut is no error.
        if is_whole or next(left, None) is not None:
            return set()
    return set(widths if is_whole else widths[:-1])
