"""Read the arguments that say which list is read, and how."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow_provider_mediaops.arguments import ordered, read_path, read_text, read_texts, refused
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.json_text import text_of


def read_source(value: object) -> tuple[str, ...]:
    """Read the argument ``source``."""
    paths = value if isinstance(value, (list, tuple)) else [value]
    if not paths:
        raise InvalidArgumentError("source is an empty list: give the path of a file, a folder or a pattern.")
    return tuple(read_path("source", path) for path in paths)


def read_columns(value: object) -> tuple[str, ...] | None:
    """Read the argument ``isbn_column``."""
    if value is None:
        return None
    # A template with native objects makes a number of a text of digits.
    names = tuple(read_text("isbn_column", name) for name in (value if isinstance(value, (list, tuple)) else [value]))
    if not names or not all(map(str.strip, names)):
        raise InvalidArgumentError("isbn_column is empty: give the name of the column or field, or leave it out.")
    return names


def read_delimiter(value: object) -> str | None:
    """Read the argument ``delimiter``."""
    if value is None:
        return None
    text = {"\\t": "\t", "tab": "\t"}.get(str(value), value)
    if not isinstance(text, str) or len(text) != 1 or text in '"\r\n\0' or text.isalnum():
        raise refused("delimiter", value, "is the character between the cells of a line, such as ';' or '\\t'")
    return text


def read_encoding(value: object) -> str | None:
    """Read the argument ``encoding``."""
    if value is None:
        return None
    if isinstance(value, str):
        with suppress(LookupError, ValueError):
            "".encode(value)
            return codecs.lookup(value).name
    raise refused("encoding", value, "is the name of an encoding of texts, such as 'cp1250' or 'utf-16'")


def read_isbns(value: object, columns: tuple[str, ...] | None) -> list[Any]:
    """Read the argument ``isbns``."""
    if isinstance(value, str):
        # A text with commas, or with a line for each.
        return list(read_texts("isbns", ",".join(filter(str.strip, value.splitlines())) or value))
    value = ordered(value)
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise InvalidArgumentError(f"isbns is a list of texts, or one text with commas, not a {type(value).__name__}.")
    return [_value_of(row, number, columns) for number, row in enumerate(value, 1)]


def _value_of(row: object, number: int, columns: tuple[str, ...] | None) -> object:
    """Return the text of a row, which may be that of a query: a sequence of one column, or a mapping."""
    if isinstance(row, Mapping):
        from airflow_provider_mediaops.storage.source_columns import find_columns, is_missing, no_column

        names = list(map(str, row))
        places = find_columns(columns, names)
        if not places:
            raise InvalidArgumentError(f"Row {number} of isbns: {no_column(columns, names)}.")
        values = list(row.values())
        return next((values[at] for at in places if not is_missing(text_of(values[at]))), None)
    if isinstance(row, Sequence) and not isinstance(row, (str, bytes)):
        if len(row) == 1:
            return row[0]
        raise InvalidArgumentError(
            f"Row {number} of isbns has {len(row)} values: select one column, or give mappings with isbn_column."
        )
    return row
