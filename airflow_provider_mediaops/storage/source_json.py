"""Read rows of JSON: an object a line, one array of all, or values that extend over several lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import check_depth, text_of
from airflow_provider_mediaops.storage.source_columns import clean, no_column, plain
from airflow_provider_mediaops.storage.source_file import LIST, SourceRow
from airflow_provider_mediaops.storage.source_lines import read_lines

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_file import Chosen, SourceFile

# A file in which each record has other names would fill the memory.
_MAX_CHOSEN = 1_000
_GAP = re.compile(r"[\s,\x1e]*")
# JSON has neither NaN nor infinity, though Python and pandas write them.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def read_json(file: SourceFile) -> Iterator[SourceRow]:
    """Read rows of JSON."""
    file.cut = "},"
    lines = read_lines(file)
    first = next(filter(str.strip, lines), None)
    if first is None:
        return
    rows = _Rows(file)
    if _extends_over_lines(first):
        file.format = "json"
        for value, number in _values(file, first, lines):
            yield from rows.each(value, number)
    else:
        file.format, file.cut = "jsonl", ""
        for line in filter(str.strip, chain((first,), lines)):
            yield from rows.of_line(line)
    rows.end()


def _extends_over_lines(first: str) -> bool:
    start = first.lstrip()
    if not start.startswith("{"):
        return start.startswith("[")
    try:
        _DECODER.decode(first)
    except ValueError:
        return True
    except RecursionError:
        # Its depth is the error of this line alone.
        pass
    return False


class _Rows:
    """Makes rows of values."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._keep = keep = file.options.keep
        # A record may lack any of the columns that the user has named.
        self._empty: dict[str, Any] = {} if isinstance(keep, bool) else dict.fromkeys(map(clean, keep))
        # The columns that are read and kept, by the names of a record: most records have the same.
        self._chosen: dict[tuple[str, ...], Chosen] = {}
        self._first: tuple[int, tuple[str, ...]] | None = None
        # Whether the rows are those of a list within an object, such as {"items": […]}.
        self._is_wrapped = False

    def of_line(self, line: str) -> Iterator[SourceRow]:
        """Yield the row of a line, or those of the list that it holds."""
        try:
            value = _DECODER.decode(line)
            check_depth(value, line.count("{") + line.count("["))
        except (ValueError, RecursionError) as error:
            yield SourceRow(line.strip(), f"it is not valid JSON ({error})", self._nothing(), self._file.line)
            return
        yield from self.each(value, self._file.line)

    def each(self, value: Any, line: int) -> Iterator[SourceRow]:
        """Yield the row of a value, or those of the list that it holds."""
        inner = self._inner(value)
        for each in [value] if inner is None else inner:
            yield self._row(each, line)

    def _inner(self, value: Any) -> list[Any] | None:
        """Return the one list in an object that holds rows; None if the object is a row itself."""
        is_first = self._first is None and self._file.role is LIST
        if not isinstance(value, dict) or not (is_first or self._is_wrapped) or self._has_column(value):
            return None
        lists = [each for each in value.values() if isinstance(each, list) and any(map(self._has_column, each))]
        self._is_wrapped = self._is_wrapped or len(lists) == 1
        return lists[0] if len(lists) == 1 else None

    def _has_column(self, value: Any) -> bool:
        return isinstance(value, dict) and self._file.has_column(list(value))

    def _row(self, value: Any, line: int) -> SourceRow:
        if isinstance(value, list) and len(value) == 1:
            # A row of a query with one column.
            value = value[0]
        if not isinstance(value, dict):
            reason = f"it has {len(value)} values without names" if isinstance(value, list) else None
            return SourceRow(text_of(value), reason, self._nothing(), line)
        names, cells = tuple(value), list(value.values())
        self._first = self._first or (line, names)
        if (chosen := self._chosen.get(names)) is None:
            chosen = self._file.choose(names, line, may_lack=True)
            if len(self._chosen) < _MAX_CHOSEN:
                self._chosen[names] = chosen
        columns = {**self._empty, **{name: plain(cells[at]) for at, name in chosen.kept}} if self._keep else None
        return SourceRow(chosen.text(cells) or "", None, columns, line)

    def _nothing(self) -> dict[str, Any] | None:
        """Return the columns of a row that has none, in a file of rows that have some."""
        return {} if self._keep and self._first else None

    def end(self) -> None:
        """Raise if no record had a column that the user has named."""
        file = self._file
        if self._first is None:
            return
        line, names = self._first
        if not file.columns:
            advice = "if the rows are within another value, write them by themselves: an array, or an object a line"
            raise file.error(f"{no_column(file.options.columns, names)}; {advice}", line)
        absent = [name for name in self._empty if name not in file.kept]
        if absent:
            raise file.error(no_column(absent[:1], names), line)


def _values(file: SourceFile, text: str, more: Iterator[str]) -> Iterator[tuple[Any, int]]:
    """Yield the values of a text, or those of the arrays in it, with their lines, in bounded memory."""
    at, line, depth = 0, file.line, 0
    while True:
        gap = _GAP.match(text, at)
        end = gap.end() if gap else at
        line += text.count("\n", at, end)
        at = end
        if text.startswith("]" if depth else "[", at):
            depth, at = 1 - depth, at + 1
            continue
        problem = "its end is missing"
        try:
            value, end = _DECODER.raw_decode(text, at)
            check_depth(value, text.count("{", at, end) + text.count("[", at, end))
        except RecursionError:
            raise file.error("it is not valid JSON (it is nested too deep)", line) from None
        except json.JSONDecodeError as error:
            problem = str(error) if at < len(text) else problem
        except ValueError as error:
            raise file.error(f"it is not valid JSON ({error})", line) from None
        else:
            yield value, line
            line += text.count("\n", at, end)
            at = end
            continue
        left = text[at:]
        # Twice as much each time: to parse it anew with each line would take quadratic time.
        added = _some(more, len(left))
        if not added:
            if left or depth:
                raise file.error(f"it is not valid JSON ({problem})", line)
            return
        text, at = left + added, 0
        if len(text) > file.role.max_row_bytes * 2:
            raise file.too_long("value")


def _some(texts: Iterator[str], size: int) -> str:
    parts: list[str] = []
    for text in texts:
        parts.append(text)
        size -= len(text)
        if size < 0:
            break
    return "".join(parts)
