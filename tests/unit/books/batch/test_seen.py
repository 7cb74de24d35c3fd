"""What was looked up before, in memory that does not grow."""

from __future__ import annotations

import tempfile

import pytest

from airflow_provider_mediaops.books.batch.seen import Known, Outcome
from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from tests.unit.full_disk import fill_the_disk

ISBNS = sample_isbns(50)
ODD = {"title": "half a pair \ud83d and NUL \0", "pages": 1.5, "subjects": {"0": None}, "isbn13": "9780000000002"}


def outcome(number: int) -> Outcome:
    if number % 3 == 0:
        return Outcome("not_found", "left out" if number % 2 else None)
    return Outcome("found", book=Book({**ODD, "number": number}))


def test_everything_is_given_back_as_it_was_however_long_ago() -> None:
    known = Known(recent=4)
    for number, isbn in enumerate(ISBNS):
        known.put(isbn, outcome(number))

    for _ in range(2):
        for number, isbn in enumerate(ISBNS):
            assert known.get(isbn) == outcome(number)
    known.close()


def test_what_was_not_looked_up_is_not_known() -> None:
    known = Known(recent=1)
    assert known.get(ISBNS[0]) is None
    known.put(ISBNS[1], outcome(1))
    known.put(ISBNS[2], outcome(2))

    assert known.get(ISBNS[0]) is None
    known.close()


def test_a_later_outcome_takes_the_place_of_an_earlier_one() -> None:
    known = Known(recent=1)
    known.put(ISBNS[0], Outcome("not_found"))
    known.put(ISBNS[1], outcome(1))
    known.put(ISBNS[0], Outcome("found", book=Book({})))
    known.put(ISBNS[1], outcome(1))

    assert known.get(ISBNS[0]) == Outcome("found", book=Book({}))
    known.close()


def test_a_closed_one_knows_nothing() -> None:
    known = Known(recent=1)
    for number, isbn in enumerate(ISBNS[:3]):
        known.put(isbn, outcome(number))

    known.close()
    known.close()

    assert known.get(ISBNS[0]) is None
    assert known.get(ISBNS[2]) is None


def test_a_full_disk_is_told_with_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_the_disk(monkeypatch)
    known = Known(recent=1)
    known.put(ISBNS[0], outcome(1))

    with pytest.raises(OSError, match=f"temporary files, {tempfile.gettempdir()}, .*: database or disk is full"):
        known.put(ISBNS[1], outcome(1))
    known.close()
