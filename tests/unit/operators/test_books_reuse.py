"""Enrichments that ask only for what is new: what they take from earlier datasets, and what a failed look-up leaves."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, ServiceUnavailableError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, PROGRAMMING, book
from tests.unit.log_lines import log_lines
from tests.unit.operators.earlier_books import NEW, asked, at, context, dataset, row, run
from tests.unit.operators.enrichment import address, in_triggerer, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")
LIST = (CRIME, PROGRAMMING, CALENDAR)
FORMATS = ("jsonl", "csv", "parquet")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a dataset in any format, with the record as ``book``."""
    if path.suffix == ".jsonl":
        return json_rows(path)
    rows: list[dict[str, Any]]
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    else:
        rows = [dict(each) for each in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))]
    return [{**each, "book": json.loads(each["record"]) if each["record"] else None} for each in rows]


class TestReuse:
    @pytest.mark.parametrize("before", FORMATS)
    @pytest.mark.parametrize("after", FORMATS)
    def test_row_that_an_earlier_dataset_holds_is_not_asked_for(
        self, tmp_path: Path, database: requests_mock.Mocker, before: str, after: str
    ) -> None:
        run(tmp_path / f"before.{before}", isbns=[*LIST, "x"])
        asked(database)
        database.get(address(NEW), json=book(NEW))

        new = tmp_path / f"after.{after}"
        summary = run(new, isbns=[CALENDAR, NEW, "x", CRIME, CRIME], reuse=tmp_path / f"before.{before}")

        assert asked(database) == [NEW]
        rows = rows_of(new)
        assert [each["status"] for each in rows] == ["not_found", "found", "invalid", "found", "found"]
        assert [str(each["reused"]).lower() for each in rows] == ["true", "false", "false", "true", "true"]
        assert rows[3]["book"] == book(CRIME, pages="8", unknown=[1])["book"]
        assert [each["fetched_at"] or None for each in rows] == [at(0), at(0), None, at(0), at(0)]
        assert (summary["reused"], summary["stale"], summary["not_asked"], summary["requests"]) == (3, 0, 0, 1)

    def test_catalogue_that_reuses_itself_is_kept_fresh_in_place(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        catalogue = tmp_path / "books.csv"
        first = run(catalogue, isbns=list(LIST), reuse=catalogue)
        content = catalogue.read_bytes()
        assert len(asked(database)) == 3

        second = run(catalogue, isbns=list(LIST), reuse=catalogue)

        assert asked(database) == []
        assert catalogue.read_bytes() == content.replace(b",false\n", b",true\n")
        assert (first["reused"], second["reused"]) == (0, 3)

    def test_the_look_up_that_is_the_newest_counts(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        new = dataset(tmp_path / "new.jsonl", row(CRIME, days=1, book={"title": "new"}), row(NEW, "not_found", days=2))
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=9, book={"title": "old"}), row(NEW, "found", days=1))
        for number, reuse in enumerate(([new, old], [old, new])):
            run(tmp_path / f"{number}.jsonl", isbns=[CRIME, NEW], reuse=reuse)
            rows = json_rows(tmp_path / f"{number}.jsonl")
            assert [each["book"]["title"] for each in rows] == ["new", "As it was"]
        assert asked(database) == []

    @pytest.mark.parametrize("when", [at(-2), "9999-12-31T23:59:59-23:59"], ids=["in two days", "at the end"])
    def test_look_up_of_the_future_is_not_the_newest_and_not_young(
        self, tmp_path: Path, database: requests_mock.Mocker, when: str
    ) -> None:
        future = row(CRIME, fetched_at=when, book={"title": "wrong clock"})
        odd = dataset(tmp_path / "odd.jsonl", future, {**future, "input": PROGRAMMING, "isbn13": PROGRAMMING})
        new = dataset(tmp_path / "new.jsonl", row(CRIME, days=1, book={"title": "new"}))

        run(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], reuse=[odd, new])

        assert [each["reused"] for each in json_rows(tmp_path / "books.jsonl")] == [True, False]
        assert json_rows(tmp_path / "books.jsonl")[0]["book"] == {"title": "new"}
        assert asked(database) == [PROGRAMMING]

    @pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59+00:00"])
    def test_time_before_1970_counts_as_none(self, tmp_path: Path, database: requests_mock.Mocker, when: str) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, "not_found", fetched_at=when))

        summary = run(tmp_path / "books.jsonl", isbns=[CRIME], reuse=old)

        assert (summary["reused"], asked(database)) == (0, [CRIME])

    @pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "24/11/2026 07:14", "NaT", 12345, [], True])
    def test_book_whose_time_cannot_be_read_is_too_old(
        self, tmp_path: Path, database: requests_mock.Mocker, when: object
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, fetched_at=when))

        kept = old
        for format in FORMATS:
            # Nor does it become young by being written once more.
            summary = run(tmp_path / f"kept.{format}", isbns=[CRIME], reuse=kept, max_requests=0)
            kept = summary["path"]
            assert (summary["found"], summary["stale"], asked(database)) == (1, 1, [])
            assert [each["fetched_at"] or None for each in rows_of(Path(kept))] == [None]
        run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=kept)

        assert asked(database) == [CRIME]

    @pytest.mark.parametrize("when", ["24/11/2026 07:14", at(-2)], ids=["unreadable", "in two days"])
    def test_book_that_was_not_found_stays_so_until_there_is_a_request_for_it(
        self, tmp_path: Path, database: requests_mock.Mocker, when: str
    ) -> None:
        kept = dataset(tmp_path / "old.jsonl", row(CALENDAR, "not_found", fetched_at=when))
        for format in FORMATS:
            summary = run(tmp_path / f"kept.{format}", isbns=[CALENDAR], reuse=kept, max_requests=0)
            kept = summary["path"]
            assert (summary["not_found"], summary["stale"], summary["not_asked"]) == (1, 1, 0)
        run(tmp_path / "new.jsonl", isbns=[CALENDAR, CRIME], reuse=kept)

        assert sorted(set(asked(database))) == sorted([CALENDAR, CRIME])

    @pytest.mark.parametrize("days", [0, -0.5])
    @pytest.mark.parametrize("nothing", [0, timedelta(0), "0"])
    def test_nothing_is_younger_than_no_time(
        self, tmp_path: Path, database: requests_mock.Mocker, days: float, nothing: Any
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=days), row(CALENDAR, "not_found", days=days))
        isbns = [CRIME, CALENDAR]

        kept = run(tmp_path / "kept.jsonl", isbns=isbns, reuse=old, reuse_for=nothing, max_requests=0)
        run(tmp_path / "new.jsonl", isbns=isbns, reuse=old, reuse_for=nothing, reuse_not_found_for=nothing)

        # For the book that is not there, a week is the default.
        assert (kept["reused"], kept["stale"]) == (2, 1)
        assert sorted(set(asked(database))) == sorted(isbns)

    def test_clocks_differ_so_that_a_look_up_of_the_next_hours_is_a_young_one(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=-0.5))

        summary = run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old, reuse_for=1)

        assert (summary["reused"], summary["stale"], asked(database)) == (1, 0, [])

    def test_row_that_is_too_old_is_asked_for_again(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.get(address(NEW), status_code=404, json=NO_SUCH_BOOK)
        rows = [row(CRIME, days=91), row(PROGRAMMING, days=89), row(CALENDAR, "not_found", days=6)]
        old = dataset(tmp_path / "old.jsonl", *rows, row(NEW, "not_found", days=8))

        run(tmp_path / "new.jsonl", isbns=[*LIST, NEW], reuse=old)

        assert sorted(set(asked(database))) == sorted([CRIME, NEW])
        new = json_rows(tmp_path / "new.jsonl")
        assert [each["reused"] for each in new] == [False, True, True, False]
        assert [each["fetched_at"] for each in new] == [at(0), at(89), at(6), at(0)]

    @pytest.mark.parametrize("reuse_for", [timedelta(hours=1), 3600, "3600"])
    def test_ages_are_times_or_seconds(self, tmp_path: Path, database: requests_mock.Mocker, reuse_for: Any) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=0.5 / 24), row(PROGRAMMING, days=1.5 / 24))

        run(tmp_path / "new.jsonl", isbns=[CRIME, PROGRAMMING], reuse=old, reuse_for=reuse_for)

        assert asked(database) == [PROGRAMMING]

    def test_row_that_failed_or_is_not_confirmed_is_asked_for_again(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        left_out = "A bulk reply left it out, with another book that is missing; it was not asked for by itself."
        books = sample_isbns(3)
        for isbn in books:
            database.get(address(isbn), json=book(isbn))
        old = dataset(
            tmp_path / "old.jsonl",
            row(books[0], "failed", error="503"),
            row(books[1], "not_found", error=left_out),
            row(books[2], "not_asked", error="no request was left"),
        )

        run(tmp_path / "new.jsonl", isbns=books, reuse=old)

        assert sorted(asked(database)) == books

    def test_record_that_was_cut_off_is_asked_for_again(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        old = tmp_path / "old.csv"
        old.write_text(f'input,isbn13,status,error,record,fetched_at\n{CRIME},{CRIME},found,,"{{""title"": ",{at(1)}\n')

        run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old)

        assert asked(database) == [CRIME]

    @pytest.mark.parametrize("rest", ["", ","])
    def test_time_that_was_cut_off_is_not_known(
        self, tmp_path: Path, database: requests_mock.Mocker, rest: str
    ) -> None:
        old = tmp_path / "old.csv"
        head = "input,isbn13,status,error,record,fetched_at,reused"
        old.write_text(f'{head}\n{CRIME},{CRIME},found,,"{{""title"": ""T""}}"{rest}')

        run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old)

        assert asked(database) == [CRIME]

    def test_odd_line_is_read_as_well_as_it_can_be_and_so_are_those_behind_it(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        odd = json.dumps(row(PROGRAMMING, book={"title": "@"})).encode().replace(b"@", b"\xff")
        number = json.dumps({**row(NEW), "isbn13": int(NEW)}).encode()
        lines = [json.dumps(row(CRIME)).encode(), odd, json.dumps({**row("x"), "isbn13": None}).encode(), number]
        (tmp_path / "old.jsonl").write_bytes(b"\n".join(lines))

        run(tmp_path / "new.jsonl", isbns=[NEW, PROGRAMMING, CRIME], reuse=tmp_path / "old.jsonl")

        assert asked(database) == []
        titles = [each["book"]["title"] for each in json_rows(tmp_path / "new.jsonl")]
        assert titles == ["As it was", "\ufffd", "As it was"]

    @pytest.mark.parametrize("format", FORMATS)
    def test_long_record_is_taken_from_every_format(
        self, tmp_path: Path, database: requests_mock.Mocker, format: str
    ) -> None:
        # Readers of CSV take no cell of more than 131,072 characters, unless they are told to.
        database.get(address(CRIME), json=book(CRIME, overview="x" * 140_000))
        before = run(tmp_path / f"before.{format}", isbns=[CRIME])["path"]
        asked(database)

        run(tmp_path / "after.jsonl", isbns=[CRIME], reuse=before)

        assert asked(database) == []
        assert len(json_rows(tmp_path / "after.jsonl")[0]["book"]["overview"]) == 140_000

    def test_columns_are_those_of_this_list(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, source={"sku": "of yesterday"}))
        (tmp_path / "list.csv").write_text(f"sku,isbn\na,{CRIME}\nb,{PROGRAMMING}\n")

        run(tmp_path / "new.jsonl", source=tmp_path / "list.csv", reuse=[old])

        assert [each["source"] for each in json_rows(tmp_path / "new.jsonl")] == [{"sku": "a"}, {"sku": "b"}]
        assert asked(database) == [PROGRAMMING]

    @pytest.mark.parametrize("format", FORMATS)
    def test_dataset_of_any_kept_columns_is_read(
        self, tmp_path: Path, database: requests_mock.Mocker, format: str
    ) -> None:
        # As many as a table may have, and names with line ends.
        names = [*(f"column {number}" for number in range(997)), "line\rend", "two\nlines", "\r"]
        (tmp_path / "list.jsonl").write_text(json.dumps({"isbn": CRIME, **dict.fromkeys(names, "x")}))
        old = run(tmp_path / f"old.{format}", source=tmp_path / "list.jsonl")["path"]
        asked(database)

        summary = run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old)

        assert (summary["reused"], asked(database)) == (1, [])

    def test_the_triggerer_does_the_same(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME), row(PROGRAMMING, days=99), row(CALENDAR, "not_found"))
        arguments: dict[str, Any] = {"isbns": list(LIST), "reuse": old, "max_requests": 0}
        here = run(tmp_path / "here.jsonl", **arguments)

        there = in_triggerer(make(tmp_path / "there.jsonl", **arguments, deferrable=True), context("deferred"))

        assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()
        same = dict.fromkeys(("path", "rows_per_second"))
        assert {**here, **same} == {**there, **same}
        assert (there["reused"], there["stale"], there["requests"]) == (3, 1, 0)
        assert asked(database) == []

    def test_missing_dataset_holds_nothing_and_is_named(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        gone = tmp_path / "yesterday.jsonl"

        summary = run(tmp_path / "today.jsonl", isbns=[CRIME], reuse=gone)

        assert (summary["found"], summary["reused"]) == (1, 0)
        assert f"WARNING: There is no dataset at {gone}: nothing is reused from it." in lines
        assert asked(database) == [CRIME]

    def test_number_of_reused_rows_is_logged_and_in_the_summary(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: requests_mock.Mocker
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        old = dataset(tmp_path / "old.jsonl", row(CRIME), row(PROGRAMMING, days=99))

        summary = run(tmp_path / "new.jsonl", isbns=[*LIST], reuse=old, max_requests=0)

        assert "INFO: Earlier datasets hold the look-ups of 2 ISBNs." in lines
        assert (
            "INFO: In no earlier dataset: 1 ISBN. Looked up too long ago: 1. max_requests leaves 0 requests for them."
            in lines
        )
        assert any("0 failed, 1 not asked (2 reused, 1 of them too old);" in line for line in lines)
        assert (summary["reused"], summary["stale"], summary["not_asked"]) == (2, 1, 1)
        assert asked(database) == []


class TestChanges:
    def staged(self, database: requests_mock.Mocker, destination: Path, **arguments: Any) -> None:
        """Leave a first row, as an attempt does at a service that fails."""
        database.get(address(PROGRAMMING), status_code=503)
        with pytest.raises(ServiceUnavailableError):
            make(destination, isbns=[CRIME, PROGRAMMING], **arguments).execute(context("today"))
        database.get(address(PROGRAMMING), json=book(PROGRAMMING))
        asked(database)

    def test_rows_that_are_saved_stay_although_their_dataset_has_changed_since(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME))
        self.staged(database, tmp_path / "new.jsonl", reuse=old)
        dataset(tmp_path / "old.jsonl", row(CRIME, book={"title": "corrected since"}))

        summary = make(tmp_path / "new.jsonl", isbns=[CRIME, PROGRAMMING], reuse=old).execute(context("today"))

        assert (asked(database), summary["resumed"]) == ([PROGRAMMING], True)
        assert json_rows(tmp_path / "new.jsonl")[0]["book"] == row(CRIME)["book"]

    def test_attempt_that_cannot_read_a_changed_dataset_loses_nothing_that_was_found_before(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CALENDAR))
        self.staged(database, tmp_path / "new.jsonl", reuse=old)
        Path(old).write_text(f"{json.dumps(row(CALENDAR))}\nno row\n")
        with pytest.raises(permanent(InvalidArgumentError)):
            make(tmp_path / "new.jsonl", isbns=[CRIME, PROGRAMMING], reuse=old).execute(context("today"))
        dataset(tmp_path / "old.jsonl", row(CALENDAR))

        make(tmp_path / "new.jsonl", isbns=[CRIME, PROGRAMMING], reuse=old).execute(context("today"))

        assert asked(database) == [PROGRAMMING]

    def test_retry_after_publication_returns_its_summary_although_the_destination_is_another_now(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        catalogue = dataset(tmp_path / "books.jsonl", row(CRIME))
        first = make(catalogue, isbns=[CRIME, PROGRAMMING], reuse=catalogue).execute(context("today"))
        asked(database)

        assert make(catalogue, isbns=[CRIME, PROGRAMMING], reuse=catalogue).execute(context("today")) == first
        assert asked(database) == []


class TestALookUpThatIsTooOldAndFails:
    def test_the_row_stays_as_it_was_and_counts_as_a_failure(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        catalogue = dataset(
            tmp_path / "books.jsonl", row(CRIME, days=99), row(NEW, "not_found", days=98), row(PROGRAMMING)
        )
        for isbn in (CRIME, NEW):
            database.get(address(isbn), status_code=503)
        isbns = [CRIME, f"ISBN {CRIME}", NEW, PROGRAMMING]

        summary = run(catalogue, isbns=isbns, reuse=catalogue, max_failures=3)

        assert set(asked(database)) == {CRIME, NEW}
        rows = json_rows(Path(catalogue))
        assert [each["status"] for each in rows] == ["found", "found", "not_found", "found"]
        assert [each["fetched_at"] for each in rows] == [at(99), at(99), at(98), at(1)]
        assert [each["book"] and each["book"]["title"] for each in rows] == [*["As it was"] * 2, None, "As it was"]
        assert all(each["reused"] and each["error"] is None for each in rows)
        figures = [summary[name] for name in ("found", "not_found", "failed", "reused", "stale", "refresh_failed")]
        assert figures == [3, 1, 0, 4, 3, 3]

        database.get(address(CRIME), json=book(CRIME))
        database.get(address(NEW), json=book(NEW))
        run(catalogue, isbns=isbns, reuse=catalogue)
        assert sorted(asked(database)) == sorted([CRIME, NEW])
        assert [each["fetched_at"] for each in json_rows(Path(catalogue))] == [at(0), at(0), at(0), at(1)]

    def test_failed_refresh_of_a_look_up_of_the_future_keeps_no_time_to_come(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        catalogue = dataset(tmp_path / "books.jsonl", row(CRIME, days=-9))
        database.get(address(CRIME), status_code=503)

        # Each run asks again.
        for _ in range(2):
            summary = run(catalogue, isbns=[CRIME], reuse=catalogue, max_failures=1)
            assert (set(asked(database)), summary["stale"]) == ({CRIME}, 1)
        assert json_rows(Path(catalogue))[0]["fetched_at"] is None

    def test_failed_refresh_is_in_the_log(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=99), row(PROGRAMMING))
        database.get(address(CRIME), status_code=503)

        run(tmp_path / "new.jsonl", isbns=[CRIME, PROGRAMMING], reuse=old, max_failures=1)

        [warning] = [line for line in lines if "too old, because" in line]
        assert warning.startswith("WARNING: Kept from an earlier dataset although too old, ")
        assert " the new look-up failed: 1 row. " in warning
        assert f"The last error, about {CRIME}: The book database at books.example answered GET" in warning
        assert any("(2 reused, 1 of them too old, 1 because the service gave no new answer);" in line for line in lines)

    def test_failure_beyond_max_failures_ends_the_attempt_and_the_catalogue_stays(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        catalogue = dataset(tmp_path / "books.jsonl", row(CRIME, days=99), row(PROGRAMMING, days=99))
        content = Path(catalogue).read_bytes()
        for isbn in (CRIME, PROGRAMMING):
            database.get(address(isbn), status_code=503)
        today = context("today")
        arguments: dict[str, Any] = {"isbns": [CRIME, PROGRAMMING], "reuse": catalogue}

        with pytest.raises(ServiceUnavailableError):
            make(catalogue, **arguments, max_failures=1).execute(today)
        assert Path(catalogue).read_bytes() == content

        # The one within the bound is saved, and counts on.
        asked(database)
        with pytest.raises(ServiceUnavailableError):
            make(catalogue, **arguments, max_failures=1).execute(today)
        assert set(asked(database)) == {PROGRAMMING}
        database.get(address(PROGRAMMING), json=book(PROGRAMMING))
        summary = make(catalogue, **arguments, max_failures=1).execute(today)

        assert [summary[name] for name in ("found", "stale", "refresh_failed")] == [2, 1, 1]
        assert [each["fetched_at"] for each in json_rows(Path(catalogue))] == [at(99), at(0)]
