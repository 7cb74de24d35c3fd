"""The columns of a source: find those that are read, and name those that are kept."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Literal

from airflow_provider_mediaops.arguments import read_flag, read_texts, refused
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
# The characters of the names of columns that an error has.
_MAX_NAMES_LENGTH = 400
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
    listed = ", ".join(map(repr, names)) or "nothing"
    if len(listed) > _MAX_NAMES_LENGTH:
        listed = f"{listed[:_MAX_NAMES_LENGTH]}…"
    problem = f"there is no column {' or '.join(map(repr, wanted or ['isbn']))}, but {listed}"
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
    """Read the argument ``keep_columns``: a flag, or names of columns as a list or as a text with commas."""
    with suppress(InvalidArgumentError):
        return read_flag("keep_columns", value)
    if value is None:
        raise refused("keep_columns", value, "is True, False or a list of columns' names")
    return list(dict.fromkeys(read_texts("keep_columns", value)))


def kept_columns(
    keep: Keep, names: Sequence[str], wanted: Sequence[str] | None, read: Collection[int]
) -> list[tuple[int, str]]:
    """
    Find the columns that are kept: the place and the new name of each. By name, one that is read can be kept as well.

    The place of one that is named and missing is after the last. A column without a name is not kept. Of columns that
    share a name, the second becomes ``name_2``; ValueError if it is one that the user names.
    """
    if not isinstance(keep, bool):
        if shared := next((name for name in keep if names.count(name) > 1), None):
            raise _shared_name(names.count(shared), shared)
        return [(names.index(name) if name in names else len(names), clean(name)) for name in keep]
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
