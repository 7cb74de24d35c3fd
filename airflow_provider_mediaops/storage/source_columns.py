"""The columns of a source: find those that are read, and name those that are kept."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any, Literal

from airflow_provider_mediaops.arguments import read_flag, read_texts, refused, shown
from airflow_provider_mediaops.exceptions import InvalidArgumentError

#: Which columns are kept beside the one that is read: all, none, or those with these names.
Keep = bool | Sequence[str]
#: The type of a column in a table.
ColumnType = Literal["str", "int", "float"]

# The words for an empty cell, as spreadsheets, data frames and databases write them.
_MISSING = frozenset(
    (
        *("", "nan", "null", "none", "n/a", "#n/a", "#n/a n/a", "na", "<na>", "nat", "nil", "undefined", "\\n"),
        *("-", "--", "\N{EN DASH}", "\N{EM DASH}", "?"),
    )
)
_AROUND = " \t\r\n=\"'[]{}\ufeff\xa0"
# The names of columns of ISBNs in the exports of shops, catalogues and library systems, without their signs.
_ISBN_NAMES = (
    *("isbn", "isbn13", "isbn10", "isbnuid", "isbns", "isbnean", "eanisbn", "isbn13ean", "isbneanupc", "ean", "ean13"),
    *("020a", "marc020a", "marc020", "isbnnumber", "isbnno", "isbnnr", "isbnnummer", "numeroisbn", "nisbn", "noisbn"),
    *("codeisbn", "isbncode", "bookisbn", "primaryisbn13", "primaryisbn10", "printisbn", "isbnprint", "eisbn"),
)
# A name that holds a number as long as an ISBN is not a name.
_NUMBER = re.compile(r"[0-9](?:[-\s.]?[0-9]){7,11}[-\s.]?[0-9Xx]")
# The number of columns that an error names, and the characters of each name.
_MAX_NAMES, _MAX_NAME_LENGTH = 20, 40
#: The most columns of a table: they are kept in memory, and handed to a triggerer through Airflow's database.
MAX_COLUMNS = 1_000


def is_missing(text: str) -> bool:
    """Return whether a cell is empty, or has one of the words that programs write into an empty one."""
    # A number, as most cells are.
    return not text[:1].isdigit() and text.strip(_AROUND).casefold() in _MISSING


def find_columns(wanted: Sequence[str] | None, names: Sequence[str]) -> list[int]:
    """
    Find the columns that are read: the places of those that are there, in the order of ``wanted``.

    Names count without regard to case and blanks, unless one has exactly that name; None stands for the names that
    exports give to ISBNs. Raise ValueError if two columns have one of the names.
    """
    key = _folded if wanted else _bare
    keys = [key(name) for name in names]
    places: list[int] = []
    for name in wanted or _ISBN_NAMES:
        exact = [place for place, other in enumerate(names) if other == name]
        found = exact or [place for place, other in enumerate(keys) if other == key(name)]
        if len(found) > 1:
            raise _shared_name(len(found), names[found[0]])
        places += [place for place in found if place not in places]
    return places


def no_column(wanted: Sequence[str] | None, names: Sequence[str]) -> str:
    """Return the error of a file that lacks the columns."""
    starts = [name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…" for name in names]
    listed = ", ".join(map(repr, starts[:_MAX_NAMES])) or "nothing"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    problem = f"there is no column {' or '.join(map(repr, wanted or ['isbn']))}, but {listed}{more}"
    if any(map(_NUMBER.search, names)):
        return f"{problem}. Its first line is not a header: add a line with names before it"
    return problem if wanted else f"{problem}; name it in isbn_column"


def _shared_name(number: int, name: str) -> ValueError:
    return ValueError(f"there are {number} columns {name!r}; give them different names")


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


def _bare(name: str) -> str:
    """Return the letters and digits of a name, without accents."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(char for char in plain if char.isascii() and char.isalnum())


def read_keep(value: object) -> Keep:
    """
    Read the argument ``keep_columns``: a flag, or names of columns as a list or as a text with commas.

    Raise InvalidArgumentError for anything else, and if a name is empty or comes twice.
    """
    with suppress(InvalidArgumentError):
        return read_flag("keep_columns", value)
    if value is None:
        raise refused("keep_columns", value, "is True, False or a list of columns' names")
    names = list(read_texts("keep_columns", value))
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"keep_columns names a column twice: {shown(names)}.")
    return names


def kept_columns(
    keep: Keep, names: Sequence[str], wanted: Sequence[str] | None, read: Collection[int], *, may_lack: bool = False
) -> list[tuple[int, str]]:
    """
    Find the columns that are kept: the place and the new name of each. By name, one that is read can be kept as well.

    A column without a name is not kept. Of columns that share a name, the second becomes ``name_2``. Raise ValueError
    if there are two of one that the user names, or it is missing and may not be.
    """
    if not isinstance(keep, bool):
        for name in keep:
            if (number := names.count(name)) > 1:
                raise _shared_name(number, name)
            if not number and not may_lack:
                raise ValueError(no_column([name], names))
        return [(names.index(name), clean(name)) for name in keep if name in names]
    # Beside a column that is called ISBN, there may be others that hold another one.
    left_out = {place for place in read if wanted or _bare(names[place]) == _ISBN_NAMES[0]}
    places: dict[str, int] = {}
    taken = {clean(name) for name in names}
    # To begin anew with each column would take quadratic time.
    numbers: Counter[str] = Counter()
    for place, text in enumerate(names if keep else ()):
        name = original = clean(text)
        if not name or place in left_out:
            continue
        while name in places or (name in taken and name != original):
            numbers[original] += 1
            name = f"{original}_{numbers[original] + 1}"
        places[name] = place
    return [(place, name) for name, place in places.items()]


def clean(name: str) -> str:
    """Return a name without characters that no database takes: NUL and lone surrogates."""
    return name.replace("\0", "").encode("utf-8", "backslashreplace").decode()


def plain(value: Any) -> Any:
    """Return a value of a file as JSON has it, which knows neither NaN and infinity nor times and bytes."""
    if value is None or isinstance(value, (str, int, float)):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    # A comprehension would take a second frame of the interpreter for each level, and values may have many levels.
    if isinstance(value, dict):
        return dict(zip(map(str, value), map(plain, value.values()), strict=True))
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
