"""Reuse of earlier look-ups: which are young enough, and which of the others the budget of requests has room for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.books.batch.options import EarlierLookup
from airflow_provider_mediaops.books.models import Book, Lookup, Status
from airflow_provider_mediaops.enrichment.earlier_datasets import (
    EarlierDataset,
    EarlierRow,
    fetched_seconds,
    fetched_text,
)
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.scratch import ScratchFile, naming_folder, scratch_database

# Start and size say where the record of a book is; they are NULL if there is no such book.
_CREATE_TABLE = "CREATE TABLE earlier (isbn INTEGER PRIMARY KEY, fetched INTEGER, start INTEGER, size INTEGER)"
# The look-up that was fetched last is kept; of two at the same time, the one that came first.
_PUT = (
    "INSERT INTO earlier VALUES (?, ?, ?, ?) ON CONFLICT (isbn) DO UPDATE SET fetched = excluded.fetched, "
    "start = excluded.start, size = excluded.size WHERE coalesce(excluded.fetched, 0) > coalesce(fetched, 0)"
)
# One statement looks for so many books.
_AT_ONCE = 50
_FIND = "SELECT isbn, fetched, start, size FROM earlier WHERE isbn IN"
_STALE = "FROM listed JOIN earlier USING (isbn) WHERE NOT is_fresh(size IS NOT NULL, fetched)"
_ROWS_AT_A_TIME = 5_000
_CLOCKS_DIFFER_SECONDS = 86_400

# The time of a look-up in seconds since 1970 (0 if it is not known), and its book: the order of the stalest.
_Place = tuple[int, int]
_LAST_PLACE: _Place = (2**63, 0)


@dataclass(frozen=True, slots=True)
class ReuseRule:
    """Which look-ups are young enough at a time, in seconds since 1970; with an age of 0, none is."""

    at: float
    found_seconds: float
    not_found_seconds: float

    def is_fresh(self, found: bool, fetched: int | None) -> bool:  # noqa: FBT001 SQLite calls it by position
        """Return whether a look-up is taken without a request."""
        limit = self.found_seconds if found else self.not_found_seconds
        # Clocks differ: a look-up of the next minutes is as young as one of this moment.
        return fetched is not None and max(self.at - fetched, 0) < limit

    def is_stale(self, lookup: Lookup) -> bool:
        """Return whether the look-up of a row was reused although it is too old."""
        return lookup.reused and not self.is_fresh(lookup.status == "found", fetched_seconds(lookup.fetched_at))


class EarlierIndex:
    """
    The look-ups of earlier datasets by ISBN, in two temporary files: one has the records, the other their places.

    Those that are young enough by the rule are kept. An OSError names the folder of temporary files.
    """

    def __init__(self, rule: ReuseRule) -> None:
        self._rule = rule
        self._records = ScratchFile()
        self._database = scratch_database(_CREATE_TABLE)
        self._database.create_function("is_fresh", 2, rule.is_fresh)
        # Of the look-ups that are too old, the last that may be asked for, from the stalest on; None for none.
        self._refreshed_to: _Place | None = _LAST_PLACE

    def fill(self, rows: Iterable[EarlierRow]) -> None:
        """Add the rows of a dataset."""
        values = map(self._stored, rows)
        # In the order of the table, which saves looking for the place of each row.
        while batch := sorted(islice(values, _ROWS_AT_A_TIME), key=itemgetter(0)):
            with naming_folder():
                self._database.executemany(_PUT, batch)

    def _stored(self, row: EarlierRow) -> tuple[int, int | None, int | None, int | None]:
        fetched, record = row.fetched, row.record
        if fetched is not None and fetched > self._rule.at + _CLOCKS_DIFFER_SECONDS:
            # A clock was wrong: it would stay fresh until then.
            fetched = None
        if record is None:
            return int(row.isbn13), fetched, None, None
        return int(row.isbn13), fetched, self._records.append(record), len(record)

    def count(self) -> int:
        """Return the number of books, by counting them."""
        with naming_folder():
            return self._number("SELECT count(*) FROM earlier")

    def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
        """Return the look-ups of books."""
        found: dict[str, EarlierLookup] = {}
        for first in range(0, len(isbns), _AT_ONCE):
            numbers = list(map(int, isbns[first : first + _AT_ONCE]))
            with naming_folder():
                rows = self._database.execute(f"{_FIND} ({', '.join('?' * len(numbers))})", numbers).fetchall()
            found |= {str(isbn): self._lookup(isbn, fetched, start, size) for isbn, fetched, start, size in rows}
        return found

    def _lookup(self, isbn: int, fetched: int | None, start: int | None, size: int | None) -> EarlierLookup:
        book = None if start is None or size is None else Book(parse_json(self._records.read(start, size)))
        status: Status = "not_found" if book is None else "found"
        lookup = Lookup(str(isbn), str(isbn), status, book=book, fetched_at=fetched_text(fetched), reused=True)
        may_refresh = self._refreshed_to is not None and (fetched or 0, isbn) <= self._refreshed_to
        return EarlierLookup(lookup, self._rule.is_fresh(book is not None, fetched), may_refresh)

    def plan(self, isbns: Iterable[str], requests: float) -> tuple[int, int]:
        """
        Find out what a budget has room for: first new books, then those whose look-up is the oldest.

        Return how many books of a list no dataset holds, and how many look-ups are too old.
        """
        listed = ((int(isbn13),) for isbn13 in isbns)
        with naming_folder():
            self._database.execute("CREATE TABLE listed (isbn INTEGER PRIMARY KEY)")
        while batch := sorted(islice(listed, _ROWS_AT_A_TIME)):
            with naming_folder():
                self._database.executemany("INSERT OR IGNORE INTO listed VALUES (?)", batch)
        with naming_folder():
            new = self._number("SELECT count(*) FROM listed WHERE isbn NOT IN (SELECT isbn FROM earlier)")
            stale = self._number(f"SELECT count(*) {_STALE}")
            places = f"SELECT coalesce(fetched, 0), isbn {_STALE} ORDER BY 1, 2 LIMIT 1 OFFSET ?"
            room = int(min(requests - new, stale))
            self._refreshed_to = self._database.execute(places, (room - 1,)).fetchone() if room > 0 else None
            self._database.execute("DROP TABLE listed")
        return new, stale

    def _number(self, query: str) -> int:
        number: int = self._database.execute(query).fetchone()[0]
        return number

    def close(self) -> None:
        """Remove the temporary files."""
        self._database.close()
        self._records.close()


def read_index(
    datasets: Iterable[EarlierDataset], rule: ReuseRule, log: Callable[[str], None], warn: Callable[[str], None]
) -> EarlierIndex:
    """Read earlier datasets into an index."""
    index = EarlierIndex(rule)
    try:
        for dataset in datasets:
            log(f"Reading earlier look-ups from {unsigned(dataset.path)}.")
            try:
                index.fill(dataset.rows())
            except FileNotFoundError:
                warn(f"There is no dataset at {unsigned(dataset.path)}: nothing is reused from it.")
    except BaseException:
        index.close()
        raise
    log(f"Earlier datasets hold the look-ups of {counted(index.count(), 'ISBN')}.")
    return index
