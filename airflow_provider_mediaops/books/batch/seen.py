"""The look-ups of a batch by ISBN, because a list may name a book many times and it is asked for once."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

_CREATE_TABLE = "CREATE TABLE lookups (isbn INTEGER PRIMARY KEY, lookup BLOB NOT NULL)"
_PUT = "INSERT OR REPLACE INTO lookups VALUES (?, ?)"
_GET = "SELECT lookup FROM lookups WHERE isbn = ?"


class SeenLookups:
    """The look-ups of one batch by ISBN, in a temporary file (:mod:`airflow_provider_mediaops.storage.scratch`)."""

    def __init__(self) -> None:
        self._database = scratch_database(_CREATE_TABLE)

    def __contains__(self, isbn13: str) -> bool:
        return self._packed(isbn13) is not None

    def get(self, isbn13: str, text: str) -> Lookup | None:
        """Return the look-up of a book for another row that names it."""
        packed = self._packed(isbn13)
        if packed is None:
            return None
        status, error, record, fetched_at, reused = parse_json(zlib.decompress(packed))
        book = None if record is None else Book(record)
        return Lookup(text, isbn13, status, error=error, book=book, fetched_at=fetched_at, reused=reused)

    def put(self, lookup: Lookup) -> None:
        """Keep a look-up."""
        record = lookup.book and lookup.book.record
        fields = (lookup.status, lookup.error, record, lookup.fetched_at, lookup.reused)
        with naming_folder():
            self._database.execute(_PUT, (int(str(lookup.isbn13)), zlib.compress(json_line(fields), 1)))

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def _packed(self, isbn13: str) -> bytes | None:
        with naming_folder():
            row: tuple[bytes] | None = self._database.execute(_GET, (int(isbn13),)).fetchone()
        return None if row is None else row[0]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The state of a batch that an earlier attempt has left; without arguments, that of a new one."""

    seen: SeenLookups = field(default_factory=SeenLookups)
    # What it has learnt of 404s, as ``BatchUpdate.doubts`` had it.
    doubts: Mapping[str, Any] = field(default_factory=dict)
    last_found: str | None = None  # an ISBN-13
