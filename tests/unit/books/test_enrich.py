from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.books.enrich import ENRICHED, Progress, enrich
from airflow_provider_mediaops.books.models import Book, Lookup
from tests.unit.book_database import CALENDAR, CRIME
from tests.unit.conversations import FakeClock

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.books.models import Status

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
    assert list(enrich(LOOKUPS)) == [
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
    rows = [dict(zip(ENRICHED.columns, ENRICHED.row(row), strict=True)) for row in enrich(LOOKUPS)]

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


def test_recorded_records_fit_the_table(shared_data: Path) -> None:
    lines = (shared_data / "book_records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line)["book"] for line in lines]
    rows = list(enrich(Lookup("", "", "found", book=Book(record)) for record in records))

    assert [row["book"] for row in rows] == records
    tables = [dict(zip(ENRICHED.columns, ENRICHED.row(row), strict=True)) for row in rows]
    assert [table["title"] for table in tables] == [
        "Crime and Punishment",
        "ノルウェイの森",
        "A Calendar",
        "Second Book",
        "No date",
    ]
    assert [json.loads(str(table["record"])) for table in tables] == records


def followed(progress: Progress, clock: FakeClock, statuses: list[Status], *, seconds: float) -> list[str]:
    told: list[str] = []
    lookups = (Lookup("", CRIME, status, requests=1) for status in statuses)
    for _ in progress.following(lookups, told.append):
        clock.wait(seconds)
    return told


def test_progress_is_told_every_thirty_seconds() -> None:
    clock = FakeClock()
    progress = Progress(200, clock=clock.clock.monotonic)
    counts: dict[Status, int] = {"found": 60, "not_found": 20, "invalid": 15, "failed": 5}
    statuses = [status for status, count in counts.items() for _ in range(count)]

    told = followed(progress, clock, statuses, seconds=0.5)

    assert told == [
        "60 of 200 ISBNs: 60 found, 0 not found, 0 invalid, 0 failed; 2.0 a second, 1 min left.",
    ]
    assert progress.counts == {"rows": 100, "found": 60, "not_found": 20, "invalid": 15, "failed": 5}
    assert progress.requests == 100


def test_a_short_run_tells_nothing_on_the_way() -> None:
    clock = FakeClock()

    assert followed(Progress(clock=clock.clock.monotonic), clock, ["found"] * 29, seconds=1) == []


@pytest.mark.parametrize(
    ("total", "done", "line"),
    [
        (None, 1200, "1,200 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second."),
        (9, 9, "9 of 9 ISBNs: 9 found, 0 not found, 0 invalid, 0 failed; 1.0 a second."),
        (9, 0, "0 of 9 ISBNs: 0 found, 0 not found, 0 invalid, 0 failed; 0.0 a second."),
        (0, 0, "0 of 0 ISBNs: 0 found, 0 not found, 0 invalid, 0 failed; 0.0 a second."),
        (1230, 1200, "1,200 of 1,230 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second, 30 s left."),
        (
            9120,
            1200,
            "1,200 of 9,120 ISBNs: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second, 2 h 12 min left.",
        ),
    ],
)
def test_the_line_says_how_far_how_fast_and_how_long(total: int | None, done: int, line: str) -> None:
    clock = FakeClock()
    progress = Progress(total, clock=clock.clock.monotonic)
    followed(progress, clock, ["found"] * done, seconds=1)

    assert progress.line() == line
