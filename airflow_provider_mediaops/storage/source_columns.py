"""The columns of a source: find the one that is read, name those that are kept, and make cells of a table of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Literal

from airflow_provider_mediaops.arguments import read_flag, read_texts, refused, shown
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.source_lines import no_utf8, readable

#: Which columns are kept beside the one that is read: all, none, or those with these names.
Keep = bool | Sequence[str]
#: The type of a column in a table.
ColumnType = Literal["str", "int", "float"]

# The number of columns that an error names, and the characters of each name.
_MAX_NAMES, _MAX_NAME_LENGTH = 20, 40
# The columns of a table are kept in memory, and handed from a task to a triggerer through Airflow's database.
_MAX_COLUMNS, _MAX_COLUMN_CHARACTERS = 1_000, 50_000


def column_error(column: str, names: Sequence[str]) -> str | None:
    """
    Return an error unless exactly one column has the name.

    :param column: the name that is looked for.
    :param names: the names of all columns.
    """
    if column in names:
        number = names.count(column)
        return f"there are {number} columns {column!r}; give them different names" if number > 1 else None
    listed = ", ".join(map(_start_of, names[:_MAX_NAMES])) or "nothing"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"there is no column {column!r}, but {listed}{more}"


def _start_of(text: str) -> str:
    text = text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 1]}…"
    return f"'{readable(text)}'" if no_utf8(text) else repr(text)


def read_keep(value: object) -> Keep:
    """
    Read the argument ``keep_columns``.

    :param value: a flag; or the names of columns, as a list or as a text with commas.
    :returns: True, False, or the names.
    :raises InvalidArgumentError: for anything else, and if a name is empty or comes twice.
    """
    with suppress(InvalidArgumentError):
        return read_flag("keep_columns", value)
    if value is None:
        raise refused("keep_columns", value, "is True, False or a list of columns' names")
    names = list(read_texts("keep_columns", value))
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"keep_columns names a column twice: {shown(names)}.")
    return names


def places_of(header: Sequence[str], column: str, keep: Keep) -> tuple[list[tuple[int, str]], str | None]:
    """
    Find the columns that are kept.

    A column without a name is not kept. Of columns that share a name, the second becomes ``name_2``.

    :param header: the names of all columns.
    :param column: the one that is read.
    :param keep: which of the others are kept; by name, the one that is read can be kept as well.
    :returns: the place and the new name of each; and an error if one is missing, or there are two.
    """
    if not isinstance(keep, bool):
        error = next(filter(None, (column_error(name, header) for name in keep)), None)
        return [(header.index(name), clean(name)) for name in keep] if not error else [], error
    places: dict[str, int] = {}
    taken = {clean(name) for name in header}
    # The next number of each name: to begin anew with each column would take quadratic time.
    numbers: dict[str, Iterator[int]] = {}
    for place, text in enumerate(header if keep else ()):
        name = clean(text)
        if not name or text == column:
            continue
        if name in places:
            following = numbers.setdefault(name, count(2))
            name = next(new for number in following if (new := f"{name}_{number}") not in taken)
            taken.add(name)
        places[name] = place
    return [(place, name) for name, place in places.items()], None


def clean(name: str) -> str:
    """
    Return a name without what no database takes: NUL, bytes that are not UTF-8, and lone surrogates.

    :param name: the name.
    """
    if name.isascii() and "\0" not in name:
        return name
    return readable(name).replace("\0", "").encode("utf-8", "backslashreplace").decode()


def fields_of(record: Mapping[str, Any], column: str, keep: Keep) -> dict[str, Any]:
    """
    Return the fields of a JSON object that are kept.

    :param record: the object.
    :param column: the field that is read.
    :param keep: which of the others are kept.
    :returns: their values as they are; by name, a field that is missing is None.
    """
    if isinstance(keep, bool):
        return {clean(name): value for name, value in record.items() if name != column} if keep else {}
    return {clean(name): record.get(name) for name in keep}


def check_number(names: Collection[str]) -> str | None:
    """
    Return an error if a table cannot have so many columns.

    :param names: their names.
    """
    if len(names) <= _MAX_COLUMNS and sum(map(len, names)) <= _MAX_COLUMN_CHARACTERS:
        return None
    return (
        f"there are more than {_MAX_COLUMNS:,} columns, or their names are longer than {_MAX_COLUMN_CHARACTERS:,} "
        "characters together; name in keep_columns those that the table is to have, or write .jsonl"
    )


def cells_of(columns: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, Any]:
    """
    Return the cells of a table for the columns that are kept.

    :param columns: their values by name; None if the row has none.
    :param names: the names of the table's columns.
    :returns: texts and numbers as they are; other values as JSON; None for what is missing.
    """
    values = columns or {}
    return {name: _cell(values.get(name)) for name in names}


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        return value
    return json_line(value).decode()
