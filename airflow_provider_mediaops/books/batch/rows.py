"""The rows of a list of ISBNs: the text of each row, and the thirteen digits that it means."""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise
from airflow_provider_mediaops.json_text import text_of


class IsbnRow(NamedTuple):
    """
    One row of a list.

    :param text: the ISBN as it was given.
    :param isbn13: its thirteen digits; None if the text is not the ISBN of a book.
    :param error: the reason why it is not.
    """

    text: str
    isbn13: str | None
    error: str | None = None

    @classmethod
    def of(cls, value: object, error: str | None = None) -> IsbnRow:
        """
        Read one row.

        :param value: the ISBN in any usual writing; None counts as an empty text.
        :param error: the reason why the row cannot be used, if that is known already.
        :returns: the row.
        """
        text = text_of(value)
        if error:
            return cls(text, None, error)
        try:
            return cls(text, normalise(text))
        except InvalidIsbnError as invalid:
            return cls(text, None, str(invalid))
