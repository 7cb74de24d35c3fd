"""What was looked up before, in memory that does not grow."""

from __future__ import annotations

import tempfile

import pytest

from airflow_provider_mediaops.books.batch.options import SeenLookups
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.unit.full_disk import fill_the_disk

ISBNS = sample_isbns(50)
ODD = {"title": "half a pair \ud83d and NUL \0", "pages": 1.5, "subjects": {"0": None}, "isbn13": "9780000000002"}


def lookup(number: int) -> Lookup:
    isbn13 = ISBNS[number]
    if number % 3 == 0:
        return Lookup(isbn13, isbn13, "not_found", error="left out" if number % 2 else None)
    return Lookup(isbn13, isbn13, "found", book=Book({**ODD, "number": number}))


def test_everything_is_given_back_as_it_was_however_long_ago() -> None:
    seen = SeenLookups()
    for number in range(len(ISBNS)):
        seen.put(lookup(number))

    for _ in range(2):
        for number, isbn in enumerate(ISBNS):
            assert seen.get(isbn) == lookup(number)
    seen.close()


def test_a_full_disk_is_told_with_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_the_disk(monkeypatch)
    seen = SeenLookups()

    with pytest.raises(OSError, match=f"temporary files, {tempfile.gettempdir()}, .*: database or disk is full"):
        seen.put(lookup(2))
    seen.close()
