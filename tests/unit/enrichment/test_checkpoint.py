from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.batch.runner import BatchUpdate
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED, Ledger, resume_point, row_of
from airflow_provider_mediaops.exceptions import ServiceUnavailableError
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING

if TYPE_CHECKING:
    from pathlib import Path

FOUND = Lookup(
    f"ISBN {CRIME}", CRIME, "found", book=Book({"title": "Crime\0", "pages": "8", "authors": {"0": "F", "1": "D"}})
)
LOOKUPS = [
    FOUND,
    Lookup("x", None, "invalid", error="'x' is no ISBN"),
    Lookup(CALENDAR, CALENDAR, "not_found", requests=1),
    Lookup(CALENDAR, CALENDAR, "failed", error="down", requests=5),
]


def test_each_look_up_is_a_row_in_order_with_its_record_as_it_came() -> None:
    assert list(map(row_of, LOOKUPS)) == [
        {
            "input": f"ISBN {CRIME}",
            "isbn13": CRIME,
            "status": "found",
            "error": None,
            "book": {"title": "Crime\0", "pages": "8", "authors": {"0": "F", "1": "D"}},
        },
        {"input": "x", "isbn13": None, "status": "invalid", "error": "'x' is no ISBN", "book": None},
        {"input": CALENDAR, "isbn13": CALENDAR, "status": "not_found", "error": None, "book": None},
        {"input": CALENDAR, "isbn13": CALENDAR, "status": "failed", "error": "down", "book": None},
    ]


def test_the_table_has_the_usual_fields_and_the_whole_record() -> None:
    rows = [dict(zip(ENRICHED.columns, ENRICHED.row(row), strict=True)) for row in map(row_of, LOOKUPS)]

    assert {name: value for name, value in rows[0].items() if value is not None and name != "record"} == {
        "input": f"ISBN {CRIME}",
        "isbn13": CRIME,
        "status": "found",
        "title": "Crime",
        "authors": "F; D",
        "pages": 8,
    }
    assert json.loads(str(rows[0]["record"])) == {"title": "Crime\0", "pages": "8", "authors": {"0": "F", "1": "D"}}
    assert {name: value for name, value in rows[1].items() if value is not None} == {
        "input": "x",
        "status": "invalid",
        "error": "'x' is no ISBN",
    }


def test_recorded_records_fit_the_table(data: Path) -> None:
    lines = (data / "books" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line)["book"] for line in lines]
    rows = [row_of(Lookup("", "", "found", book=Book(record))) for record in records]

    assert [row["book"] for row in rows] == records
    tables = [dict(zip(ENRICHED.columns, ENRICHED.row(row), strict=True)) for row in rows]
    assert [table["title"] for table in tables] == [
        "The Left Hand of Darkness",
        "こころ",
        "An Almanac",
        "Third Volume",
        "Undated",
    ]
    assert [json.loads(str(table["record"])) for table in tables] == records


MISSING = Lookup(PROGRAMMING, PROGRAMMING, "not_found", error="left out", requests=1)
FAILED = LOOKUPS[3]
DOWN = ServiceUnavailableError("down")
UNDECIDED = {CALENDAR: {"type": "NotFoundError", "message": "404"}}


def update(*done: Lookup, out_of_order: tuple[Lookup, ...] = (), requests: int = 0) -> BatchUpdate:
    return BatchUpdate(done, out_of_order, UNDECIDED, requests, changed=True)


class TestLedger:
    def test_rows_stand_until_they_are_committed_with_the_state_that_belongs_to_them(self) -> None:
        ledger = Ledger(total=9)
        ledger.take_in(update(FOUND, LOOKUPS[1], requests=3))
        ledger.take_in(update(MISSING, requests=4))

        assert ledger.rows == [row_of(FOUND), row_of(LOOKUPS[1]), row_of(MISSING)]
        ledger.committed()
        assert ledger.rows == []
        assert ledger.state() == {
            "counts": {"found": 1, "not_found": 1, "invalid": 1, "failed": 0},
            "requests": 4,
            "ahead": [],
            "undecided": UNDECIDED,
        }

    def test_what_cost_requests_and_waits_for_its_turn_is_saved(self) -> None:
        ledger = Ledger()
        ledger.take_in(update(out_of_order=(MISSING, FAILED, LOOKUPS[1], FOUND)))

        assert ledger.rows == []
        assert ledger.state()["ahead"] == [row_of(MISSING), row_of(FOUND)]

    def test_an_attempt_that_goes_on_counts_on(self) -> None:
        ledger = Ledger({"counts": {"failed": 1}, "requests": 7})
        ledger.take_in(update(MISSING, FAILED, out_of_order=(FOUND,), requests=5))

        assert [row["status"] for row in ledger.rows] == ["not_found", "failed"]
        state = ledger.state()
        assert state["counts"] == {"found": 0, "not_found": 1, "invalid": 0, "failed": 2}
        assert state["requests"] == 12

    def test_the_summary_has_the_figures_of_all_attempts(self) -> None:
        ledger = Ledger({"counts": {"found": 2, "invalid": 1}, "requests": 3})
        ledger.take_in(update(FOUND, requests=1))

        summary = ledger.summary()
        assert summary.pop("rows_per_second") > 0
        assert summary == {"found": 3, "not_found": 0, "invalid": 1, "failed": 0, "requests": 4}

    def test_before_anything_is_done_there_is_nothing_to_save(self) -> None:
        assert Ledger().state() == {
            "counts": {"found": 0, "not_found": 0, "invalid": 0, "failed": 0},
            "requests": 0,
            "ahead": [],
            "undecided": {},
        }


class TestStart:
    def test_the_next_attempt_knows_what_was_committed_and_what_was_ahead(self) -> None:
        ledger = Ledger()
        ledger.take_in(update(FOUND, LOOKUPS[1], FAILED, out_of_order=(MISSING,)))
        state = json.loads(json.dumps(ledger.state()))

        start = resume_point(map(row_of, LOOKUPS), state)

        assert start.seen.get(CRIME, "x") == Lookup("x", CRIME, "found", book=FOUND.book)
        assert start.seen.get(CALENDAR, "x") == Lookup("x", CALENDAR, "not_found")
        assert start.seen.get(PROGRAMMING, "x") == Lookup("x", PROGRAMMING, "not_found", error="left out")
        assert start.last_found == CRIME
        assert start.undecided == UNDECIDED

    def test_a_new_beginning_knows_nothing(self) -> None:
        start = resume_point([], None)

        assert start.seen.get(CRIME, "x") is None
        assert (start.last_found, start.undecided) == (None, {})
