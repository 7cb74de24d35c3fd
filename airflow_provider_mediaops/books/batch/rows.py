"""The rows of a list of ISBNs: the text of each row, and the thirteen digits that it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, isbns_in
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_provider_mediaops.storage.source_lines import SourceRow

Several = Literal["first", "rows"]
SEVERAL: tuple[Several, ...] = ("first", "rows")


class IsbnRow(NamedTuple):
    """
    One row of a list.

    :param text: the ISBN as it was given.
    :param isbn13: its thirteen digits; None if the text is not the ISBN of a book.
    :param error: the reason why it is not; None if there is no text.
    :param note: what the user should know about how it was read; None if there is nothing.
    :param number: the number of the input row, from 1.
    :param columns: the values of the source's columns that are kept; None if there are none.
    """

    text: str
    isbn13: str | None
    error: str | None = None
    note: str | None = None
    number: int = 0
    columns: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, value: object, error: str | None = None) -> IsbnRow:
        """
        Read one row.

        :param value: the ISBN in any usual writing; None counts as an empty text.
        :param error: the reason why the row cannot be used, if that is known already.
        :returns: the row; of several books in it, the first.
        """
        return _rows_of(text_of(value), error, 0, None, "first", repair_zeros=False)[0]

    @property
    def status(self) -> Literal["missing", "invalid"]:
        """The status of a row that has no ISBN."""
        return "invalid" if self.error else "missing"


def rows_of_source(rows: Iterable[SourceRow], several: Several, *, repair_zeros: bool) -> Iterator[IsbnRow]:
    """
    Read the rows of a source.

    :param rows: the rows as the reader of the source returns them.
    :param several: of several books in a cell, whether the ``first`` is taken, or all, as ``rows`` of their own.
    :param repair_zeros: whether numbers are read with the zeros before them that a spreadsheet has taken away.
    :returns: the rows, read as they are asked for.
    """
    for number, row in enumerate(rows, 1):
        yield from _rows_of(row.text, row.error, number, row.columns, several, repair_zeros=repair_zeros)


def rows_of_values(values: Iterable[object], several: Several, *, repair_zeros: bool) -> Iterator[IsbnRow]:
    """
    Read the rows of a list in memory.

    :param values: the ISBNs in any usual writing.
    :param several: as :func:`rows_of_source`.
    :param repair_zeros: as :func:`rows_of_source`.
    """
    for number, value in enumerate(values, 1):
        yield from _rows_of(text_of(value), None, number, None, several, repair_zeros=repair_zeros)


def _rows_of(
    text: str,
    error: str | None,
    number: int,
    columns: Mapping[str, Any] | None,
    several: Several,
    *,
    repair_zeros: bool,
) -> list[IsbnRow]:
    if error:
        return [IsbnRow(text, None, error, None, number, columns)]
    if is_missing(text):
        return [IsbnRow(text, None, None, None, number, columns)]
    try:
        isbn13s, zeros = isbns_in(text, repair_zeros=repair_zeros)
    except InvalidIsbnError as invalid:
        return [IsbnRow(text, None, str(invalid), None, number, columns)]
    note = None
    if zeros:
        note = f"Read with {zeros} leading zero{'s'[: zeros > 1]} that it had lost."
    if len(isbn13s) == 1:
        return [IsbnRow(text, isbn13s[0], None, note, number, columns)]
    if several == "first":
        note = f"The first of {len(isbn13s)} books in the cell; the others: {', '.join(isbn13s[1:])}."
        return [IsbnRow(text, isbn13s[0], None, note, number, columns)]
    return [
        IsbnRow(text, isbn13, None, f"Book {place} of {len(isbn13s)} in the cell.", number, columns)
        for place, isbn13 in enumerate(isbn13s, 1)
    ]
