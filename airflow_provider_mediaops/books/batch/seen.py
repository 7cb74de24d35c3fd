"""What was looked up before: a list may name a book many times, and it is asked for once."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

if TYPE_CHECKING:
    import sqlite3

    from airflow_provider_mediaops.books.models import Status

# How many are kept in memory; those that were not wanted for longest go to the disk.
_RECENT = 512
_CREATE_TABLE = "CREATE TABLE outcomes (isbn INTEGER PRIMARY KEY, outcome BLOB NOT NULL)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What looking up a book came to, whichever row asked for it.

    :param status: ``found``, ``not_found`` or ``failed``.
    :param error: why it failed, or what is to be known of it.
    :param book: the record, if it was found.
    """

    status: Status
    error: str | None = None
    book: Book | None = None


class Known:
    """
    The outcomes of all look-ups of one run, in memory that does not grow.

    The older ones are in a file without a name, which goes with the process, however that ends.

    :param recent: how many are kept in memory.
    """

    def __init__(self, recent: int = _RECENT) -> None:
        self._most = recent
        self._recent: OrderedDict[str, Outcome] = OrderedDict()
        self._older: sqlite3.Connection | None = None

    def get(self, isbn13: str) -> Outcome | None:
        """
        Give what looking up a book came to.

        :param isbn13: the book.
        :returns: the outcome; None where the book was not looked up.
        :raises OSError: where the file of the older ones cannot be read; the message names the folder.
        """
        outcome = self._recent.get(isbn13)
        if outcome is not None:
            self._recent.move_to_end(isbn13)
        elif self._older:
            with naming_folder():
                row = self._older.execute("SELECT outcome FROM outcomes WHERE isbn = ?", (int(isbn13),)).fetchone()
            if row:
                outcome = _unpacked(row[0])
                self.put(isbn13, outcome)
        return outcome

    def put(self, isbn13: str, outcome: Outcome) -> None:
        """
        Keep what looking up a book came to.

        :param isbn13: the book.
        :param outcome: what it came to.
        :raises OSError: where the file of the older ones cannot be written; the message names the folder.
        """
        self._recent[isbn13] = outcome
        if len(self._recent) > self._most:
            self._put_away(*self._recent.popitem(last=False))

    def close(self) -> None:
        """Forget everything."""
        self._recent.clear()
        if self._older:
            self._older.close()
            self._older = None

    def _put_away(self, isbn13: str, outcome: Outcome) -> None:
        if self._older is None:
            self._older = scratch_database(_CREATE_TABLE)
        with naming_folder():
            self._older.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (int(isbn13), _packed(outcome)))


def _packed(outcome: Outcome) -> bytes:
    return zlib.compress(json_line((outcome.status, outcome.error, outcome.book and outcome.book.record)), 1)


def _unpacked(data: bytes) -> Outcome:
    status, error, record = parse_json(zlib.decompress(data))
    return Outcome(status, error, None if record is None else Book(record))
