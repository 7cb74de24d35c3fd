"""Reuse earlier datasets: which look-ups are young enough, and which of the others the budget has room for."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_iso_time, unsigned
from airflow_provider_mediaops.books.batch.options import EarlierLookup
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.formats import FORMATS, Format, format_of, json_line
from airflow_provider_mediaops.storage.paths import is_same_file
from airflow_provider_mediaops.storage.scratch import ScratchFile, naming_folder, scratch_database
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, ReadOptions, SourceFile
from airflow_provider_mediaops.storage.source_list import read_dataset, version_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Status
    from airflow_provider_mediaops.storage.source_file import SourceRow

_ISBN13 = 13
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
class EarlierDataset:
    """A dataset of an earlier enrichment, of which the look-ups can be used that are certain."""

    path: str
    format: Format

    @classmethod
    def at(cls, path: str, destination: str, format: str | None) -> EarlierDataset:
        """Find out the format of a dataset, which may be the destination itself."""
        if format is not None and is_same_file(path, destination):
            return cls(path, format_of(path, format))
        for known in FORMATS:
            if path.lower().endswith(f".{known}"):
                return cls(path, known)
        suffixes = ", ".join(f".{known}" for known in FORMATS)
        raise InvalidArgumentError(
            f"reuse {unsigned(path)!r} ends in none of {suffixes}: name a dataset as this operator writes it."
        )

    def check(self) -> None:
        """Make sure that the file, if there is one, is a dataset of an enrichment; only its beginning is read."""
        with suppress(FileNotFoundError):
            next(self._rows(), None)

    def lookups(self) -> Iterator[tuple[int, int | None, bytes | None]]:
        """Read the look-ups: the ISBN, the time in seconds since 1970 if it is known, the record as JSON if found."""
        for row in self._rows():
            isbn13, columns = row.text, row.columns or {}
            status, fetched = columns.get("status"), _seconds(columns.get("fetched_at"))
            if len(isbn13) != _ISBN13 or not (isbn13.isascii() and isbn13.isdecimal()):
                continue
            # One with an error was only left out of a bulk reply.
            if status == "not_found" and not columns.get("error"):
                yield int(isbn13), fetched, None
            elif status == "found" and (record := _record_of(columns)) is not None:
                yield int(isbn13), fetched, record

    def _rows(self) -> Iterator[SourceRow]:
        # A dataset is known by these columns.
        keep = ("input", "status", "error", "book" if self.format == "jsonl" else "record", "fetched_at")
        file = SourceFile(self.path, self.format, ReadOptions(["isbn13"], ",", keep=keep), is_dataset=True)
        version = None
        try:
            version = version_of([file])
            yield from read_dataset(file)
        except InvalidSourceError as error:
            if version and version_of([file]) != version:
                # Parts of both may have come, so each may be whole.
                what = f"reuse {unsigned(self.path)} was replaced while it was read; the next attempt reads the new one"
                raise OSError(errno.ESTALE, what) from None
            raise InvalidArgumentError(
                "reuse names a file that is not a whole dataset of EnrichIsbnsOperator. "
                f"{str(error).removeprefix(f'{file.role} ')} Name one that this operator has written, or leave reuse "
                "out."
            ) from error


def _seconds(text: object) -> int | None:
    """Return the time of a look-up in seconds since 1970; None if it cannot be read."""
    moment = read_iso_time(text)
    return int(moment.timestamp()) if moment and moment.timestamp() >= 0 else None


def _record_of(row: Mapping[str, Any]) -> bytes | None:
    """Return the book's record as JSON on one line; None if there is none."""
    book, text = row.get("book"), row.get("record")
    if isinstance(text, str):
        # A spreadsheet may have cut a long record off: that book is asked for again.
        with suppress(ValueError):
            book = parse_json(text.encode())
    return json_line(book) if isinstance(book, dict) else None


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
        return lookup.reused and not self.is_fresh(lookup.status == "found", _seconds(lookup.fetched_at))


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

    @classmethod
    def of(
        cls,
        datasets: Iterable[EarlierDataset],
        rule: ReuseRule,
        log: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> EarlierIndex:
        """Read datasets into an index."""
        index = cls(rule)
        try:
            for dataset in datasets:
                log(f"Reading earlier look-ups from {unsigned(dataset.path)}.")
                try:
                    index._put(_PUT, map(index._stored, dataset.lookups()))
                except FileNotFoundError:
                    warn(f"There is no dataset at {unsigned(dataset.path)}: nothing is reused from it.")
            books = index._number("SELECT count(*) FROM earlier")
            log(f"Earlier datasets hold the look-ups of {counted(books, 'ISBN')}.")
        except BaseException:
            index.close()
            raise
        return index

    def _put(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        rows = iter(rows)
        # In the order of the table, which saves looking for the place of each row.
        while batch := sorted(islice(rows, _ROWS_AT_A_TIME), key=itemgetter(0)):
            with naming_folder():
                self._database.executemany(statement, batch)

    def _stored(self, lookup: tuple[int, int | None, bytes | None]) -> tuple[int, int | None, int | None, int | None]:
        isbn, fetched, record = lookup
        if fetched is not None and fetched > self._rule.at + _CLOCKS_DIFFER_SECONDS:
            # A clock was wrong: it would stay fresh until then.
            fetched = None
        if record is None:
            return isbn, fetched, None, None
        return isbn, fetched, self._records.append(record), len(record)

    def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
        """Return the look-ups of books."""
        found: dict[str, EarlierLookup] = {}
        for first in range(0, len(isbns), _AT_ONCE):
            numbers = list(map(int, isbns[first : first + _AT_ONCE]))
            with naming_folder():
                rows = self._database.execute(f"{_FIND} ({', '.join('?' * len(numbers))})", numbers).fetchall()
            found |= {str(row[0]): self._lookup(*row) for row in rows}
        return found

    def _lookup(self, isbn: int, fetched: int | None, start: int | None, size: int | None) -> EarlierLookup:
        book = None if start is None or size is None else Book(parse_json(self._records.read(start, size)))
        status: Status = "not_found" if book is None else "found"
        at = None if fetched is None else datetime.fromtimestamp(fetched, timezone.utc).isoformat()
        lookup = Lookup(str(isbn), str(isbn), status, book=book, fetched_at=at, reused=True)
        may_refresh = self._refreshed_to is not None and (fetched or 0, isbn) <= self._refreshed_to
        return EarlierLookup(lookup, self._rule.is_fresh(book is not None, fetched), may_refresh)

    def plan(self, isbns: Iterable[str], requests: float) -> tuple[int, int]:
        """
        Find out what a budget has room for: first new books, then those whose look-up is the oldest.

        Return how many books of a list no dataset holds, and how many look-ups are too old.
        """
        with naming_folder():
            self._database.execute("CREATE TABLE listed (isbn INTEGER PRIMARY KEY)")
        self._put("INSERT OR IGNORE INTO listed VALUES (?)", ((int(isbn13),) for isbn13 in isbns))
        new = self._number("SELECT count(*) FROM listed WHERE isbn NOT IN (SELECT isbn FROM earlier)")
        stale = self._number(f"SELECT count(*) {_STALE}")
        places = f"SELECT coalesce(fetched, 0), isbn {_STALE} ORDER BY 1, 2 LIMIT 1 OFFSET ?"
        room = int(min(requests - new, stale))
        with naming_folder():
            self._refreshed_to = self._database.execute(places, (room - 1,)).fetchone() if room > 0 else None
            self._database.execute("DROP TABLE listed")
        return new, stale

    def _number(self, query: str) -> int:
        with naming_folder():
            number: int = self._database.execute(query).fetchone()[0]
        return number

    def close(self) -> None:
        """Remove the temporary files."""
        self._database.close()
        self._records.close()
