"""Enrichments that ask only for what is new: what earlier datasets hold, within a bound, and files that are none."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.enrichment.reuse import earlier_dataset, lookups_of
from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    InvalidConnectionError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, PROGRAMMING, book
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import (
    NEW,
    address,
    asked_since,
    at,
    context,
    dataset,
    enrich,
    json_rows,
    make,
    row,
    shelve,
)
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.forms import in_triggerer
from tests.unit.permanent import permanent
from tests.unit.storage.fake_store import FakeStore, attached

if TYPE_CHECKING:
    from requests_mock import Mocker

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
        self, tmp_path: Path, database: Mocker, before: str, after: str
    ) -> None:
        enrich(tmp_path / f"before.{before}", isbns=[*LIST, "x"])
        asked_since(database)
        shelve(database, NEW)

        new = tmp_path / f"after.{after}"
        summary = enrich(new, isbns=[CALENDAR, NEW, "x", CRIME, CRIME], reuse=tmp_path / f"before.{before}")

        assert asked_since(database) == [NEW]
        rows = rows_of(new)
        assert [each["status"] for each in rows] == ["not_found", "found", "invalid", "found", "found"]
        assert [str(each["reused"]).lower() for each in rows] == ["true", "false", "false", "true", "true"]
        assert rows[3]["book"] == book(CRIME, pages="8", unknown=[1])["book"]
        assert [each["fetched_at"] or None for each in rows] == [at(0), at(0), None, at(0), at(0)]
        assert (summary["reused"], summary["stale"], summary["not_asked"], summary["requests"]) == (3, 0, 0, 1)

    def test_the_look_up_that_is_the_newest_counts(self, tmp_path: Path, database: Mocker) -> None:
        new = dataset(tmp_path / "new.jsonl", row(CRIME, days=1, book={"title": "new"}), row(NEW, "not_found", days=2))
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=9, book={"title": "old"}), row(NEW, "found", days=1))
        for number, reuse in enumerate(([new, old], [old, new])):
            enrich(tmp_path / f"{number}.jsonl", isbns=[CRIME, NEW], reuse=reuse)
            rows = json_rows(tmp_path / f"{number}.jsonl")
            assert [each["book"]["title"] for each in rows] == ["new", "As it was"]
        assert asked_since(database) == []

    @pytest.mark.parametrize("when", [at(-2), "9999-12-31T23:59:59-23:59"], ids=["in two days", "at the end"])
    def test_look_up_of_the_future_is_not_the_newest_and_not_young(
        self, tmp_path: Path, database: Mocker, when: str
    ) -> None:
        future = row(CRIME, fetched_at=when, book={"title": "wrong clock"})
        odd = dataset(tmp_path / "odd.jsonl", future, {**future, "input": PROGRAMMING, "isbn13": PROGRAMMING})
        new = dataset(tmp_path / "new.jsonl", row(CRIME, days=1, book={"title": "new"}))

        enrich(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], reuse=[odd, new])

        assert [each["reused"] for each in json_rows(tmp_path / "books.jsonl")] == [True, False]
        assert json_rows(tmp_path / "books.jsonl")[0]["book"] == {"title": "new"}
        assert asked_since(database) == [PROGRAMMING]

    @pytest.mark.parametrize(
        ("isbn", "status", "when"),
        [
            (CRIME, "found", "0001-01-01T00:00:00+14:00"),
            (CRIME, "found", "24/11/2026 07:14"),
            (CRIME, "found", 12345),
            (CALENDAR, "not_found", "1969-12-31T23:59:59+00:00"),
            (CALENDAR, "not_found", at(-2)),
        ],
        ids=["before all time", "unreadable", "a number", "before 1970", "in two days"],
    )
    def test_look_up_whose_time_cannot_be_is_too_old_and_stays_until_there_is_a_request_for_it(
        self, tmp_path: Path, database: Mocker, isbn: str, status: str, when: object
    ) -> None:
        kept = dataset(tmp_path / "old.jsonl", row(isbn, status, fetched_at=when))
        for format in FORMATS:
            # Nor does it become young by being written once more.
            summary = enrich(tmp_path / f"kept.{format}", isbns=[isbn], reuse=kept, max_requests=0)
            kept = summary["path"]
            assert (summary[status], summary["stale"], asked_since(database)) == (1, 1, [])
            assert [each["fetched_at"] or None for each in rows_of(Path(kept))] == [None]
        enrich(tmp_path / "new.jsonl", isbns=[isbn], reuse=kept)

        assert isbn in asked_since(database)

    @pytest.mark.parametrize(("nothing", "days"), [(0, 0), (timedelta(0), -0.5), ("0", 0)])
    def test_nothing_is_younger_than_no_time(self, tmp_path: Path, database: Mocker, nothing: Any, days: float) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=days), row(CALENDAR, "not_found", days=days))
        isbns = [CRIME, CALENDAR]

        kept = enrich(tmp_path / "kept.jsonl", isbns=isbns, reuse=old, reuse_for=nothing, max_requests=0)
        enrich(tmp_path / "new.jsonl", isbns=isbns, reuse=old, reuse_for=nothing, reuse_not_found_for=nothing)

        # For the book that is not there, a week is the default.
        assert (kept["reused"], kept["stale"]) == (2, 1)
        assert sorted(set(asked_since(database))) == sorted(isbns)

    def test_clocks_differ_so_that_a_look_up_of_the_next_hours_is_a_young_one(
        self, tmp_path: Path, database: Mocker
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME, days=-0.5))

        summary = enrich(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old, reuse_for=1)

        assert (summary["reused"], summary["stale"], asked_since(database)) == (1, 0, [])

    def test_row_that_is_too_old_is_asked_for_again(self, tmp_path: Path, database: Mocker) -> None:
        database.get(address(NEW), status_code=404, json=NO_SUCH_BOOK)
        rows = [row(CRIME, days=91), row(PROGRAMMING, days=89), row(CALENDAR, "not_found", days=6)]
        old = dataset(tmp_path / "old.jsonl", *rows, row(NEW, "not_found", days=8))

        enrich(tmp_path / "new.jsonl", isbns=[*LIST, NEW], reuse=old)

        assert sorted(set(asked_since(database))) == sorted([CRIME, NEW])
        new = json_rows(tmp_path / "new.jsonl")
        assert [each["reused"] for each in new] == [False, True, True, False]
        assert [each["fetched_at"] for each in new] == [at(0), at(89), at(6), at(0)]

    def test_row_that_failed_or_is_not_confirmed_is_asked_for_again(self, tmp_path: Path, database: Mocker) -> None:
        left_out = "A bulk reply left it out, with another book that is missing; it was not asked for by itself."
        books = sample_isbns(3)
        shelve(database, *books)
        old = dataset(
            tmp_path / "old.jsonl",
            row(books[0], "failed", error="503"),
            row(books[1], "not_found", error=left_out),
            row(books[2], "not_asked", error="no request was left"),
        )

        enrich(tmp_path / "new.jsonl", isbns=books, reuse=old)

        assert sorted(asked_since(database)) == books

    @pytest.mark.parametrize("end", [f'",{at(1)},false\n', '""T""}"', '""T""}",'], ids=["record", "time", "its cell"])
    def test_row_that_was_cut_off_is_asked_for_again(self, tmp_path: Path, database: Mocker, end: str) -> None:
        old = tmp_path / "old.csv"
        head = "input,isbn13,status,error,record,fetched_at,reused"
        old.write_text(f'{head}\n{CRIME},{CRIME},found,,"{{""title"": {end}')

        enrich(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old)

        assert asked_since(database) == [CRIME]

    def test_odd_line_is_read_as_well_as_it_can_be_and_so_are_those_behind_it(
        self, tmp_path: Path, database: Mocker
    ) -> None:
        odd = json.dumps(row(PROGRAMMING, book={"title": "@"})).encode().replace(b"@", b"\xff")
        number = json.dumps({**row(NEW), "isbn13": int(NEW)}).encode()
        lines = [json.dumps(row(CRIME)).encode(), odd, json.dumps({**row("x"), "isbn13": None}).encode(), number]
        (tmp_path / "old.jsonl").write_bytes(b"\n".join(lines))

        enrich(tmp_path / "new.jsonl", isbns=[NEW, PROGRAMMING, CRIME], reuse=tmp_path / "old.jsonl")

        assert asked_since(database) == []
        titles = [each["book"]["title"] for each in json_rows(tmp_path / "new.jsonl")]
        assert titles == ["As it was", "\ufffd", "As it was"]

    @pytest.mark.long
    @pytest.mark.parametrize("format", FORMATS)
    def test_dataset_of_any_kept_columns_is_read(self, tmp_path: Path, database: Mocker, format: str) -> None:
        # As many as a table may have, and names with line ends.
        names = [*(f"column {number}" for number in range(997)), "line\rend", "two\nlines", "\r"]
        (tmp_path / "list.jsonl").write_text(json.dumps({"isbn": CRIME, **dict.fromkeys(names, "x")}))
        old = enrich(tmp_path / f"old.{format}", source=tmp_path / "list.jsonl")["path"]
        asked_since(database)

        summary = enrich(tmp_path / "new.jsonl", isbns=[CRIME], reuse=old)

        assert (summary["reused"], asked_since(database)) == (1, [])

    def test_the_triggerer_does_the_same(self, tmp_path: Path, database: Mocker) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME), row(PROGRAMMING, days=99), row(CALENDAR, "not_found"))
        arguments: dict[str, Any] = {"isbns": list(LIST), "reuse": old, "max_requests": 0}
        here = enrich(tmp_path / "here.jsonl", **arguments)

        there = in_triggerer(make(tmp_path / "there.jsonl", **arguments, deferrable=True), context("deferred"))

        assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()
        same = dict.fromkeys(("path", "rows_per_second"))
        assert {**here, **same} == {**there, **same}
        assert (there["reused"], there["stale"], there["requests"]) == (3, 1, 0)
        assert asked_since(database) == []

    def test_missing_dataset_holds_nothing_and_is_named(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        gone = tmp_path / "yesterday.jsonl"

        summary = enrich(tmp_path / "today.jsonl", isbns=[CRIME], reuse=gone)

        assert (summary["found"], summary["reused"]) == (1, 0)
        assert f"WARNING: There is no dataset at {gone}: nothing is reused from it." in lines
        assert asked_since(database) == [CRIME]

    def test_number_of_reused_rows_is_logged_and_in_the_summary(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Mocker
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        old = dataset(tmp_path / "old.jsonl", row(CRIME), row(PROGRAMMING, days=99), row(NEW, "not_found", days=8))

        summary = enrich(tmp_path / "new.jsonl", isbns=[*LIST, NEW], reuse=old, max_requests=0)

        assert "INFO: Earlier datasets hold the look-ups of 3 ISBNs." in lines
        assert (
            "INFO: In no earlier dataset: 1 ISBN. Looked up too long ago: 2. max_requests leaves 0 requests for them."
            in lines
        )
        assert any("0 failed, 1 not asked (3 reused, 2 of them too old);" in line for line in lines)
        assert (summary["reused"], summary["stale"], summary["not_asked"]) == (3, 2, 1)
        assert asked_since(database) == []


def test_rows_that_are_saved_stay_although_their_dataset_has_changed_since(tmp_path: Path, database: Mocker) -> None:
    old = dataset(tmp_path / "old.jsonl", row(CRIME))
    arguments: dict[str, Any] = {"isbns": [CRIME, PROGRAMMING], "reuse": old}
    database.get(address(PROGRAMMING), status_code=503)
    with pytest.raises(ServiceUnavailableError):
        make(tmp_path / "new.jsonl", **arguments).execute(context())
    shelve(database, PROGRAMMING)
    asked_since(database)
    dataset(tmp_path / "old.jsonl", row(CRIME, book={"title": "corrected since"}))

    summary = make(tmp_path / "new.jsonl", **arguments).execute(context())

    assert (asked_since(database), summary["resumed"]) == ([PROGRAMMING], True)
    assert json_rows(tmp_path / "new.jsonl")[0]["book"] == row(CRIME)["book"]


class TestALookUpThatIsTooOldAndFails:
    def test_the_row_stays_as_it_was_and_counts_as_a_failure_and_the_log_says_so(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        catalogue = dataset(
            tmp_path / "books.jsonl", row(CRIME, days=99), row(NEW, "not_found", days=98), row(PROGRAMMING)
        )
        for isbn in (CRIME, NEW):
            database.get(address(isbn), status_code=503)
        isbns = [CRIME, f"ISBN {CRIME}", NEW, PROGRAMMING]

        summary = enrich(catalogue, isbns=isbns, reuse=catalogue, max_failures=3)

        assert set(asked_since(database)) == {CRIME, NEW}
        rows = json_rows(Path(catalogue))
        assert [each["status"] for each in rows] == ["found", "found", "not_found", "found"]
        assert [each["fetched_at"] for each in rows] == [at(99), at(99), at(98), at(1)]
        assert [each["book"] and each["book"]["title"] for each in rows] == [*["As it was"] * 2, None, "As it was"]
        assert all(each["reused"] and each["error"] is None for each in rows)
        figures = [summary[name] for name in ("found", "not_found", "failed", "reused", "stale", "refresh_failed")]
        assert figures == [3, 1, 0, 4, 3, 3]
        [warning] = [line for line in lines if line.startswith("WARNING")]
        assert re.search(r"stay as they are .* The first error, about \d+: The book database", warning)
        assert any("(4 reused, 3 of them too old, 3 because the service gave no new answer);" in line for line in lines)

        shelve(database, CRIME, NEW)
        enrich(catalogue, isbns=isbns, reuse=catalogue)
        assert sorted(asked_since(database)) == sorted([CRIME, NEW])
        assert [each["fetched_at"] for each in json_rows(Path(catalogue))] == [at(0), at(0), at(0), at(1)]

    def test_failure_beyond_max_failures_ends_the_attempt_and_the_catalogue_stays(
        self, tmp_path: Path, database: Mocker
    ) -> None:
        catalogue = dataset(tmp_path / "books.jsonl", row(CRIME, days=99), row(PROGRAMMING, days=99))
        content = Path(catalogue).read_bytes()
        for isbn in (CRIME, PROGRAMMING):
            database.get(address(isbn), status_code=503)
        today = context()
        arguments: dict[str, Any] = {"isbns": [CRIME, PROGRAMMING], "reuse": catalogue}

        with pytest.raises(ServiceUnavailableError):
            make(catalogue, **arguments, max_failures=1).execute(today)
        assert Path(catalogue).read_bytes() == content

        # The one within the bound is saved, and counts on.
        asked_since(database)
        with pytest.raises(ServiceUnavailableError):
            make(catalogue, **arguments, max_failures=1).execute(today)
        assert set(asked_since(database)) == {PROGRAMMING}
        shelve(database, PROGRAMMING)
        summary = make(catalogue, **arguments, max_failures=1).execute(today)

        assert [summary[name] for name in ("found", "stale", "refresh_failed")] == [2, 1, 1]
        assert [each["fetched_at"] for each in json_rows(Path(catalogue))] == [at(99), at(0)]


def test_rows_without_a_request_left_say_so_and_are_asked_for_the_next_day(tmp_path: Path, database: Mocker) -> None:
    books = sample_isbns(5)
    shelve(database, *books)
    catalogue = tmp_path / "books.jsonl"

    days = [enrich(catalogue, isbns=books, reuse=catalogue, max_requests=2)]
    last = json_rows(catalogue)[-1]
    days += [enrich(catalogue, isbns=books, reuse=catalogue, max_requests=2) for _ in range(2)]

    assert (last["status"], last["book"], last["fetched_at"]) == ("not_asked", None, None)
    assert last["error"] == "max_requests was reached before there was an answer for it."
    assert sorted(asked_since(database)) == books
    figures = [[day[name] for name in ("found", "reused", "not_asked", "failed", "requests")] for day in days]
    assert figures == [[2, 0, 3, 0, 2], [4, 2, 1, 0, 2], [5, 4, 0, 0, 1]]
    assert all(each["status"] == "found" for each in json_rows(catalogue))


def test_no_request_is_sent_for_the_quota(tmp_path: Path, database: Mocker) -> None:
    enrich(tmp_path / "books.jsonl", isbns=[CRIME] * 200, max_requests=5)

    assert asked_since(database) == [CRIME]


def test_undecided_404_without_a_request_left_is_no_not_found(tmp_path: Path, database: Mocker) -> None:
    old = dataset(tmp_path / "old.jsonl", row(CALENDAR, days=99))
    database.get(address(CALENDAR), status_code=404, json={"errorMessage": "Not Found"})
    database.get(address(NEW), status_code=404, json={"errorMessage": "Not Found"})

    summary = enrich(tmp_path / "new.jsonl", isbns=[CALENDAR, NEW], reuse=old, max_requests=2)

    assert [each["status"] for each in json_rows(tmp_path / "new.jsonl")] == ["found", "not_asked"]
    assert (summary["stale"], summary["not_asked"], summary["requests"]) == (1, 1, 2)
    assert len(asked_since(database)) == 2


@pytest.mark.parametrize("first", [7, None], ids=["the same bound", "no bound"])
def test_all_attempts_share_the_requests_whatever_the_bound_of_the_first(
    tmp_path: Path, database: Mocker, first: int | None
) -> None:
    books = sample_isbns(6)
    shelve(database, *books)
    database.get(address(books[2]), status_code=503)
    with pytest.raises(ServiceUnavailableError):
        make(tmp_path / "books.jsonl", isbns=books, max_requests=first).execute(context())
    before = len(asked_since(database))
    assert before >= 3
    for isbn in books:
        database.get(address(isbn), status_code=404, json={"errorMessage": "Not Found"})

    summary = make(tmp_path / "books.jsonl", isbns=books, max_requests=7).execute(context())

    assert before + len(asked_since(database)) == summary["requests"] == 7
    assert summary["found"] + summary["not_asked"] == 6


@pytest.mark.parametrize(("bounds", "refreshed"), [((0, 3), 2), ((1, 9), 4), ((9, 2), 1), ((2, 2), 1)])
def test_attempt_with_another_bound_asks_for_the_stalest_that_it_has_room_for(
    tmp_path: Path,
    database: Mocker,
    monkeypatch: pytest.MonkeyPatch,
    bounds: tuple[int, int],
    refreshed: int,
) -> None:
    new, *books = sample_isbns(5)
    ages = dict(zip(books, (100, 400, 200, 300), strict=True))
    shelve(database, new, *books)
    old = dataset(tmp_path / "old.jsonl", *(row(isbn, days=days) for isbn, days in ages.items()))
    arguments: dict[str, Any] = {"isbns": [new, *books], "reuse": old}
    # The first attempt gets as far as the connection.
    with monkeypatch.context() as without:
        without.delenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT")
        with pytest.raises(permanent(InvalidConnectionError), match="mediaops_books_default"):
            make(tmp_path / "new.jsonl", **arguments, max_requests=bounds[0]).execute(context())
    assert asked_since(database) == []

    summary = make(tmp_path / "new.jsonl", **arguments, max_requests=bounds[1]).execute(context())

    stalest = sorted(books, key=lambda isbn: -ages[isbn])[:refreshed]
    assert sorted(asked_since(database)) == sorted([new, *stalest])
    assert (summary["stale"], summary["not_asked"]) == (len(books) - refreshed, 0)


class LostNetworkError(Exception):
    """An error of a client's own."""


def test_dataset_that_is_replaced_while_it_is_read_is_read_anew_by_the_next_attempt(tmp_path: Path) -> None:
    file = Path(dataset(tmp_path / "old.jsonl", *(row(CRIME) for _ in range(5_000))))
    earlier = earlier_dataset(str(file), "new.jsonl", None)
    rows = lookups_of(earlier)
    next(rows)
    file.write_bytes(b"\0\n" * 2_000_000)

    with pytest.raises(OSError, match=f"reuse {file} was replaced while it was read; the next attempt") as caught:
        list(rows)

    assert caught.value.errno == errno.ESTALE
    with pytest.raises(InvalidArgumentError, match=f"not a whole dataset of EnrichIsbnsOperator. {file}"):
        list(lookups_of(earlier))


class TestAStoreThatFails:
    @pytest.mark.parametrize(
        "error",
        [OSError("the store is busy"), TimeoutError(errno.ETIMEDOUT, "timed out"), LostNetworkError()],
        ids=["without a number", "timeout", "the client's own"],
    )
    def test_reading_parquet_may_succeed_later(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def refuse(*_: object) -> bytes:
            raise error

        def unreadable(*arguments: Any, **options: Any) -> Any:
            file = opened(*arguments, **options)
            failing.setattr(file, "read", refuse)
            return file

        old = dataset(tmp_path / "old.jsonl", row(CRIME))
        before = enrich(tmp_path / "before.parquet", isbns=[CRIME], reuse=old)["path"]
        arguments: dict[str, Any] = {"isbns": [CRIME], "reuse": "memory://flaky@bucket/old.parquet"}
        with attached(FakeStore(), "flaky") as store:
            store.pipe_file("/bucket/old.parquet", Path(before).read_bytes())
            opened = store.open
            with monkeypatch.context() as failing:
                failing.setattr(store, "open", unreadable)
                with pytest.raises(OSError, match=r"memory://flaky@bucket/old\.parquet cannot be read: ") as caught:
                    enrich(tmp_path / "new.jsonl", **arguments)

            assert type(caught.value).__module__ == "builtins"
            assert enrich(tmp_path / "new.jsonl", **arguments)["reused"] == 1
        assert not database.called


class TestNoDataset:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("old.jsonl", b'{"isbn": "9780140449136"}\n', "no column 'isbn13', but 'isbn'"),
            ("old.jsonl", b'{"isbn13": "9780140449136"}\n', "there is no column 'input', but 'isbn13'"),
            ("old.jsonl", b"no JSON\n", "Line 1: it is not valid JSON"),
            (
                "old.jsonl",
                json.dumps(row(CRIME, fetched_at=None)).encode() + b'\n{"input": "978',
                "Line 2: it is not valid JSON",
            ),
            ("old.csv", b"isbn13,title\n", "there is no column 'input', but 'isbn13', 'title'"),
            ("old.csv", b"", "it is empty"),
            ("old.csv", b"\x1f\x8b\x08\x00", "it is not text but compressed with gzip"),
            ("old.csv", b"PAR1", "it is not text but Parquet"),
            ("old.parquet", b"PAR1", "not a whole Parquet file"),
        ],
    )
    def test_file_that_is_no_dataset_of_ours_raises_before_the_first_request(
        self, tmp_path: Path, database: Mocker, name: str, content: bytes, message: str
    ) -> None:
        (tmp_path / name).write_bytes(content)

        with pytest.raises(
            permanent(InvalidArgumentError), match="reuse names a file that is not a whole dataset"
        ) as caught:
            enrich(tmp_path / "new.jsonl", isbns=[CRIME], reuse=tmp_path / name)

        assert message in str(caught.value)
        assert str(tmp_path / name) in str(caught.value)
        assert not database.called

    @pytest.mark.parametrize(
        ("argument", "kind"),
        [
            ("source", "a named pipe"),
            ("source", "a device"),
            ("reuse", "a named pipe"),
            ("reuse", "a socket"),
            ("reuse", "a folder"),
        ],
    )
    def test_path_of_no_regular_file_raises_before_it_is_opened(
        self, tmp_path: Path, database: Mocker, kind: str, argument: str
    ) -> None:
        path = tmp_path / "list.jsonl"
        with socket.socket(socket.AF_UNIX) as listener:
            if kind == "a named pipe":
                os.mkfifo(tmp_path / "pipe")
                path.symlink_to(tmp_path / "pipe")
            elif kind == "a device":
                path.symlink_to("/dev/zero")
            elif kind == "a socket":
                listener.bind(str(path))
            else:
                path.mkdir()
            isbns = {"isbns": [CRIME]} if argument == "reuse" else {}

            with pytest.raises(permanent(InvalidArgumentError), match=f"^{argument} .*{path} is a folder, a pipe or"):
                enrich(tmp_path / "new.jsonl", **{argument: path}, **isbns)

        assert not database.called

    # A dataset is not compressed, whatever its name says.
    @pytest.mark.parametrize("name", ["catalogue", "catalogue.csv.gz"])
    @pytest.mark.parametrize("format", FORMATS)
    def test_the_destination_has_its_own_format(self, tmp_path: Path, database: Mocker, name: str, format: str) -> None:
        catalogue = tmp_path / name
        for _ in range(2):
            enrich(catalogue, isbns=[CRIME], reuse=catalogue, format=format)

        assert asked_since(database) == [CRIME]
