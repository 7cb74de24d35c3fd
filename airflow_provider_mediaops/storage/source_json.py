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
    column_error,
    find_columns,
    finite,
    is_missing,
    left_out,
    no_column,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_mediaops.storage.source_facts import FileFacts, ReadOptions
    from airflow_provider_mediaops.storage.source_lines import SourceLines, SourceRow

# A row of Open Library's dump: type, key, revision, time and the record, with tabs between.
_DUMP_LINE = re.compile(r"/type/\w+\t/\S+\t\d+\t[^\t]+\t(?={)")
_GAP = re.compile(r"[\s,\x1e]*")
# JSON has neither NaN nor infinity, though Python and pandas write them.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def is_dump(line: str) -> bool:
    """Return whether a line is one of Open Library's dumps."""
    return _DUMP_LINE.match(line) is not None


def read_json(lines: SourceLines, options: ReadOptions, facts: FileFacts) -> Iterator[SourceRow]:
    """Read rows of JSON."""
    texts = iter(lines)
    first = next((line for line in texts if line.strip()), None)
    if first is None:
        return
    rows = _Rows(lines, options, facts)
    if _extends_over_lines(first):
        facts.format = "json"
        for value, number in _values(lines, first, texts):
            yield from rows.each(value, number)
    else:
        facts.format = "jsonl"
        for line in chain((first,), texts):
            if lines.is_cut:
                raise lines.too_long("line")
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
    """
    Makes rows of values.

    :param lines: the file.
    :param options: how it is read.
    :param facts: what is recognised is noted in these.
    """

    def __init__(self, lines: SourceLines, options: ReadOptions, facts: FileFacts) -> None:
        self._lines = lines
        self._options = options
        self._facts = facts
        # The places of the columns, by the names of a record: most records have the same.
        self._places: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
        self._first: tuple[int, list[str]] | None = None
        self._names: dict[str, None] = {}
        # Whether the rows are those of a list within an object, such as {"items": […]}.
        self._is_wrapped = False

    def of_line(self, line: str) -> Iterator[SourceRow]:
        """Yield the row of a line, or those of the list that it holds."""
        text = _DUMP_LINE.sub("", line, count=1) if line.startswith("/type/") else line
        number = self._lines.number
        try:
            value = _DECODER.decode(text)
            check_depth(value, text.count("{") + text.count("["))
        except (ValueError, RecursionError) as error:
            yield self._lines.row(line.strip(), f"it is no JSON ({error})", self._nothing())
            return
        yield from self.each(value, number)

    def each(self, value: Any, line: int) -> Iterator[SourceRow]:
        """Yield the row of a value, or those of the list that it holds."""
        inner = self._inner(value)
        for each in [value] if inner is None else inner:
            yield self.of(each, line)

    def _inner(self, value: Any) -> list[Any] | None:
        """Return the one list in an object that holds rows; None if the object is a row itself."""
        is_first = self._first is None and self._lines.role.is_list
        if not isinstance(value, dict) or not (is_first or self._is_wrapped) or self._has_column(value):
            return None
        lists = [each for each in value.values() if isinstance(each, list) and any(map(self._has_column, each))]
        self._is_wrapped = self._is_wrapped or len(lists) == 1
        return lists[0] if len(lists) == 1 else None

    def _has_column(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        try:
            return bool(find_columns(self._options.columns, list(value)))
        except ValueError:
            # Two columns have the name, which is the error of that row.
            return True

    def of(self, value: Any, line: int) -> SourceRow:
        """Return the row of a value."""
        if isinstance(value, list) and len(value) == 1:
            # A row of a query with one column.
            value = value[0]
        if not isinstance(value, (dict, list)):
            return self._lines.row(text_of(value), None, self._nothing(), line)
        if isinstance(value, list):
            problem = f"it has {len(value)} values without names"
            return self._lines.row(text_of(value), problem, self._nothing(), line)
        names = list(value)
        key = tuple(names)
        if (found := self._places.get(key)) is None:
            found = self._found(names, line)
            if len(self._places) < 1_000:  # noqa: PLR2004 - a file in which each record has other names
                self._places[key] = found
        read, kept = found
        columns = self._columns(value, kept) if self._options.keep else None
        texts = [text_of(value[name]) for name in read]
        text = next((text for text in texts if not is_missing(text)), texts[0] if texts else "")
        return self._lines.row(text, None, columns, line)

    def _nothing(self) -> dict[str, Any] | None:
        """Return the columns of a row that has none, in a file of rows that have some."""
        return {} if self._options.keep and self._first else None

    def _found(self, names: list[str], line: int) -> tuple[list[str], list[str]]:
        try:
            places = find_columns(self._options.columns, names)
        except ValueError as error:
            raise self._lines.error(str(error), line) from None
        if not places and not self._first and not self._lines.role.is_list:
            raise self._lines.error(no_column(self._options.columns, names), line)
        read = [names[place] for place in places]
        self._first = self._first or (line, names)
        self._facts.columns += [name for name in read if name not in self._facts.columns]
        out = left_out(self._options.columns, names, places)
        kept = [name for place, name in enumerate(names) if place not in out]
        if self._facts.too_many is None:
            self._names.update(dict.fromkeys(map(clean, kept)))
            self._facts.too_many = check_number(self._names)
        return read, kept

    def _columns(self, record: Mapping[str, Any], kept: list[str]) -> dict[str, Any]:
        keep = self._options.keep
        names = kept if isinstance(keep, bool) else keep
        return {clean(name): finite(record.get(name)) for name in names}

    def end(self) -> None:
        """Raise if no record had a column that the user has named; note those that are kept."""
        keep, facts = self._options.keep, self._facts
        if self._first is None:
            return
        line, names = self._first
        if not facts.columns:
            advice = "; if the list is within another value, write it by itself: an array, or an object a line"
            problem = no_column(self._options.columns, names)
            raise self._lines.error(f"{problem}{advice if self._lines.role.is_list else ''}", line)
        if isinstance(keep, bool):
            facts.kept = dict.fromkeys(self._names if keep else (), "str")
            return
        known = [*facts.columns, *self._names]
        if facts.too_many is None and (error := next(filter(None, (column_error(name, known) for name in keep)), None)):
            raise self._lines.error(error, line)
        facts.too_many = check_number(keep)
        facts.kept = dict.fromkeys(map(clean, keep), "str")


def _values(lines: SourceLines, first: str, texts: Iterator[str]) -> Iterator[tuple[Any, int]]:
    """Yield the values of a text, or those of the arrays in it, with their lines, in bounded memory."""
    text, at, line, depth = first, 0, lines.number, 0
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
            raise lines.error("it is no JSON (it is nested too deep)", line) from None
        except ValueError as error:
            end, problem = at, str(error)
        if end > at:
            yield value, line
            line += text.count("\n", at, end)
            at = end
            continue
        left = text[at:]
        # Twice as much each time: to parse it anew with each line would take quadratic time.
        more = _some(texts, len(left))
        if not more:
            if left or depth:
                raise lines.error(f"it is no JSON ({problem if left else 'its end is missing'})", line)
            return
        text, at = left + more, 0
        if len(text) > lines.role.max_row_bytes * 2:
            raise lines.too_long("value")


def _some(texts: Iterator[str], size: int) -> str:
    parts: list[str] = []
    for text in texts:
        parts.append(text)
        size -= len(text)
        if size < 0:
            break
    return "".join(parts)
