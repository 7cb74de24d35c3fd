"""What was looked up before: a list may name a book many times, and it is asked for once."""

from __future__ import annotations

import sqlite3
import tempfile
import zlib
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.books.models import Status

# How many are kept in memory; those that were not wanted for longest go to the disk.
_RECENT = 512


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
            with _naming_the_folder():
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
        with _naming_the_folder():
            if self._older is None:
                self._older = _opened()
            self._older.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (int(isbn13), _packed(outcome)))


def _opened() -> sqlite3.Connection:
    # An empty name is a file of SQLite's own in the folder for temporary files, removed as soon as it is open.
    database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    # Nothing of it has to outlive the process, so that nothing is written twice or waited for.
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -4096"):
        database.execute(f"PRAGMA {pragma}")
    database.execute("CREATE TABLE outcomes (isbn INTEGER PRIMARY KEY, outcome BLOB NOT NULL)")
    database.execute("BEGIN")
    return database


@contextmanager
def _naming_the_folder() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(
            f"The folder for temporary files, {tempfile.gettempdir()}, cannot hold the books that were looked up: "
            f"{error}. Give it room, or set TMPDIR to a larger one."
        ) from error


def _packed(outcome: Outcome) -> bytes:
    return zlib.compress(json_line((outcome.status, outcome.error, outcome.book and outcome.book.record)), 1)


def _unpacked(data: bytes) -> Outcome:
    status, error, record = parse_json(zlib.decompress(data))
    return Outcome(status, error, None if record is None else Book(record))
