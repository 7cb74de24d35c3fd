"""How a list of ISBNs is looked up: how far ahead, in what bounds, and what was looked up before."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

#: The pauses in seconds after which a book that got no answer is retried.
RETRY_AFTER_SECONDS = (10.0, 40.0, 120.0)

_CREATE_TABLE = "CREATE TABLE lookups (isbn INTEGER PRIMARY KEY, lookup BLOB NOT NULL)"
_PUT = "INSERT OR REPLACE INTO lookups VALUES (?, ?)"
_GET = "SELECT lookup FROM lookups WHERE isbn = ?"


class RequestsSpentError(TemporaryError):
    """No more requests may be sent: the budget is spent."""


@dataclass(slots=True)
class RequestBudget:
    """The number of requests that all attempts may send. A bulk request counts as one for each of its books."""

    limit: float = inf
    spent: int = 0

    @property
    def left(self) -> float:
        """How many requests may still be sent."""
        return max(0, self.limit - self.spent)

    def spend(self, requests: int) -> None:
        """Count requests that are sent now; raise :class:`RequestsSpentError` if they must not be."""
        if requests > self.left:
            raise RequestsSpentError("max_requests allows no more requests.")
        self.spent += requests


class EarlierLookup(NamedTuple):
    """A look-up that an earlier dataset holds."""

    lookup: Lookup
    stays: bool  # because it is fresh, or no request is left to refresh it


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a list is looked up."""

    window: int = 1_000  # the most rows that are read and not handed out
    ahead: int = 100  # rows that are read ahead of the requests
    bulk_size: int = 1  # the most books in one request; 1 for requests for one book each
    # The pauses after which a book that got no answer is retried.
    retry_after: Sequence[float] = RETRY_AFTER_SECONDS
    max_failures: int = 0  # rows that may be ``failed``; the next one ends the batch
    # Finds what earlier datasets hold of books, by ISBN: of many at a time, which takes less time than of each.
    earlier: Callable[[Sequence[str]], Mapping[str, EarlierLookup]] | None = None
    budget: RequestBudget = field(default_factory=RequestBudget)

    def with_bulk(self, size: int) -> BatchOptions:
        """Return the options for bulk requests."""
        # Some of them wait in order for others, and some are read ahead.
        return replace(self, bulk_size=size, window=max(self.window, 3 * size))


class SeenLookups:
    """The look-ups of a batch by ISBN, in a temporary file: a list may name a book many times, and it is asked once."""

    def __init__(self) -> None:
        self._database = scratch_database(_CREATE_TABLE)

    def get(self, isbn13: str) -> Lookup | None:
        """Return the look-up of a book; None if there is none."""
        with naming_folder():
            row: tuple[bytes] | None = self._database.execute(_GET, (int(isbn13),)).fetchone()
        if row is None:
            return None
        status, error, record, fetched_at, reused = parse_json(zlib.decompress(row[0]))
        book = None if record is None else Book(record)
        return Lookup(isbn13, isbn13, status, error=error, book=book, fetched_at=fetched_at, reused=reused)

    def put(self, lookup: Lookup) -> None:
        """Keep a look-up."""
        record = lookup.book and lookup.book.record
        fields = (lookup.status, lookup.error, record, lookup.fetched_at, lookup.reused)
        with naming_folder():
            self._database.execute(_PUT, (int(str(lookup.isbn13)), zlib.compress(json_line(fields), 1)))

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The state of a batch that an earlier attempt has left; without arguments, that of a new one."""

    seen: SeenLookups = field(default_factory=SeenLookups)
    # What it has learnt of 404s, as ``BatchUpdate.doubts`` had it.
    doubts: Mapping[str, Any] = field(default_factory=dict)
    last_found: str | None = None  # an ISBN-13
