"""Reuse earlier datasets: which look-ups are young enough, and which of the others the budget has room for."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from airflow_provider_mediaops.storage.formats import FORMATS, format_of, json_line
from airflow_provider_mediaops.storage.paths import is_same_file
from airflow_provider_mediaops.storage.scratch import ScratchFile, naming_folder, scratch_database
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, ReadOptions, SourceFile
from airflow_provider_mediaops.storage.source_list import read_dataset, version_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Status
    from airflow_provider_mediaops.storage.source_file import SourceRow

_ISBN13 = 13
# Start and size say where the record of a book is; they are NULL if there is no such book.
_CREATE_TABLE = (
    "CREATE TABLE earlier (isbn INTEGER PRIMARY KEY, fetched INTEGER, start INTEGER, size INTEGER, "
    "may_refresh INTEGER DEFAULT TRUE)"
)
# The look-up that was fetched last is kept; of two at the same time, the one that came first.
_PUT = (
    "INSERT INTO earlier (isbn, fetched, start, size) VALUES (?, ?, ?, ?) ON CONFLICT (isbn) DO UPDATE SET "
    "fetched = excluded.fetched, start = excluded.start, size = excluded.size "
    "WHERE coalesce(excluded.fetched, 0) > coalesce(fetched, 0)"
)
# One statement looks for so many books.
_AT_ONCE = 50
_FIND = "SELECT isbn, fetched, start, size, may_refresh FROM earlier WHERE isbn IN"
_NEW = "SELECT count(*) FROM listed WHERE isbn NOT IN (SELECT isbn FROM earlier)"
_STALE = "SELECT count(*) FROM listed JOIN earlier USING (isbn) WHERE NOT is_fresh(size IS NOT NULL, fetched)"
# All but the stalest, for which there is room.
_POSTPONE = (
    "UPDATE earlier SET may_refresh = FALSE WHERE isbn IN (SELECT isbn FROM listed JOIN earlier USING (isbn) "
    "WHERE NOT is_fresh(size IS NOT NULL, fetched) ORDER BY coalesce(fetched, 0), isbn LIMIT -1 OFFSET ?)"
)
_ROWS_AT_A_TIME = 5_000
_CLOCKS_DIFFER_SECONDS = 86_400


def earlier_dataset(path: str, destination: str, format: str | None) -> SourceFile:
    """Find out the format of an earlier dataset, which may be the destination itself."""
    known = next((each for each in FORMATS if path.lower().endswith(f".{each}")), None)
    if format is not None and is_same_file(path, destination):
        known = format_of(path, format)
    if known is None:
        suffixes = ", ".join(f".{each}" for each in FORMATS)
        raise InvalidArgumentError(
            f"reuse {unsigned(path)!r} ends in none of {suffixes}: name a dataset as this operator writes it."
        )
    # A dataset is known by these columns.
    keep = ("input", "status", "error", "book" if known == "jsonl" else "record", "fetched_at")
    return SourceFile(path, known, ReadOptions(["isbn13"], ",", keep=keep), is_dataset=True)


def check_dataset(file: SourceFile) -> None:
    """Make sure that a file, if there is one, is a dataset of an enrichment; only its beginning is read."""
    with suppress(FileNotFoundError):
        next(_rows_of(file), None)


def lookups_of(file: SourceFile) -> Iterator[tuple[int, int | None, bytes | None]]:
    """
    Read the look-ups of a dataset that are certain.

    Each is the ISBN, the time in seconds since 1970 if it is known, and the record as JSON if there is one.
    """
    for row in _rows_of(file):
        isbn13, columns = row.text, row.columns or {}
        status, fetched = columns.get("status"), _seconds(columns.get("fetched_at"))
        if len(isbn13) != _ISBN13 or not (isbn13.isascii() and isbn13.isdecimal()):
            continue
        # One with an error was only left out of a bulk reply.
        if status == "not_found" and not columns.get("error"):
            yield int(isbn13), fetched, None
        elif status == "found" and (record := _record_of(columns)) is not None:
            yield int(isbn13), fetched, record


def _rows_of(file: SourceFile) -> Iterator[SourceRow]:
    version = None
    try:
        version = version_of([file])
        yield from read_dataset(file)
    except InvalidSourceError as error:
        if version and version_of([file]) != version:
            # Parts of both may have come, so each may be whole.
            what = f"reuse {unsigned(file.path)} was replaced while it was read; the next attempt reads the new one"
            raise OSError(errno.ESTALE, what) from None
        raise InvalidArgumentError(
            "reuse names a file that is not a whole dataset of EnrichIsbnsOperator. "
            f"{str(error).removeprefix(f'{file.role} ')} Name one that this operator has written, or leave reuse out."
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


class EarlierIndex:
    """
    The look-ups of earlier datasets by ISBN, in two temporary files: one has the records, the other their places.

    One that found a book is fresh if it is younger than ``found_seconds``, at a time in seconds since 1970. An OSError
    names the folder of temporary files.
    """

    def __init__(self, at: float, found_seconds: float, not_found_seconds: float) -> None:
        self._at, self._found_seconds, self._not_found_seconds = at, found_seconds, not_found_seconds
        self._records = ScratchFile()
        self._database = scratch_database(_CREATE_TABLE)
        self._database.create_function("is_fresh", 2, self._is_fresh)

    def read(self, datasets: Iterable[SourceFile], log: Callable[[str], None], warn: Callable[[str], None]) -> None:
        """Read datasets."""
        for dataset in datasets:
            log(f"Reading earlier look-ups from {unsigned(dataset.path)}.")
            try:
                self._put(_PUT, map(self._stored, lookups_of(dataset)))
            except FileNotFoundError:
                warn(f"There is no dataset at {unsigned(dataset.path)}: nothing is reused from it.")
        books = self._number("SELECT count(*) FROM earlier")
        log(f"Earlier datasets hold the look-ups of {counted(books, 'ISBN')}.")

    def _put(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        rows = iter(rows)
        # In the order of the table, which saves looking for the place of each row.
        while batch := sorted(islice(rows, _ROWS_AT_A_TIME), key=itemgetter(0)):
            with naming_folder():
                self._database.executemany(statement, batch)

    def _stored(self, lookup: tuple[int, int | None, bytes | None]) -> tuple[int, int | None, int | None, int | None]:
        isbn, fetched, record = lookup
        if fetched is not None and fetched > self._at + _CLOCKS_DIFFER_SECONDS:
            # A clock was wrong: it would stay fresh until then.
            fetched = None
        if record is None:
            return isbn, fetched, None, None
        return isbn, fetched, self._records.write([record]).start, len(record)

    def _is_fresh(self, found: bool, fetched: int | None) -> bool:  # noqa: FBT001 SQLite calls it by position
        limit = self._found_seconds if found else self._not_found_seconds
        # Clocks differ: a look-up of the next minutes is as young as one of this moment.
        return fetched is not None and max(self._at - fetched, 0) < limit

    def is_stale(self, lookup: Lookup) -> bool:
        """Return whether the look-up of a row was reused although it is too old."""
        return lookup.reused and not self._is_fresh(lookup.status == "found", _seconds(lookup.fetched_at))

    def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
        """Return the look-ups of books."""
        found: dict[str, EarlierLookup] = {}
        for first in range(0, len(isbns), _AT_ONCE):
            numbers = list(map(int, isbns[first : first + _AT_ONCE]))
            with naming_folder():
                rows = self._database.execute(f"{_FIND} ({', '.join('?' * len(numbers))})", numbers).fetchall()
            found |= {str(row[0]): self._lookup(*row) for row in rows}
        return found

    def _lookup(
        self, isbn: int, fetched: int | None, start: int | None, size: int | None, may_refresh: int
    ) -> EarlierLookup:
        book = None if start is None or size is None else Book(parse_json(self._records.read(start, size)))
        at = None if fetched is None else datetime.fromtimestamp(fetched, timezone.utc).isoformat()
        status: Status = "not_found" if book is None else "found"
        lookup = Lookup(str(isbn), str(isbn), status, book=book, fetched_at=at, reused=True)
        return EarlierLookup(lookup, stays=not may_refresh or self._is_fresh(book is not None, fetched))

    def postpone_beyond(self, isbns: Iterable[str], requests: float) -> tuple[int, int]:
        """
        Postpone the look-ups that a budget has no room for: it is for new books first, then for the oldest look-ups.

        Return how many books of a list no dataset holds, and how many look-ups are too old.
        """
        with naming_folder():
            self._database.execute("CREATE TABLE listed (isbn INTEGER PRIMARY KEY)")
        self._put("INSERT OR IGNORE INTO listed VALUES (?)", ((int(isbn13),) for isbn13 in isbns))
        new, stale = self._number(_NEW), self._number(_STALE)
        with naming_folder():
            self._database.execute(_POSTPONE, (max(0, int(requests) - new),))
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
