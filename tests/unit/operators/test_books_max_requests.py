"""Enrichments within a bound of requests: which books they ask for, and what becomes of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, InvalidConnectionError, ServiceUnavailableError
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, book
from tests.unit.operators.earlier_books import NEW, asked, at, context, dataset, row, run
from tests.unit.operators.enrichment import BASE, address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


def test_new_books_come_first_then_the_stalest(tmp_path: Path, database: requests_mock.Mocker) -> None:
    books = sample_isbns(8)
    for isbn in books:
        database.get(address(isbn), json=book(isbn))
    ages = dict(zip(books[:6], (100, 300, 95, 200, 400, 1), strict=True))
    old = dataset(tmp_path / "old.jsonl", *(row(isbn, days=days) for isbn, days in ages.items()))

    summary = run(tmp_path / "new.jsonl", isbns=[*books, books[0]], reuse=old, max_requests=4)

    assert sorted(asked(database)) == [books[1], books[4], books[6], books[7]]
    rows = json_rows(tmp_path / "new.jsonl")
    assert [each["reused"] for each in rows] == [True, False, True, True, False, True, False, False, True]
    assert rows[0]["fetched_at"] == rows[8]["fetched_at"] == at(100)
    figures = [summary[name] for name in ("found", "reused", "stale", "not_asked", "requests")]
    assert figures == [9, 5, 4, 0, 4]


def test_rows_without_a_request_left_say_so_and_are_asked_for_the_next_day(
    tmp_path: Path, database: requests_mock.Mocker
) -> None:
    books = sample_isbns(5)
    for isbn in books:
        database.get(address(isbn), json=book(isbn))
    catalogue = tmp_path / "books.jsonl"

    days = [run(catalogue, isbns=books, reuse=catalogue, max_requests=2) for _ in range(3)]

    assert sorted(asked(database)) == books
    assert [(day["found"], day["reused"], day["not_asked"]) for day in days] == [(2, 0, 3), (4, 2, 1), (5, 4, 0)]
    assert all(each["status"] == "found" for each in json_rows(catalogue))


def test_row_without_a_request_has_a_status_of_its_own(tmp_path: Path, database: requests_mock.Mocker) -> None:
    summary = run(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING, PROGRAMMING], max_requests=1)

    [_, *rest] = json_rows(tmp_path / "books.jsonl")
    for each in rest:
        assert (each["status"], each["book"], each["fetched_at"]) == ("not_asked", None, None)
        assert each["error"] == "max_requests was reached before there was an answer for it."
    assert (summary["not_asked"], summary["failed"], summary["requests"]) == (2, 0, 1)
    assert asked(database) == [CRIME]


def test_no_request_is_sent_for_the_quota(tmp_path: Path, database: requests_mock.Mocker) -> None:
    run(tmp_path / "books.jsonl", isbns=[CRIME] * 200, max_requests=5)

    assert asked(database) == [CRIME]


def test_each_book_of_a_bulk_request_counts(tmp_path: Path, database: requests_mock.Mocker) -> None:
    books = sample_isbns(9)
    sizes: list[int] = []

    def many(request: Any, _: Any) -> Any:
        isbns = request.json()["isbns"]
        sizes.append(len(isbns))
        return {"data": [book(isbn)["book"] for isbn in isbns]}

    database.post(f"{BASE}/books", json=many)

    summary = run(tmp_path / "books.jsonl", isbns=books, bulk=True, max_requests=7)

    assert sum(sizes) == 7
    assert (summary["found"], summary["not_asked"], summary["requests"]) == (7, 2, len(sizes))


def test_undecided_404_without_a_request_left_is_no_not_found(tmp_path: Path, database: requests_mock.Mocker) -> None:
    old = dataset(tmp_path / "old.jsonl", row(CALENDAR, days=99))
    database.get(address(CALENDAR), status_code=404, json={"errorMessage": "Not Found"})
    database.get(address(NEW), status_code=404, json={"errorMessage": "Not Found"})

    summary = run(tmp_path / "new.jsonl", isbns=[CALENDAR, NEW], reuse=old, max_requests=2)

    assert [each["status"] for each in json_rows(tmp_path / "new.jsonl")] == ["found", "not_asked"]
    assert (summary["stale"], summary["not_asked"], summary["requests"]) == (1, 1, 2)
    assert len(asked(database)) == 2


def test_requests_of_an_attempt_before_there_was_a_bound_count(tmp_path: Path, database: requests_mock.Mocker) -> None:
    books = sample_isbns(6)
    for isbn in books:
        database.get(address(isbn), json=book(isbn))
    database.get(address(books[3]), status_code=401, json={})
    this = context("changed meanwhile")
    with pytest.raises(permanent(AuthenticationError)):
        make(tmp_path / "books.jsonl", isbns=books).execute(this)
    sent = len(asked(database))

    summary = make(tmp_path / "books.jsonl", isbns=books, max_requests=sent).execute(this)

    assert asked(database) == []
    assert summary["requests"] == sent
    assert summary["not_asked"] >= 1


def test_all_attempts_share_it(tmp_path: Path, database: requests_mock.Mocker) -> None:
    books = sample_isbns(6)
    for isbn in books:
        database.get(address(isbn), json=book(isbn))
    database.get(address(books[2]), status_code=503)
    with pytest.raises(ServiceUnavailableError):
        make(tmp_path / "books.jsonl", isbns=books, max_requests=7).execute(context("today"))
    before = len(asked(database))
    assert before >= 3
    for isbn in books:
        database.get(address(isbn), status_code=404, json={"errorMessage": "Not Found"})

    summary = make(tmp_path / "books.jsonl", isbns=books, max_requests=7).execute(context("today"))

    assert before + len(asked(database)) == summary["requests"] == 7
    assert summary["found"] + summary["not_asked"] == 6


@pytest.mark.parametrize(("bounds", "refreshed"), [((0, 3), 2), ((1, 9), 4), ((9, 2), 1), ((2, 2), 1)])
def test_attempt_with_another_bound_asks_for_the_stalest_that_it_has_room_for(
    tmp_path: Path,
    database: requests_mock.Mocker,
    monkeypatch: pytest.MonkeyPatch,
    bounds: tuple[int, int],
    refreshed: int,
) -> None:
    new, *books = sample_isbns(5)
    ages = dict(zip(books, (100, 400, 200, 300), strict=True))
    for isbn in (new, *books):
        database.get(address(isbn), json=book(isbn))
    old = dataset(tmp_path / "old.jsonl", *(row(isbn, days=days) for isbn, days in ages.items()))
    arguments: dict[str, Any] = {"isbns": [new, *books], "reuse": old}
    # The first attempt gets as far as the connection.
    with monkeypatch.context() as without:
        without.delenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT")
        with pytest.raises(permanent(InvalidConnectionError), match="mediaops_books_default"):
            make(tmp_path / "new.jsonl", **arguments, max_requests=bounds[0]).execute(context("today"))
    assert asked(database) == []

    summary = make(tmp_path / "new.jsonl", **arguments, max_requests=bounds[1]).execute(context("today"))

    stalest = sorted(books, key=lambda isbn: -ages[isbn])[:refreshed]
    assert sorted(asked(database)) == sorted([new, *stalest])
    assert (summary["stale"], summary["not_asked"]) == (len(books) - refreshed, 0)


def test_books_found_before_a_dataset_of_reuse_changed_leave_their_requests_to_the_stale(
    tmp_path: Path, database: requests_mock.Mocker
) -> None:
    *new, first, second, third = sample_isbns(6)
    for isbn in (*new, first, second, third):
        database.get(address(isbn), json=book(isbn))
    database.get(address(first), status_code=503)
    arguments: dict[str, Any] = {"isbns": [*new, first, second, third], "reuse": tmp_path / "old.jsonl"}
    dataset(tmp_path / "old.jsonl", *(row(isbn, days=200) for isbn in (first, second, third)))
    with pytest.raises(ServiceUnavailableError):
        make(tmp_path / "new.jsonl", **arguments, max_requests=20).execute(context("today"))
    before = len(asked(database))
    database.get(address(first), json=book(first))
    dataset(tmp_path / "old.jsonl", *(row(isbn, days=300) for isbn in (first, second, third)))

    summary = make(tmp_path / "new.jsonl", **arguments, max_requests=before + 3).execute(context("today"))

    assert (summary["found"], summary["reused"], summary["stale"]) == (6, 0, 0)


def test_requests_spent_before_a_dataset_of_reuse_changed_count_after_an_attempt_without_a_connection(
    tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    *books, last = sample_isbns(4)
    for isbn in books:
        database.get(address(isbn), json=book(isbn))
    database.get(address(last), status_code=503)
    arguments: dict[str, Any] = {"isbns": [*books, last], "reuse": tmp_path / "old.jsonl"}
    dataset(tmp_path / "old.jsonl", row(NEW, days=1))
    with pytest.raises(ServiceUnavailableError):
        make(tmp_path / "new.jsonl", **arguments, max_requests=20).execute(context("today"))
    before = len(asked(database))
    dataset(tmp_path / "old.jsonl", row(NEW, days=2))
    with monkeypatch.context() as without:
        without.delenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT")
        with pytest.raises(permanent(InvalidConnectionError)):
            make(tmp_path / "new.jsonl", **arguments, max_requests=before).execute(context("today"))
    database.get(address(last), json=book(last))

    summary = make(tmp_path / "new.jsonl", **arguments, max_requests=before + 1).execute(context("today"))

    assert (summary["requests"], summary["found"], asked(database)) == (before + 1, 4, [last])
