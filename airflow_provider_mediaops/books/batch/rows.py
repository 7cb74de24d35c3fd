"""The rows of a list of ISBNs: the text of each row, and the thirteen digits that it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, isbns_in
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.source_columns import is_missing
from airflow_provider_mediaops.storage.source_file import SourceRow

Several = Literal["first", "rows"]


class IsbnRow(NamedTuple):
    """One row of a list."""

    text: str  # as it was given
    isbn13: str | None  # None if the text is not the ISBN of a book
    error: str | None = None  # what is wrong with it, in a sentence; None also if there is no text
    reason: str | None = None  # the same without the text and its line
    note: str | None = None  # what the user should know about how it was read
    number: int = 0  # of the input row, from 1
    columns: Mapping[str, Any] | None = None  # the other columns of its source that are kept; None if none are
    line: int | None = None  # of its file; None in a file without lines, and in a list in memory
    file: str | None = None  # the name of its file, in a list of several

    @classmethod
    def of(cls, value: object) -> IsbnRow:
        """Read the ISBN in any usual writing; of several books in it, the first."""
        return next(rows_of_values([value], "first", repair_zeros=False))

    @property
    def status(self) -> Literal["missing", "invalid"]:
        """The status of a row that has no ISBN."""
        return "invalid" if self.error else "missing"

    @property
    def place(self) -> str:
        """Where it stands, as people look for it: ``line 3``, or ``row 3`` where there are no lines."""
        place = f"line {self.line}" if self.line else f"row {self.number}"
        return f"{self.file}, {place}" if self.file else place


def rows_of_values(values: Iterable[object], several: Several, *, repair_zeros: bool) -> Iterator[IsbnRow]:
    """Read the rows of a list in memory, as :func:`rows_of_source` does."""
    return rows_of_source((SourceRow(text_of(value)) for value in values), several, repair_zeros=repair_zeros)


def rows_of_source(rows: Iterable[SourceRow], several: Several, *, repair_zeros: bool) -> Iterator[IsbnRow]:
    """Read the rows of a source; of several books in a cell the first, or all as rows of their own."""
    for number, row in enumerate(rows, 1):
        make = partial(IsbnRow, row.text, number=number, columns=row.columns, line=row.line, file=row.file)
        if row.error:
            yield make(None, row.error, row.reason)
        else:
            yield from _rows_of(row.text, make, several, repair_zeros=repair_zeros)


def _rows_of(text: str, make: Callable[..., IsbnRow], several: Several, *, repair_zeros: bool) -> list[IsbnRow]:
    if is_missing(text):
        return [make(None)]
    try:
        isbn13s, zeros = isbns_in(text, repair_zeros=repair_zeros)
    except InvalidIsbnError as invalid:
        return [make(None, str(invalid), invalid.reason)]
    count = len(isbn13s)
    if count == 1:
        note = f"Read with {counted(zeros, 'leading zero')} that it had lost." if zeros else None
        return [make(isbn13s[0], note=note)]
    if several == "first":
        note = f"The first of {count} books in the cell; the others: {', '.join(isbn13s[1:])}."
        return [make(isbn13s[0], note=note)]
    return [make(isbn13, note=f"Book {at} of {count} in the cell.") for at, isbn13 in enumerate(isbn13s, 1)]
