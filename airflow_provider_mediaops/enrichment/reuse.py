"""Reuse of earlier look-ups: which are young enough, and which of the others the budget of requests has room for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.books.batch.known import KnownLookup, KnownLookups, fetched_seconds
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.scratch import naming_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.enrichment.earlier_datasets import EarlierDataset, EarlierRow

# The look-up that was fetched last is kept; of two at the same time, the one that came first.
_PUT = (
    "INSERT INTO known VALUES (?, 0, 1, ?, NULL, ?, ?) ON CONFLICT (isbn) DO UPDATE SET fetched = excluded.fetched, "
    "start = excluded.start, size = excluded.size WHERE coalesce(excluded.fetched, 0) > coalesce(fetched, 0)"
)
_STALE = "FROM listed JOIN known USING (isbn) WHERE NOT own AND NOT is_fresh(fetched, start)"
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

    def is_fresh(self, *, found: bool, fetched: int | None) -> bool:
        """Return whether a look-up is taken without a request."""
        limit = self.found_seconds if found else self.not_found_seconds
        # Clocks differ: a look-up of the next minutes is as young as one of this moment.
        return fetched is not None and max(self.at - fetched, 0) < limit

    def trusted_time(self, fetched: int | None) -> int | None:
        """
        Return the time of a look-up; None if it is more than a day ahead, because a clock was wrong.

        It would stay fresh until then.
        """
        return None if fetched is not None and fetched > self.at + _CLOCKS_DIFFER_SECONDS else fetched

    def is_stale(self, lookup: Lookup) -> bool:
        """Return whether the look-up of a row was reused although it is too old."""
        fetched = fetched_seconds(lookup.fetched_at)
        return lookup.reused and not self.is_fresh(found=lookup.status == "found", fetched=fetched)


class ReusedLookups(KnownLookups):
    """The look-ups of earlier datasets beside those of the list; the rule says which of them are young enough."""

    def __init__(self, rule: ReuseRule) -> None:
        super().__init__()
        self._rule = rule
        self.database.create_function(
            "is_fresh", 2, lambda fetched, start: rule.is_fresh(found=start is not None, fetched=fetched)
        )
        # Of the look-ups that are too old, the last that may be asked for, from the stalest on; None for none.
        self._refreshed_to: _Place | None = _LAST_PLACE

    def fill(self, rows: Iterable[EarlierRow]) -> None:
        """Add the rows of a dataset."""
        values = map(self._stored, rows)
        # In the order of the table, which saves looking for the place of each row.
        while batch := sorted(islice(values, _ROWS_AT_A_TIME), key=itemgetter(0)):
            with naming_folder():
                self.database.executemany(_PUT, batch)

    def count(self) -> int:
        """Return the number of books, by counting them."""
        return self._number("SELECT count(*) FROM known")

    def earlier(self, lookup: Lookup, fetched: int | None) -> KnownLookup:
        """Judge a look-up by its age, and by the plan."""
        is_fresh = self._rule.is_fresh(found=lookup.status == "found", fetched=fetched)
        place = (fetched or 0, int(lookup.input))
        return KnownLookup(lookup, is_fresh, self._refreshed_to is not None and place <= self._refreshed_to)

    def plan(self, isbns: Iterable[str], requests: float) -> tuple[int, int]:
        """
        Find out what a budget has room for: first new books, then those whose look-up is the oldest.

        Return how many books of a list no dataset holds, and how many look-ups are too old.
        """
        listed = ((int(isbn13),) for isbn13 in isbns)
        with naming_folder():
            self.database.execute("CREATE TABLE listed (isbn INTEGER PRIMARY KEY)")
        while batch := sorted(islice(listed, _ROWS_AT_A_TIME)):
            with naming_folder():
                self.database.executemany("INSERT OR IGNORE INTO listed VALUES (?)", batch)
        with naming_folder():
            new = self._number("SELECT count(*) FROM listed WHERE isbn NOT IN (SELECT isbn FROM known)")
            stale = self._number(f"SELECT count(*) {_STALE}")
            places = f"SELECT coalesce(fetched, 0), isbn {_STALE} ORDER BY 1, 2 LIMIT 1 OFFSET ?"
            room = int(min(requests - new, stale))
            self._refreshed_to = self.database.execute(places, (room - 1,)).fetchone() if room > 0 else None
            self.database.execute("DROP TABLE listed")
        return new, stale

    def _number(self, query: str) -> int:
        with naming_folder():
            number: int = self.database.execute(query).fetchone()[0]
        return number

    def _stored(self, row: EarlierRow) -> tuple[int, int | None, int | None, int | None]:
        fetched, record = self._rule.trusted_time(row.fetched), row.record
        start, size = (None, None) if record is None else (self.records.append(record), len(record))
        return int(row.isbn13), fetched, start, size


def read_earlier(
    datasets: Iterable[EarlierDataset], rule: ReuseRule, log: Callable[[str], None], warn: Callable[[str], None]
) -> ReusedLookups:
    """Read earlier datasets."""
    known = ReusedLookups(rule)
    try:
        for dataset in datasets:
            if dataset.version is None:
                warn(f"There is no dataset at {unsigned(dataset.path)}: nothing is reused from it.")
            else:
                log(f"Reading earlier look-ups from {unsigned(dataset.path)}.")
            known.fill(dataset.rows())
        log(f"Earlier datasets hold the look-ups of {counted(known.count(), 'ISBN')}.")
    except BaseException:
        known.close()
        raise
    return known
