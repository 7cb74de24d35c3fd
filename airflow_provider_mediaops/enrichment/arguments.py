"""Read the arguments of an enrichment: which list is read, how it is looked up, and how its dataset is written."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

from airflow_provider_mediaops.arguments import (
    optional,
    ordered,
    read_choice,
    read_flag,
    read_path,
    read_seconds,
    read_text,
    read_texts,
    read_whole_number,
    refused,
    unsigned,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.formats import CSV_FORMULAS
from airflow_provider_mediaops.storage.source_columns import find_columns, is_missing, no_column, read_keep

# Files that are often taken for lists. Any other name may be that of a folder.
_NO_LISTS = (".xls", ".ods", ".zip", ".7z", ".bz2", ".xz", ".zst", ".tar", ".tar.gz")

#: A number of rows; the text of a share of all rows, from 0 to 1; or ``all``.
RowBound = int | str

_BOUND = re.compile(r"(?P<whole>\d{1,18})|\d{0,18}\.\d{1,18}|(?P<percent>\d{1,18}(?:\.\d{1,18})?)\s*%", re.ASCII)


def read_source(value: object) -> tuple[str, ...]:
    """Read the argument ``source``."""
    paths = value if isinstance(value, (list, tuple)) else [value]
    if not paths:
        raise InvalidArgumentError("source is an empty list: give the path of a file, a folder or a pattern.")
    read = tuple(read_path("source", path) for path in paths)
    if other := next((path for path in read if path.lower().endswith(_NO_LISTS)), None):
        raise InvalidArgumentError(
            f"source {unsigned(other)!r} is an archive or a file of another program: unpack it, or save it as .csv or "
            ".xlsx."
        )
    return read


def read_columns(name: str, value: object) -> list[str] | None:
    """Read the argument ``isbn_column``."""
    if value is None:
        return None
    # A template with native objects makes a number of a text of digits.
    names = [read_text(name, each) for each in (value if isinstance(value, (list, tuple)) else [value])]
    if not names or not all(map(str.strip, names)):
        raise InvalidArgumentError(f"{name} is empty: give the name of the column or field, or leave it out.")
    return names


def read_delimiter(name: str, value: object) -> str | None:
    """Read the argument ``delimiter``."""
    if value is None:
        return None
    text = {"\\t": "\t", "tab": "\t"}.get(str(value), value)
    if not isinstance(text, str) or len(text) != 1 or text in '"\r\n\0' or text.isalnum():
        raise refused(name, value, "is the character between the cells of a line, such as ';' or '\\t'")
    return text


def read_encoding(name: str, value: object) -> str | None:
    """Read the argument ``encoding``."""
    if value is None:
        return None
    if isinstance(value, str):
        with suppress(LookupError, ValueError):
            "".encode(value)
            return codecs.lookup(value).name
    raise refused(name, value, "is the name of an encoding of texts, such as 'cp1250' or 'utf-16'")


def read_isbns(value: object, columns: Sequence[str] | None) -> list[Any]:
    """Read the argument ``isbns``."""
    if isinstance(value, str):
        # A text with commas, or with a line for each.
        return list(read_texts("isbns", ",".join(filter(str.strip, value.splitlines())) or value))
    value = ordered(value)
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise InvalidArgumentError(f"isbns is a list of texts, or one text with commas, not a {type(value).__name__}.")
    return [_value_of(row, number, columns) for number, row in enumerate(value, 1)]


def _value_of(row: object, number: int, columns: Sequence[str] | None) -> object:
    """Return the text of a row, which may be that of a query: a sequence of one column, or a mapping."""
    if isinstance(row, Mapping):
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


def read_row_bound(name: str, value: object) -> RowBound:
    """Read an argument that bounds the rows of a kind."""
    text = f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value).strip().lower()
    if text == "all":
        return text
    bound = None if isinstance(value, bool) else _BOUND.fullmatch(text)
    if bound and bound["whole"]:
        return int(text)
    if bound:
        share = Decimal(bound["percent"]) / 100 if bound["percent"] else Decimal(text)
        # 1.0 may be meant as one row or as all of them.
        if share < 1 or (share == 1 and bound["percent"]):
            return f"{share:f}"
    raise refused(name, value, "is a number of rows, a share such as '5%' or 0.05, or 'all'")


def allowed_rows(bound: RowBound, total: int) -> int:
    """Return how many rows of a list are within a bound."""
    if bound == "all":
        return total
    return bound if isinstance(bound, int) else int(Decimal(bound) * total)


#: The function that reads each option, by its name, which is that of a field of the enrichment.
OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    "isbn_column": read_columns,
    "delimiter": read_delimiter,
    "encoding": read_encoding,
    "keep_columns": lambda _, value: read_keep(value),
    "csv_formulas": partial(read_choice, choices=CSV_FORMULAS),
    "bulk": read_flag,
    "several": partial(read_choice, choices=("first", "rows")),
    "repair_zeros": read_flag,
    "on_invalid": partial(read_choice, choices=("record", "fail")),
    "max_invalid": partial(optional, read_row_bound),
    "max_failures": read_row_bound,
    "reuse_for": read_seconds,
    "reuse_not_found_for": read_seconds,
    "max_requests": partial(optional, read_whole_number, minimum=0),
}
