"""Read rows of JSON: an object a line, one array of all, or values that extend over several lines."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import check_depth, text_of
from airflow_provider_mediaops.storage.source_columns import (
    check_number,
    clean,
    find_columns,
    first_filled,
    left_out,
    no_column,
    places_of,
    plain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.storage.source_file import SourceFile, SourceRow
    from airflow_provider_mediaops.storage.source_lines import SourceLines

# A file in which each record has other names would fill the memory.
_MAX_NAMES = 1_000
_GAP = re.compile(r"[\s,\x1e]*")
# JSON has neither NaN nor infinity, though Python and pandas write them.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def read_json(lines: SourceLines) -> Iterator[SourceRow]:
    """Read rows of JSON."""
    texts, file = iter(lines), lines.file
    first = next((line for line in texts if line.strip()), None)
    if first is None:
        return
    rows = _Rows(file)
    if _extends_over_lines(first):
        file.format = "json"
        for value, number in _values(file, first, texts):
            yield from rows.each(value, number)
    else:
        file.format = "jsonl"
        # A line that is too long is refused from here on.
        lines.cut = b""
        for line in chain((first,), texts):
            if line.strip():
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
        keep = file.options.keep
        # The columns that are read, and those that are kept with their new names, by the names of a record: most
        # records have the same.
        self._chosen: dict[tuple[str, ...], tuple[list[str], dict[str, str]]] = {}
        self._first: tuple[int, tuple[str, ...]] | None = None
        # The columns to be kept that no record has had yet, and some of those that there are.
        self._absent = [] if isinstance(keep, bool) else list(keep)
        self._names: dict[str, None] = {}
        # Whether the rows are those of a list within an object, such as {"items": […]}.
        self._is_wrapped = False

    def of_line(self, line: str) -> Iterator[SourceRow]:
        """Yield the row of a line, or those of the list that it holds."""
        try:
            value = _DECODER.decode(line)
            check_depth(value, line.count("{") + line.count("["))
        except (ValueError, RecursionError) as error:
            yield self._file.row(line.strip(), f"it is not valid JSON ({error})", self._nothing())
            return
        yield from self.each(value, self._file.line)

    def each(self, value: Any, line: int) -> Iterator[SourceRow]:
        """Yield the row of a value, or those of the list that it holds."""
        inner = self._inner(value)
        for each in [value] if inner is None else inner:
            yield self._row(each, line)

    def _inner(self, value: Any) -> list[Any] | None:
        """Return the one list in an object that holds rows; None if the object is a row itself."""
        is_first = self._first is None and self._file.role.is_list
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
            return self._file.row(text_of(value), reason, self._nothing(), line)
        names = tuple(value)
        if (chosen := self._chosen.get(names)) is None:
            chosen = self._choose(names, line)
            if len(self._chosen) < _MAX_NAMES:
                self._chosen[names] = chosen
        read, kept = chosen
        columns = {new: plain(value.get(name)) for name, new in kept.items()} if self._file.options.keep else None
        return self._file.row(first_filled([text_of(value[name]) for name in read]) or "", None, columns, line)

    def _nothing(self) -> dict[str, Any] | None:
        """Return the columns of a row that has none, in a file of rows that have some."""
        return {} if self._file.options.keep and self._first else None

    def _choose(self, names: tuple[str, ...], line: int) -> tuple[list[str], dict[str, str]]:
        file, wanted, keep = self._file, self._file.options.columns, self._file.options.keep
        try:
            places = find_columns(wanted, names)
        except ValueError as error:
            raise file.error(str(error), line) from None
        if not places and not self._first and not file.role.is_list:
            raise file.error(no_column(wanted, names), line)
        self._first = self._first or (line, names)
        read = [names[place] for place in places]
        file.columns += [name for name in read if name not in file.columns]
        self._absent = [name for name in self._absent if name not in names]
        if not isinstance(keep, bool):
            if len(self._names) < _MAX_NAMES:
                self._names.update(dict.fromkeys(names))
            return read, {name: clean(name) for name in keep}
        kept = {names[place]: new for place, new in places_of(names, left_out(wanted, names, places), keep)}
        if file.too_many is None:
            file.kept.update(dict.fromkeys(kept.values(), "str"))
            file.too_many = check_number(file.kept)
        return read, kept

    def end(self) -> None:
        """Raise if no record had a column that the user has named; note those that are kept."""
        file, keep = self._file, self._file.options.keep
        if self._first is None:
            return
        line, names = self._first
        if not file.columns:
            advice = "; if the list is within another value, write it by itself: an array, or an object a line"
            raise file.error(f"{no_column(file.options.columns, names)}{file.advice(advice)}", line)
        if self._absent:
            raise file.error(no_column(self._absent[:1], list(self._names)), line)
        if not isinstance(keep, bool):
            file.kept = dict.fromkeys(map(clean, keep), "str")
            file.too_many = check_number(file.kept)


def _values(file: SourceFile, first: str, texts: Iterator[str]) -> Iterator[tuple[Any, int]]:
    """Yield the values of a text, or those of the arrays in it, with their lines, in bounded memory."""
    text, at, line, depth = first, 0, file.line, 0
    while True:
        gap = _GAP.match(text, at)
        end = gap.end() if gap else at
        line += text.count("\n", at, end)
        at = end
        if at < len(text) and text[at] == ("]" if depth else "["):
            depth, at = 1 - depth, at + 1
            continue
        try:
            value, end = _DECODER.raw_decode(text, at) if at < len(text) else (None, at)
        except RecursionError:
            raise file.error("it is not valid JSON (it is nested too deep)", line) from None
        except ValueError as error:
            end, problem = at, str(error)
        if end > at:
            try:
                check_depth(value, text.count("{", at, end) + text.count("[", at, end))
            except ValueError as error:
                raise file.error(f"it is not valid JSON ({error})", line) from None
            yield value, line
            line += text.count("\n", at, end)
            at = end
            continue
        left = text[at:]
        # Twice as much each time: to parse it anew with each line would take quadratic time.
        more = _some(texts, len(left))
        if not more:
            if left or depth:
                raise file.error(f"it is not valid JSON ({problem if left else 'its end is missing'})", line)
            return
        text, at = left + more, 0
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
