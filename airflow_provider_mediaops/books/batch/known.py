"""
The look-ups that a list need not ask for, by ISBN: its own, for it may name a book many times, and earlier ones.

They are in two temporary files (:mod:`airflow_provider_mediaops.storage.scratch`): one has the records, the other their
places. Records are kept as they are written, so that a row that is taken from here is neither parsed nor encoded again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.books.models import Lookup, StoredBook
from airflow_provider_mediaops.storage.scratch import ScratchFile, naming_folder, scratch_database

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.books.models import Book, Status

# Start and size say where the record of a book is; they are NULL if there is no such book.
_CREATE_TABLE = (
    "CREATE TABLE known (isbn INTEGER PRIMARY KEY, own INTEGER, reused INTEGER, fetched INTEGER, error TEXT, "
    "start INTEGER, size INTEGER)"
)
_PUT = "INSERT OR REPLACE INTO known VALUES (?, 1, ?, ?, ?, ?, ?)"
# One statement looks for so many books.
_AT_ONCE = 50
_FIND = f"SELECT isbn, own, reused, fetched, error, start, size FROM known WHERE isbn IN ({','.join('?' * _AT_ONCE)})"  # noqa: S608 no value
# How many times are kept that were parsed or written last.
_TIMES = 1_024


class KnownLookup(NamedTuple):
    """
    A look-up that need not be made.

    It is taken without a request if it ``is_fresh``; if it is not, ``may_refresh`` says whether the budget has room.
    """

    lookup: Lookup
    is_fresh: bool = True
    may_refresh: bool = True


class KnownLookups:
    """The look-ups of one list by ISBN, in bounded memory; errors that name the folder of its files are ``OSError``."""

    def __init__(self) -> None:
        self.records = ScratchFile()
        self.database = scratch_database(_CREATE_TABLE)

    def put(self, lookup: Lookup) -> None:
        """Keep a look-up of this list, in place of whatever was known of the book."""
        record = lookup.book.json() if lookup.book else None
        start, size = (None, None) if record is None else (self.records.append(record), len(record))
        fetched, isbn13 = fetched_seconds(lookup.fetched_at), str(lookup.isbn13)
        with naming_folder():
            self.database.execute(_PUT, (int(isbn13), lookup.reused, fetched, lookup.error, start, size))

    def find(self, isbns: Sequence[str]) -> dict[str, KnownLookup]:
        """Return those of books. One call for many books takes less time than a call for each."""
        known: dict[str, KnownLookup] = {}
        for at in range(0, len(isbns), _AT_ONCE):
            numbers = [int(isbn13) for isbn13 in isbns[at : at + _AT_ONCE]]
            # Any ISBN may stand for those that the last statement lacks.
            numbers += numbers[:1] * (_AT_ONCE - len(numbers))
            with naming_folder():
                rows = self.database.execute(_FIND, numbers).fetchall()
            for isbn, own, reused, fetched, error, start, size in rows:
                book = None if start is None else StoredBook(self.records.read(start, size))
                isbn13, when, status = str(isbn), fetched_text(fetched), _status_of(book)
                lookup = Lookup(isbn13, isbn13, status, error, book, fetched_at=when, reused=bool(reused))
                known[isbn13] = KnownLookup(lookup) if own else self.earlier(lookup, fetched)
        return known

    def earlier(self, lookup: Lookup, fetched: int | None) -> KnownLookup:
        """Judge a look-up that this list has not made; ``fetched`` is its time in seconds since 1970."""
        return KnownLookup(lookup)

    def close(self) -> None:
        """Remove the temporary files."""
        self.database.close()
        self.records.close()


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The state of a list that an earlier attempt has left; without arguments, that of a new one."""

    known: KnownLookups = field(default_factory=KnownLookups)
    #: What it has learnt to doubt of 404s, as ``BatchUpdate.doubts`` had it.
    doubts: Mapping[str, Any] = field(default_factory=dict)


def _status_of(book: Book | None) -> Status:
    return "not_found" if book is None else "found"


# Rows of one run share their times.
@lru_cache(maxsize=_TIMES)
def fetched_text(fetched: int | None) -> str | None:
    """Return the time of a look-up as a row has it."""
    return None if fetched is None else datetime.fromtimestamp(fetched, timezone.utc).isoformat()


def fetched_seconds(text: object) -> int | None:
    """Return the time of a look-up in seconds since 1970; None if it is not known."""
    return _seconds_of(text) if isinstance(text, str) and text else None


@lru_cache(maxsize=_TIMES)
def _seconds_of(text: str) -> int | None:
    try:
        # The last day of the calendar may not exist in UTC, but has a number of seconds: no row is to be young by it.
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None
