"""The rows of a list of ISBNs: the text of each row, and the thirteen digits that it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, isbns_in
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.source_columns import is_missing

if TYPE_CHECKING:
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
    place: int | str = 0  # its line, or its number in a file without lines; after the file's name in a list of several

    @classmethod
    def of(cls, value: object) -> IsbnRow:
        """Read the ISBN in any usual writing; of several books in it, the first."""
        return next(rows_of_values([value], "first", repair_zeros=False))

    @property
    def status(self) -> Literal["missing", "invalid"]:
        """The status of a row that has no ISBN."""
        return "invalid" if self.error else "missing"


def rows_of_source(rows: Iterable[SourceRow], several: Several, *, repair_zeros: bool) -> Iterator[IsbnRow]:
    """Read the rows of a source; of several books in a cell the first, or all as rows of their own."""
    for number, row in enumerate(rows, 1):
        place = f"{row.file}:{row.line or number}" if row.file else row.line or number
        if row.error:
            yield IsbnRow(row.text, None, row.error, row.reason, None, number, row.columns, place)
        else:
            yield from _rows_of(row.text, several, (number, row.columns, place), repair_zeros=repair_zeros)


def rows_of_values(values: Iterable[object], several: Several, *, repair_zeros: bool) -> Iterator[IsbnRow]:
    """Read the rows of a list in memory, as :func:`rows_of_source` does."""
    for number, value in enumerate(values, 1):
        yield from _rows_of(text_of(value), several, (number, None, number), repair_zeros=repair_zeros)


def _rows_of(
    text: str, several: Several, source: tuple[int, Mapping[str, Any] | None, int | str], *, repair_zeros: bool
) -> list[IsbnRow]:
    """Read a cell; ``source`` is its number, the other columns, and the place."""
    if is_missing(text):
        return [IsbnRow(text, None, None, None, None, *source)]
    try:
        isbn13s, zeros = isbns_in(text, repair_zeros=repair_zeros)
    except InvalidIsbnError as invalid:
        return [IsbnRow(text, None, str(invalid), invalid.reason, None, *source)]
    if len(isbn13s) == 1:
        note = f"Read with {counted(zeros, 'leading zero')} that it had lost." if zeros else None
        return [IsbnRow(text, isbn13s[0], None, None, note, *source)]
    if several == "first":
        note = f"The first of {len(isbn13s)} books in the cell; the others: {', '.join(isbn13s[1:])}."
        return [IsbnRow(text, isbn13s[0], None, None, note, *source)]
    return [
        IsbnRow(text, isbn13, None, None, f"Book {place} of {len(isbn13s)} in the cell.", *source)
        for place, isbn13 in enumerate(isbn13s, 1)
    ]
