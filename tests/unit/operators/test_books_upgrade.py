"""Stages that version 0.1 of the provider has left: a task that was retried after an upgrade finds them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.storage.sources import version_of
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, asked, book
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")

LIST = (CRIME, "x", PROGRAMMING, CALENDAR)
CONTEXT: Any = {"ti": SimpleNamespace(dag_id="dag", run_id="today", task_id="enrich", map_index=-1, max_tries=2)}


def row(isbn13: str, status: str) -> dict[str, Any]:
    """Return a row as version 0.1 wrote it."""
    record = book(isbn13, pages="8", unknown=[1])["book"] if status == "found" else None
    return {"input": isbn13, "isbn13": isbn13, "status": status, "error": None, "book": record}


INVALID = {"input": "x", "isbn13": None, "status": "invalid", "error": "'x' is no ISBN", "book": None}


def digest_of(isbns: Sequence[str]) -> str:
    lines = "".join(json.dumps(isbn) + "\n" for isbn in isbns)
    return hashlib.sha256(lines.encode()).hexdigest()


def stage(
    file: Path, rows: Sequence[dict[str, Any]], *, listed: Any = None, column: str = "isbn", **state: Any
) -> None:
    """Write the two hidden files that an attempt of version 0.1 left when it failed."""
    parameters = {
        "destination": str(file),
        "format": None,
        "list": listed or digest_of(LIST),
        "isbn_column": column,
        "books_conn_id": "mediaops_books_default",
    }
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()
    owner = {"task": "dag/today/enrich/-1", "parameters": digest, "clears": 2, "run_start": ""}
    records = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in rows).encode()
    counts = {
        name: [each["status"] for each in rows].count(name) for name in ("found", "not_found", "invalid", "failed")
    }
    journal = [
        {"version": 1, "owner": owner, "last": None},
        {
            "extent": [len(records), len(rows), zlib.crc32(records)],
            "state": {"counts": counts, "requests": 7, "ahead": [], "undecided": {}, **state},
        },
    ]
    file.with_name(f".{file.name}.records").write_bytes(records)
    file.with_name(f".{file.name}.checkpoint").write_text("".join(json.dumps(line) + "\n" for line in journal))


def without_times(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a dataset without the time, which version 0.1 did not save with the books that it found."""
    text = file.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text))) if file.suffix == ".csv" else map(json.loads, text.splitlines())
    return [{name: value for name, value in each.items() if name != "fetched_at"} for each in rows]


def test_a_stage_without_not_found_is_resumed(tmp_path: Path, database: requests_mock.Mocker) -> None:
    stage(tmp_path / "books.jsonl", [row(CRIME, "found"), INVALID])

    summary = make(tmp_path / "books.jsonl", isbns=list(LIST)).execute(CONTEXT)

    assert CRIME not in asked(database)
    assert [each["status"] for each in json_rows(tmp_path / "books.jsonl")] == [
        "found",
        "invalid",
        "found",
        "not_found",
    ]
    assert (summary["resumed"], summary["found"], summary["not_found"]) == (True, 2, 1)
    assert summary["requests"] > 7


@pytest.mark.parametrize("destination", ["books.jsonl", "books.csv"])
def test_books_that_were_taken_for_missing_are_asked_for_again(
    tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, destination: str
) -> None:
    """The base address was wrong, the first books became not_found, and the address was corrected since."""
    lines = log_lines(monkeypatch, EnrichIsbnsOperator)
    isbns = [CRIME, PROGRAMMING, CRIME, CALENDAR]
    file = tmp_path / destination
    rows = [row(CRIME, "found"), row(PROGRAMMING, "not_found")]
    stage(file, rows, listed=digest_of(isbns), ahead=[row(CALENDAR, "not_found")])

    summary = make(file, isbns=isbns).execute(CONTEXT)

    assert {PROGRAMMING, CALENDAR} <= set(asked(database))
    # As the witness of the 404s, if at all.
    assert asked(database).count(CRIME) <= 1
    make(tmp_path / f"whole.{destination}", isbns=isbns).execute({})
    assert without_times(file) == without_times(tmp_path / f"whole.{destination}")
    assert (summary["found"], summary["not_found"], summary["resumed"]) == (3, 1, True)
    assert any("1 of its rows are not_found by the rule of version 0.1" in line for line in lines)
    assert any("The 1 books that it found are not asked for again." in line for line in lines)


def test_a_404_that_waited_for_a_decision_is_forgotten(tmp_path: Path, database: requests_mock.Mocker) -> None:
    undecided = {PROGRAMMING: {"type": "NotFoundError", "message": "404", "status": 404}}
    stage(tmp_path / "books.jsonl", [row(CRIME, "found"), INVALID], undecided=undecided)

    make(tmp_path / "books.jsonl", isbns=list(LIST)).execute(CONTEXT)

    assert PROGRAMMING in asked(database)
    assert json_rows(tmp_path / "books.jsonl")[2]["status"] == "found"


def test_a_stage_of_this_version_keeps_its_not_found(tmp_path: Path, database: requests_mock.Mocker) -> None:
    rows = [row(CRIME, "found"), INVALID, row(PROGRAMMING, "not_found")]
    stage(tmp_path / "books.jsonl", rows, not_found_rule=2, source_columns=False)

    make(tmp_path / "books.jsonl", isbns=list(LIST)).execute(CONTEXT)

    assert PROGRAMMING not in asked(database)
    assert json_rows(tmp_path / "books.jsonl")[2]["status"] == "not_found"


def test_a_source_with_columns_is_written_anew_without_another_request_for_what_was_found(
    tmp_path: Path, database: requests_mock.Mocker
) -> None:
    source = tmp_path / "list.csv"
    source.write_text(f"sku,isbn\na,{CRIME}\nb,{PROGRAMMING}\n")
    stage(tmp_path / "books.jsonl", [row(CRIME, "found")], listed=[str(source), version_of(str(source))])
    database.get(address(CRIME), status_code=500)

    summary = make(tmp_path / "books.jsonl", source=str(source)).execute(CONTEXT)

    assert asked(database) == [PROGRAMMING]
    assert [each["source"] for each in json_rows(tmp_path / "books.jsonl")] == [{"sku": "a"}, {"sku": "b"}]
    assert (summary["requests"], summary["found"], summary["resumed"]) == (8, 2, True)


def test_without_columns_it_is_resumed_as_it_is(tmp_path: Path, database: requests_mock.Mocker) -> None:
    source = tmp_path / "list.txt"
    source.write_text(f"{CRIME}\n{PROGRAMMING}\n")
    stage(tmp_path / "books.jsonl", [row(CRIME, "found")], listed=[str(source), version_of(str(source))])

    summary = make(tmp_path / "books.jsonl", source=str(source)).execute(CONTEXT)

    assert asked(database) == [PROGRAMMING]
    assert summary["resumed"]
