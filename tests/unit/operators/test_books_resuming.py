"""Enrichments that go on: after a failure, after a death, after a clear; and those that are done in the triggerer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import QuotaExceededError, ServiceUnavailableError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.storage.source_list import find_files, version_of
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.airflow_names import TaskDeferred
from tests.memory_rates import forget_rates
from tests.unit.book_database import CALENDAR, CRIME, LIMIT_404, PROGRAMMING, asked, connection
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import BASE, address, context, make, shelve
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from requests_mock import Mocker

    from tests.unit.conftest import Supervisor

pytestmark = pytest.mark.usefixtures("supervisor")
LIST = (CRIME, "x", PROGRAMMING, CRIME, CALENDAR)
SPENT: dict[str, Any] = {"status_code": 429, "json": {"message": "Daily quota exceeded"}}
DOWN: dict[str, Any] = {"status_code": 503}


def task(destination: object, **arguments: Any) -> EnrichIsbnsOperator:
    return make(destination, **({"isbns": list(LIST)} if "source" not in arguments else {}) | arguments)


def enrich(destination: object, instance: Any = None, **arguments: Any) -> dict[str, Any]:
    """Enrich as a try of a task."""
    return task(destination, **arguments).execute(instance or context())


def source_of(folder: Path, name: str) -> dict[str, Any]:
    """Write the list into a file with a column beside it; return the argument that names it."""
    line, head = ('{{"n": "{}", "isbn": "{}"}}\n', "") if name.endswith("jsonl") else ("{},{}\n", "n,isbn\n")
    data = (head + "".join(line.format(n, isbn) for n, isbn in enumerate(LIST))).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return {"source": str(folder / name)}


def stopped_at(isbn13: str, file: object, database: Mocker, **arguments: Any) -> None:
    """Enrich until the quota is spent at a book; it comes back after that."""
    database.get(address(isbn13), **SPENT)
    with pytest.raises(QuotaExceededError):
        enrich(file, **arguments)
    forget_rates()
    shelve(database, isbn13)
    database.reset_mock()


def statuses(file: Path) -> list[str]:
    return [json.loads(line)["status"] for line in file.read_text(encoding="utf-8").splitlines()]


class TestGoingOn:
    @pytest.mark.parametrize(
        ("listed", "name"),
        [
            ("", "books.jsonl"),
            ("list.csv", "books.csv"),
            ("list.csv.gz", "books.jsonl"),
            ("list.jsonl", "books.csv"),
        ],
    )
    def test_the_next_attempt_asks_for_nothing_twice(
        self, tmp_path: Path, database: Mocker, listed: str, name: str
    ) -> None:
        given = source_of(tmp_path, listed) if listed else {}
        whole = enrich(tmp_path / f"whole.{name}", **given)
        stopped_at(PROGRAMMING, tmp_path / name, database, **given)
        assert not (tmp_path / name).exists()

        summary = enrich(tmp_path / name, **given)

        assert (tmp_path / name).read_bytes() == (tmp_path / f"whole.{name}").read_bytes()
        assert PROGRAMMING in asked(database)
        assert CRIME not in asked(database)
        assert summary["resumed"]
        assert summary["requests"] <= whole["requests"] + 1
        other = dict.fromkeys(("path", "resumed", "rows_per_second", "requests", "bytes"))
        assert {**summary, **other} == {**whole, **other}

    def test_each_book_of_a_cell_keeps_the_columns_of_its_row_over_a_resume(
        self, tmp_path: Path, database: Mocker
    ) -> None:
        (tmp_path / "list.csv").write_text(f"n,isbn\n1,{CRIME} {CALENDAR}\n2,{PROGRAMMING}\n")
        given = {"source": str(tmp_path / "list.csv"), "several": "rows"}
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database, **given)

        assert enrich(tmp_path / "books.jsonl", **given)["resumed"]

        rows = map(json.loads, (tmp_path / "books.jsonl").read_text().splitlines())
        assert [(row["input_row"], row["source"]) for row in rows] == [
            (1, {"n": "1"}),
            (1, {"n": "1"}),
            (2, {"n": "2"}),
        ]

    def test_rows_that_failed_within_bounds_stay_and_count(self, tmp_path: Path, database: Mocker) -> None:
        database.get(address(CRIME), **DOWN)
        database.get(address(CALENDAR), **DOWN)
        isbns = [CRIME, PROGRAMMING, CALENDAR]
        with pytest.raises(ServiceUnavailableError):
            enrich(tmp_path / "books.jsonl", isbns=isbns, max_failures=1)
        shelve(database, CRIME)
        with pytest.raises(ServiceUnavailableError):
            enrich(tmp_path / "books.jsonl", isbns=isbns, max_failures=1)
        shelve(database, CALENDAR)

        summary = enrich(tmp_path / "books.jsonl", isbns=isbns, max_failures=1)

        assert statuses(tmp_path / "books.jsonl") == ["failed", "found", "found"]
        assert summary["failed"] == 1

    def test_undecided_404_is_not_asked_for_again_before_it_is_decided(
        self, tmp_path: Path, database: Mocker, supervisor: Supervisor
    ) -> None:
        supervisor.connect("mediaops_books_default", connection(BASE, canary_isbn=CALENDAR))
        database.get(address(PROGRAMMING), status_code=404, json=LIMIT_404)
        database.get(address(CALENDAR), **SPENT)
        with pytest.raises(QuotaExceededError):
            enrich(tmp_path / "books.jsonl", isbns=[PROGRAMMING])
        forget_rates()
        shelve(database, CALENDAR)
        database.reset_mock()

        enrich(tmp_path / "books.jsonl", isbns=[PROGRAMMING])

        assert asked(database)[:3] == [CALENDAR, PROGRAMMING, CALENDAR]
        assert statuses(tmp_path / "books.jsonl") == ["not_found"]

    def test_the_log_says_what_is_kept_and_where_it_goes_on(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)
        enrich(tmp_path / "books.jsonl")

        assert "INFO: Saved 2 of 5 rows for the next attempt." in lines
        assert "INFO: Resuming after 2 of 5 rows." in lines


class TestAnew:
    @pytest.mark.parametrize(
        ("change", "resumes"),
        [
            ({"isbns": [*LIST, CRIME]}, False),
            ({"isbn_column": "ean"}, False),
            ({"books_conn_id": "other"}, False),
            ({"format": "csv"}, False),
            # These do not change the dataset.
            ({"max_failures": 5, "on_invalid": "record"}, True),
        ],
    )
    def test_attempt_with_other_arguments_starts_anew_if_they_change_the_dataset(
        self,
        tmp_path: Path,
        database: Mocker,
        supervisor: Supervisor,
        change: dict[str, Any],
        *,
        resumes: bool,
    ) -> None:
        supervisor.connect("other", connection(BASE))
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)

        summary = enrich(tmp_path / "books.jsonl", **change)

        assert (summary["resumed"], CRIME in asked(database)) == (resumes, not resumes)

    @pytest.mark.parametrize(("more", "keep"), [("9,x\n", True), ("", False)], ids=["another list", "other columns"])
    def test_attempt_with_a_changed_source_or_another_choice_of_its_columns_starts_anew(
        self, tmp_path: Path, database: Mocker, more: str, *, keep: bool
    ) -> None:
        given = source_of(tmp_path, "list.csv")
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database, **given)
        if more:
            (tmp_path / "list.csv").write_text((tmp_path / "list.csv").read_text() + more)

        assert not enrich(tmp_path / "books.jsonl", **given, keep_columns=keep)["resumed"]

    def test_another_run_is_another_day(self, tmp_path: Path, database: Mocker) -> None:
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)

        assert not enrich(tmp_path / "books.jsonl", context("tomorrow"))["resumed"]


class TestPublished:
    @pytest.mark.parametrize("deferrable", [False, True])
    def test_retry_of_a_published_enrichment_returns_the_same_without_a_deferral(
        self, tmp_path: Path, database: Mocker, *, deferrable: bool
    ) -> None:
        first = enrich(tmp_path / "books.jsonl")
        database.reset_mock()

        assert enrich(tmp_path / "books.jsonl", deferrable=deferrable) == first
        assert not database.called

    def test_task_cleared_after_it_has_published_does_its_work_again(self, tmp_path: Path, database: Mocker) -> None:
        enrich(tmp_path / "books.jsonl")
        database.reset_mock()

        assert not enrich(tmp_path / "books.jsonl", context(max_tries=3))["resumed"]
        assert database.called


class TestDeferred:
    def deferred(self, operator: EnrichIsbnsOperator) -> EnrichmentTrigger:
        with pytest.raises(TaskDeferred) as caught:
            operator.execute(context())
        assert caught.value.method_name == "execute_complete"
        trigger = caught.value.trigger
        assert isinstance(trigger, EnrichmentTrigger)
        return trigger

    def test_the_work_is_left_to_the_triggerer_with_the_list_in_a_file(self, tmp_path: Path, database: Mocker) -> None:
        trigger = self.deferred(task(tmp_path / "books.jsonl", deferrable=True, bulk=True, max_failures=3))

        assert not database.called
        plan = trigger.work
        assert plan["total"] == 5
        assert (plan["bulk"], plan["max_failures"]) == (True, 3)
        assert CRIME not in json.dumps(trigger.serialize()[1])
        listed = [json.loads(line)["isbn"] for line in ObjectStoragePath(plan["source"][0]).read_text().splitlines()]
        assert listed == list(LIST)
        assert plan["version"] == version_of(find_files(plan["source"]))
        assert plan["owner"]["task"] == "dag/today/enrich/-1"

    def test_two_runs_that_defer_to_one_destination_keep_a_list_each(self, tmp_path: Path) -> None:
        today = self.deferred(task(tmp_path / "books.jsonl", deferrable=True))
        tomorrow = task(tmp_path / "books.jsonl", isbns=[CRIME], deferrable=True)
        with pytest.raises(TaskDeferred):
            tomorrow.execute(context("tomorrow"))

        listed = ObjectStoragePath(today.work["source"][0]).read_text().splitlines()
        assert [json.loads(line)["isbn"] for line in listed] == list(LIST)
        assert today.work["version"] == version_of(find_files(today.work["source"]))
