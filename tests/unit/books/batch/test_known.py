"""What a list need not ask for, in memory that does not grow."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import pytest

from airflow_provider_mediaops.books.batch.known import KnownLookup, KnownLookups
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from tests.unit.full_disk import fill_the_disk

ISBNS = sample_isbns(120)
ODD = {"title": "half a pair \ud83d and NUL \0", "pages": 1.5, "subjects": {"0": None}, "isbn13": "9780000000002"}


def lookup(number: int) -> Lookup:
    isbn13 = ISBNS[number]
    if number % 3 == 0:
        return Lookup(isbn13, isbn13, "not_found", error="left out" if number % 2 else None)
    when = "2026-01-02T03:04:05+00:00" if number % 2 else None
    book = Book({**ODD, "number": number})
    return Lookup(isbn13, isbn13, "found", book=book, fetched_at=when, reused=number % 5 == 0)


def test_what_was_looked_up_is_known_as_it_was_and_no_other_book() -> None:
    known = KnownLookups()
    assert known.find(ISBNS) == {}
    for number in range(100):
        # Neither the text of the row nor the number of requests is that of another row.
        known.put(replace(lookup(number), input="978-…", requests=3))

    found = known.find(ISBNS)

    assert list(found) == ISBNS[:100]
    for number in range(100):
        assert found[ISBNS[number]] == KnownLookup(lookup(number))
        assert found[ISBNS[number]].lookup.fetched_at == lookup(number).fetched_at
    known.close()
    known.close()


def test_a_later_outcome_takes_the_place_of_an_earlier_one() -> None:
    known = KnownLookups()
    later = Lookup(ISBNS[0], ISBNS[0], "found", book=Book({}))
    for each in (lookup(0), lookup(1), later):
        known.put(each)

    assert known.find(ISBNS[:1])[ISBNS[0]].lookup == later


def test_a_full_disk_is_told_with_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_the_disk(monkeypatch)
    known = KnownLookups()

    with pytest.raises(OSError, match=f"temporary files, {tempfile.gettempdir()}, .*: database or disk is full"):
        known.put(lookup(3))
