from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.enrichment.dataset_rows import (
    enriched_view,
    resume_point,
    row_of,
)
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.formats import FlatView

FOUND = Lookup(
    f"ISBN {CRIME}",
    CRIME,
    "found",
    book=Book({"title": "Crime\0", "pages": "8", "authors": {"0": "F", "1": "D"}}),
    fetched_at="2026-01-02T03:04:05+00:00",
)
NEVER = {"note": None, "fetched_at": None, "reused": False}
LOOKUPS = [
    FOUND,
    Lookup("x", None, "invalid", error="'x' is not an ISBN"),
    Lookup(CALENDAR, CALENDAR, "not_found", requests=1),
    Lookup(CALENDAR, CALENDAR, "failed", error="down", requests=5),
]


def table_of(view: FlatView, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table by column."""
    return [dict(zip(view.columns, view.row(row), strict=True)) for row in rows]


def test_each_look_up_is_a_row_in_order_with_its_record_as_it_came() -> None:
    assert list(map(row_of, LOOKUPS)) == [
        {
            "input": f"ISBN {CRIME}",
            "isbn13": CRIME,
            "status": "found",
            "error": None,
            "note": None,
            "fetched_at": "2026-01-02T03:04:05+00:00",
            "reused": False,
            "book": {"title": "Crime\0", "pages": "8", "authors": {"0": "F", "1": "D"}},
        },
        {"input": "x", "isbn13": None, "status": "invalid", "error": "'x' is not an ISBN", "book": None, **NEVER},
        {"input": CALENDAR, "isbn13": CALENDAR, "status": "not_found", "error": None, "book": None, **NEVER},
        {"input": CALENDAR, "isbn13": CALENDAR, "status": "failed", "error": "down", "book": None, **NEVER},
    ]


MISSING = Lookup(PROGRAMMING, PROGRAMMING, "not_found", error="left out", requests=1)
DOUBTS = {"undecided": {CALENDAR: {"type": "NotFoundError", "message": "404"}}}


class TestTable:
    def test_a_row_that_may_be_one_of_several_has_the_number_of_its_input_row_first(self) -> None:
        row = row_of(FOUND, IsbnRow(CRIME, CRIME, note="Book 2 of 2 in the cell.", number=7), numbered=True)

        assert list(row)[:2] == ["input_row", "input"]
        [cells] = table_of(enriched_view({}, numbered=True), [row])
        assert (next(iter(cells)), cells["input_row"], cells["note"]) == ("input_row", 7, "Book 2 of 2 in the cell.")


class TestSaved:
    def test_the_next_attempt_knows_what_was_committed_and_what_was_ahead(self) -> None:
        resume = resume_point(map(row_of, LOOKUPS), {"ahead": [row_of(MISSING)], "doubts": DOUBTS})

        seen = resume.seen
        assert seen.get(CRIME, "x") == Lookup("x", CRIME, "found", book=FOUND.book)
        assert seen.get(CALENDAR, "x") == Lookup("x", CALENDAR, "not_found")
        assert seen.get(PROGRAMMING, "x") == Lookup("x", PROGRAMMING, "not_found", error="left out")
        assert resume.last_found == CRIME
        assert resume.doubts == DOUBTS
