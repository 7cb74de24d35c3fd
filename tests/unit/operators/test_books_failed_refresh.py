"""Look-ups that are too old, and whose new ones fail: the rows stay as they were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import ServiceUnavailableError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from tests.unit.book_database import CRIME, PROGRAMMING, book
from tests.unit.log_lines import log_lines
from tests.unit.operators.earlier_books import NEW, asked, at, context, dataset, row, run
from tests.unit.operators.enrichment import address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


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
