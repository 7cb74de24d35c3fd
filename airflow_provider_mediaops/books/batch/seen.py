"""
The look-ups of a batch by ISBN, because a list may name a book many times and it is asked for once.

The older ones are in a temporary file (:mod:`airflow_provider_mediaops.storage.scratch`).
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

# How many look-ups are kept in memory. The least recently used ones go to the disk.
_IN_MEMORY = 512
_CREATE_TABLE = "CREATE TABLE lookups (isbn INTEGER PRIMARY KEY, lookup BLOB NOT NULL)"


class SeenLookups:
    """The look-ups of one batch by ISBN, in bounded memory."""

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._recent: OrderedDict[str, Lookup] = OrderedDict()
        self._older: sqlite3.Connection | None = None

    def __contains__(self, isbn13: str) -> bool:
        if isbn13 in self._recent:
            return True
        if self._older is None:
            return False
        with naming_folder():
            found = self._older.execute("SELECT 1 FROM lookups WHERE isbn = ?", (int(isbn13),)).fetchone()
        return found is not None

    def get(self, isbn13: str, text: str) -> Lookup | None:
        """Return the look-up of a book for another row that names it."""
        lookup = self._recent.get(isbn13)
        if lookup is not None:
            self._recent.move_to_end(isbn13)
        elif self._older:
            with naming_folder():
                row = self._older.execute("SELECT lookup FROM lookups WHERE isbn = ?", (int(isbn13),)).fetchone()
            if row:
                lookup = _unpacked(isbn13, row[0])
                self.put(lookup)
        return lookup and replace(lookup, input=text, requests=0)

    def put(self, lookup: Lookup) -> None:
        """Keep a look-up."""
        self._recent[str(lookup.isbn13)] = lookup
        if len(self._recent) > self._in_memory:
            self._put_away(*self._recent.popitem(last=False))

    def close(self) -> None:
        """Drop all look-ups, and remove the temporary file."""
        self._recent.clear()
        if self._older:
            self._older.close()
            self._older = None

    def _put_away(self, isbn13: str, lookup: Lookup) -> None:
        if self._older is None:
            self._older = scratch_database(_CREATE_TABLE)
        with naming_folder():
            self._older.execute("INSERT OR REPLACE INTO lookups VALUES (?, ?)", (int(isbn13), _packed(lookup)))


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The state of a batch that an earlier attempt has left; without arguments, that of a new one."""

    seen: SeenLookups = field(default_factory=SeenLookups)
    # What it has learnt of 404s, as ``BatchUpdate.doubts`` had it.
    doubts: Mapping[str, Any] = field(default_factory=dict)
    last_found: str | None = None  # an ISBN-13


def _packed(lookup: Lookup) -> bytes:
    record = lookup.book and lookup.book.record
    return zlib.compress(json_line((lookup.status, lookup.error, record, lookup.fetched_at, lookup.reused)), 1)


def _unpacked(isbn13: str, data: bytes) -> Lookup:
    status, error, record, fetched_at, reused = parse_json(zlib.decompress(data))
    book = None if record is None else Book(record)
    return Lookup(isbn13, isbn13, status, error=error, book=book, fetched_at=fetched_at, reused=reused)
