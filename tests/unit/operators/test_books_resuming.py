"""Enrichments that go on: after a failure, after a death, after a clear; and those that are done in the triggerer."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import (
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.storage.source_list import ListSource
from airflow_provider_mediaops.triggers.base import done_event, error_event
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.airflow_names import TaskDeferred
from tests.memory_rates import forget_rates
from tests.unit.book_database import CALENDAR, CRIME, LIMIT_404, NO_SUCH_BOOK, PROGRAMMING, asked, book, connection
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import BASE, SteadyTime, address
from tests.unit.storage.conftest import store as store  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor
    from tests.unit.storage.conftest import Store

LIST = (CRIME, "x", PROGRAMMING, CRIME, CALENDAR)
SPENT: dict[str, Any] = {"status_code": 429, "json": {"message": "Daily quota exceeded"}}
DOWN: dict[str, Any] = {"status_code": 503}


@pytest.fixture(autouse=True)
def database(
    supervisor: Supervisor, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> requests_mock.Mocker:
    """Have a database with two books."""
    monkeypatch.setattr("airflow_provider_mediaops.http.clock.datetime", SteadyTime)
    supervisor.connect("mediaops_books_default", connection(BASE))
    requests_mock.get(address(CRIME), json=book(CRIME))
    requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))
    requests_mock.get(address(CALENDAR), status_code=404, json=NO_SUCH_BOOK)
    requests_mock.get(f"{BASE}/key", status_code=404, json={})
    return requests_mock


def instance(run: str = "today", max_tries: int = 2) -> dict[str, Any]:
    """Give a task's context."""
    fields = {"dag_id": "dag", "run_id": run, "task_id": "enrich", "map_index": -1, "max_tries": max_tries}
    return {"ti": SimpleNamespace(**fields)}


def make(destination: object, **arguments: Any) -> EnrichIsbnsOperator:
    given = {"isbns": list(LIST)} if "source" not in arguments else {}
    return EnrichIsbnsOperator(task_id="enrich", destination=str(destination), **{**given, **arguments})


def enrich(destination: object, context: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    return make(destination, **arguments).execute(context or instance())  # type: ignore[arg-type]


def stopped_at(isbn13: str, file: object, database: requests_mock.Mocker, **arguments: Any) -> None:
    """Enrich until the quota is spent at a book; it comes back after that."""
    database.get(address(isbn13), **SPENT)
    with pytest.raises(QuotaExceededError):
        enrich(file, **arguments)
    forget_rates()
    database.get(address(isbn13), json=book(isbn13))
    database.reset_mock()


def statuses(file: Path) -> list[str]:
    return [json.loads(line)["status"] for line in file.read_text(encoding="utf-8").splitlines()]


class TestGoingOn:
    def test_the_next_attempt_asks_for_nothing_twice(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        whole = enrich(tmp_path / "whole.jsonl")
        database.reset_mock()
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)
        assert not (tmp_path / "books.jsonl").exists()

        summary = enrich(tmp_path / "books.jsonl")

        assert (tmp_path / "books.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
        assert PROGRAMMING in asked(database)
        assert CRIME not in asked(database)
        assert summary["resumed"]
        same = {"path", "resumed", "rows_per_second", "requests"}
        assert {key: summary[key] for key in summary if key not in same} == {
            key: whole[key] for key in whole if key not in same
        }
        assert summary["requests"] <= whole["requests"] + 1

    def test_row_done_ahead_of_its_turn_is_not_asked_for_again(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        stopped_at(CRIME, tmp_path / "books.jsonl", database, isbns=[CRIME, PROGRAMMING])

        enrich(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING])

        # Unless it was not under way yet.
        assert asked(database) in ([CRIME], [CRIME, PROGRAMMING])
        assert statuses(tmp_path / "books.jsonl") == ["found", "found"]

    def test_failed_row_that_was_too_many_is_asked_for_again(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        database.get(address(PROGRAMMING), **DOWN)
        with pytest.raises(ServiceUnavailableError):
            enrich(tmp_path / "books.jsonl")
        database.get(address(PROGRAMMING), json=book(PROGRAMMING))
        database.reset_mock()

        summary = enrich(tmp_path / "books.jsonl")

        assert asked(database)[0] == PROGRAMMING
        assert CRIME not in asked(database)
        assert statuses(tmp_path / "books.jsonl") == ["found", "invalid", "found", "found", "not_found"]
        assert summary["failed"] == 0

    def test_rows_that_failed_within_bounds_stay_and_count(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        database.get(address(CRIME), **DOWN)
        database.get(address(CALENDAR), **DOWN)
        isbns = [CRIME, PROGRAMMING, CALENDAR]
        with pytest.raises(ServiceUnavailableError):
            enrich(tmp_path / "books.jsonl", isbns=isbns, max_failures=1)
        database.get(address(CRIME), json=book(CRIME))
        with pytest.raises(ServiceUnavailableError):
            enrich(tmp_path / "books.jsonl", isbns=isbns, max_failures=1)
        database.get(address(CALENDAR), json=book(CALENDAR))

        summary = enrich(tmp_path / "books.jsonl", isbns=isbns, max_failures=1)

        assert statuses(tmp_path / "books.jsonl") == ["failed", "found", "found"]
        assert summary["failed"] == 1

    def test_undecided_404_is_not_asked_for_again_before_it_is_decided(
        self, tmp_path: Path, database: requests_mock.Mocker, supervisor: Supervisor
    ) -> None:
        supervisor.connect("mediaops_books_default", connection(BASE, canary_isbn=CALENDAR))
        database.get(address(PROGRAMMING), status_code=404, json=LIMIT_404)
        database.get(address(CALENDAR), **SPENT)
        with pytest.raises(QuotaExceededError):
            enrich(tmp_path / "books.jsonl", isbns=[PROGRAMMING])
        forget_rates()
        database.get(address(CALENDAR), json=book(CALENDAR))
        database.reset_mock()

        enrich(tmp_path / "books.jsonl", isbns=[PROGRAMMING])

        assert asked(database)[:3] == [CALENDAR, PROGRAMMING, CALENDAR]
        assert statuses(tmp_path / "books.jsonl") == ["not_found"]

    def test_killed_enrichment_on_an_object_store_resumes(self, store: Store, database: requests_mock.Mocker) -> None:
        destination = "memory://shelf@bucket/books.jsonl"
        stopped_at(PROGRAMMING, destination, database)

        summary = enrich(destination)

        assert CRIME not in asked(database)
        assert (summary["found"], summary["resumed"]) == (3, True)
        assert len(store.cat_file("/bucket/books.jsonl").splitlines()) == 5

    def test_resumed_source_is_read_on_from_the_next_row(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        (tmp_path / "isbns.txt").write_text("\n".join(LIST))
        source = str(tmp_path / "isbns.txt")
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database, source=source)

        enrich(tmp_path / "books.jsonl", source=source)

        assert CRIME not in asked(database)
        assert statuses(tmp_path / "books.jsonl") == ["found", "invalid", "found", "found", "not_found"]

    def test_the_log_says_what_is_kept_and_where_it_goes_on(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)
        enrich(tmp_path / "books.jsonl")

        assert "INFO: Saved 2 of 5 ISBNs for the next attempt." in lines
        assert "INFO: Resuming after 2 of 5 ISBNs." in lines


class TestAnew:
    @pytest.mark.parametrize(
        "change", [{"isbns": [*LIST, CRIME]}, {"isbn_column": "ean"}, {"books_conn_id": "other"}, {"format": "csv"}]
    )
    def test_with_another_list_or_way_nothing_is_gone_on_with(
        self, tmp_path: Path, database: requests_mock.Mocker, supervisor: Supervisor, change: dict[str, Any]
    ) -> None:
        supervisor.connect("other", connection(BASE))
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)

        summary = enrich(tmp_path / "books.jsonl", **change)

        assert CRIME in asked(database)
        assert not summary["resumed"]

    def test_changed_source_is_another_list(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        (tmp_path / "isbns.txt").write_text("\n".join(LIST))
        source = str(tmp_path / "isbns.txt")
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database, source=source)
        (tmp_path / "isbns.txt").write_text("\n".join([*LIST, CRIME]))

        assert not enrich(tmp_path / "books.jsonl", source=source)["resumed"]

    def test_another_run_is_another_day(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)

        assert not enrich(tmp_path / "books.jsonl", instance(run="tomorrow"))["resumed"]

    def test_arguments_that_do_not_change_the_dataset_may_change_before_a_retry(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        stopped_at(PROGRAMMING, tmp_path / "books.jsonl", database)

        assert enrich(tmp_path / "books.jsonl", max_failures=5, on_invalid="record")["resumed"]


class TestPublished:
    def test_retry_of_a_published_enrichment_returns_the_same(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        first = enrich(tmp_path / "books.jsonl")
        database.reset_mock()

        assert enrich(tmp_path / "books.jsonl") == first
        assert not database.called

    def test_task_cleared_after_it_has_published_does_its_work_again(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        enrich(tmp_path / "books.jsonl")
        database.reset_mock()

        assert not enrich(tmp_path / "books.jsonl", instance(max_tries=3))["resumed"]
        assert database.called


class TestDeferred:
    def deferred(self, operator: EnrichIsbnsOperator) -> EnrichmentTrigger:
        with pytest.raises(TaskDeferred) as caught:
            operator.execute(instance())  # type: ignore[arg-type]
        assert caught.value.method_name == "execute_complete"
        trigger = caught.value.trigger
        assert isinstance(trigger, EnrichmentTrigger)
        return trigger

    def test_the_work_is_left_to_the_triggerer_with_the_list_in_a_file(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        trigger = self.deferred(make(tmp_path / "books.jsonl", deferrable=True, bulk=True, max_failures=3))

        assert not database.called
        plan = trigger.enrichment
        assert plan["total"] == 5
        assert (plan["bulk"], plan["max_failures"]) == (True, 3)
        assert CRIME not in json.dumps(trigger.serialize()[1])
        listed = [json.loads(line)["isbn"] for line in ObjectStoragePath(plan["source"][0]).read_text().splitlines()]
        assert listed == list(LIST)
        assert plan["version"] == ListSource(plan["source"]).version()
        assert plan["owner"]["task"] == "dag/today/enrich/-1"

    def test_trigger_of_a_source_names_it_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "isbns.csv").write_text("ean\n" + "\n".join(LIST))
        source = str(tmp_path / "isbns.csv")

        trigger = self.deferred(make(tmp_path / "books.jsonl", source=source, isbn_column="ean", deferrable=True))

        assert (trigger.enrichment["source"], trigger.enrichment["column"]) == ([source], ["ean"])
        assert trigger.enrichment["version"] == ListSource([source]).version()

    def test_empty_list_is_not_deferred(self, tmp_path: Path) -> None:
        assert enrich(tmp_path / "books.jsonl", isbns=[], deferrable=True)["rows"] == 0

    def test_retry_of_a_published_enrichment_is_not_deferred(self, tmp_path: Path) -> None:
        first = enrich(tmp_path / "books.jsonl")

        assert enrich(tmp_path / "books.jsonl", deferrable=True) == first

    def test_destination_that_cannot_be_written_raises_before_the_deferral(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(OSError, match=r"books\.jsonl cannot be written"):
            enrich(tmp_path / "file" / "books.jsonl", deferrable=True)

    def test_the_summary_of_the_triggerer_is_the_tasks(self, tmp_path: Path) -> None:
        operator = make(tmp_path / "books.jsonl", deferrable=True)
        self.deferred(operator)

        found = operator.execute_complete(instance(), done_event({"rows": 5}))  # type: ignore[arg-type]

        assert found == {"rows": 5}

    def test_two_runs_that_defer_to_one_destination_keep_a_list_each(self, tmp_path: Path) -> None:
        today = self.deferred(make(tmp_path / "books.jsonl", deferrable=True))
        tomorrow = make(tmp_path / "books.jsonl", isbns=[CRIME], deferrable=True)
        with pytest.raises(TaskDeferred):
            tomorrow.execute(instance(run="tomorrow"))  # type: ignore[arg-type]

        listed = ObjectStoragePath(today.enrichment["source"][0]).read_text().splitlines()
        assert [json.loads(line)["isbn"] for line in listed] == list(LIST)
        assert today.enrichment["version"] == ListSource(today.enrichment["source"]).version()

    def test_the_error_of_the_triggerer_is_the_tasks(self, tmp_path: Path) -> None:
        operator = make(tmp_path / "books.jsonl", deferrable=True)
        event = error_event(RateLimitedError("limit", retry_after=7.0))

        with pytest.raises(RateLimitedError, match="limit") as caught:
            operator.execute_complete(instance(), event)  # type: ignore[arg-type]

        assert caught.value.retry_after == 7.0
