"""Check a list of ISBNs without the service: what it holds, what is wrong with it, and what looking it up will cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.books.api import PLANS
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.rows import IsbnRow

_AT_ONCE = 5_000
_CREATE_TABLE = "CREATE TABLE books (isbn INTEGER PRIMARY KEY, times INTEGER, row INTEGER)"
_COUNT = "INSERT INTO books VALUES (?, 1, ?) ON CONFLICT (isbn) DO UPDATE SET times = times + 1"
_REPEATED = "SELECT isbn, times FROM books WHERE times > 1 ORDER BY row LIMIT ?"
# How many reasons are told apart, and how many of them a warning names.
_MAX_REASONS, _NAMED_REASONS = 1_000, 3
_MANY_INVALID = 0.05
_LONGEST_EXAMPLE = 60


@dataclass(slots=True)
class InvalidReason:
    """A reason why rows hold no ISBN of a book: how many rows, and the text and the place of the first."""

    reason: str
    rows: int
    example: str
    place: str


@dataclass(slots=True)
class ListFigures:
    """What is in a list: the figures that grow with each row."""

    rows: int = 0
    isbns: int = 0
    missing: int = 0
    invalid: int = 0
    #: The rows whose cell holds more than one book, and those with zeros that were put back.
    noted: int = 0
    _reasons: dict[str, InvalidReason] = field(default_factory=dict)

    def add(self, row: IsbnRow) -> None:
        """Count a row."""
        self.rows += 1
        if row.isbn13:
            self.isbns += 1
            self.noted += row.note is not None
        elif row.error:
            self.invalid += 1
            reason = row.reason or row.error
            if known := self._reasons.get(reason):
                known.rows += 1
            elif len(self._reasons) < _MAX_REASONS:
                self._reasons[reason] = InvalidReason(reason, 1, shortened(row.text), row.place)
        else:
            self.missing += 1

    @property
    def reasons(self) -> list[InvalidReason]:
        """The commonest reasons, the first first."""
        return sorted(self._reasons.values(), key=lambda each: -each.rows)[:_NAMED_REASONS]

    def line(self) -> str:
        """Return the figures in words."""
        noted = f" ({self.noted:,} of them with a note)" if self.noted else ""
        rows, isbns = counted(self.rows, "row"), counted(self.isbns, "ISBN")
        return f"{rows}, {isbns}{noted}, {self.missing:,} missing, {self.invalid:,} invalid"

    def reasons_line(self) -> str:
        """Return the commonest reasons in words, each with an example."""
        return "; ".join(f"{each.rows:,}x {each.reason} ({each.place}: {each.example!r})" for each in self.reasons)

    def warning(self) -> str | None:
        """Return a warning if many rows are invalid, or no row holds an ISBN."""
        if self.rows and not self.isbns:
            why = f": {self.reasons_line()}" if self.invalid else ""
            return f"Of {counted(self.rows, 'row')}, none holds an ISBN ({self.missing:,} empty){why}."
        if self.invalid > _MANY_INVALID * self.rows:
            return f"{self.invalid:,} of {self.rows:,} rows hold no ISBN: {self.reasons_line()}."
        return None


def shortened(text: str) -> str:
    """Return the start of a text that would be too long for a table or a message."""
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[: _LONGEST_EXAMPLE - 1]}…"


class ListCheck(NamedTuple):
    """The result of a check: the figures, how many different books, and the first that are invalid or repeated."""

    figures: ListFigures
    first_invalid: list[IsbnRow]
    books: int
    repeated: int
    first_repeated: list[tuple[int, int]]  # the ISBN of each, and how often it is there


def check_list(rows: Iterable[IsbnRow], limit: int) -> ListCheck:
    """Check a list of any length in bounded memory; the books are counted in a temporary file."""
    figures, remaining = ListFigures(), iter(rows)
    first_invalid: list[IsbnRow] = []
    with closing(scratch_database(_CREATE_TABLE)) as database:
        while batch := list(islice(remaining, _AT_ONCE)):
            for row in batch:
                figures.add(row)
                if row.error and len(first_invalid) < limit:
                    first_invalid.append(row)
            with naming_folder():
                database.executemany(_COUNT, [(int(row.isbn13), row.number) for row in batch if row.isbn13])
        with naming_folder():
            books, repeated = database.execute("SELECT count(*), coalesce(sum(times > 1), 0) FROM books").fetchone()
            found = database.execute(_REPEATED, (limit,)).fetchall()
    return ListCheck(figures, first_invalid, books, repeated, found)


@dataclass(frozen=True, slots=True)
class LookupCost:
    """What it costs to look books up, if the service answers each request."""

    plan: str
    requests_per_second: float
    bulk: bool
    requests: int
    #: How much of the key's daily quota is used, all days together.
    quota: int
    seconds: float


def lookup_cost(books: int, plan: str, *, bulk: bool = False) -> LookupCost:
    """Return what it costs to look books up."""
    rate, bulk_size = PLANS[plan]
    requests = math.ceil(books / bulk_size) if bulk else books
    return LookupCost(plan, rate, bulk, requests, books, requests / rate)
