"""The rows of a list of ISBNs, as they are given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise
from airflow_provider_mediaops.json_text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.http.drivers import InThread


@dataclass(frozen=True, slots=True)
class Input:
    """
    One row of a list.

    :param text: the ISBN as it was given.
    :param isbn13: its thirteen digits; None for a text that is no ISBN.
    :param error: why it is none.
    """

    text: str
    isbn13: str | None
    error: str | None = None

    @classmethod
    def of(cls, value: object, error: str | None = None) -> Input:
        """
        Read one row.

        :param value: the ISBN in any usual writing; None is an empty text.
        :param error: why the row cannot be used, where that is known already.
        :returns: the row.
        """
        text = text_of(value)
        if error:
            return cls(text, None, error)
        try:
            return cls(text, normalise(text))
        except InvalidIsbnError as invalid:
            return cls(text, None, str(invalid))


class InputReader:
    """
    Reads a list from an event loop, which reading a file would block.

    :param inputs: the rows; read in another thread than the one that gives them, and never by two at once.
    :param in_thread: does what blocks.
    """

    def __init__(self, inputs: Iterable[Input], in_thread: InThread = asyncio.to_thread) -> None:
        self._inputs = iter(inputs)
        self._in_thread = in_thread

    async def read(self, most: int) -> list[Input]:
        """
        Read on.

        :param most: how many rows at most.
        :returns: the next rows; fewer than that at the end.
        """
        rows: list[Input] = await self._in_thread(lambda: list(islice(self._inputs, most)))
        return rows
