"""The enrichment of ISBN lists: where they come from, its dataset, its summary, and its log."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.enrichment import attempt as enrichment
from airflow_provider_mediaops.enrichment.attempt import EnrichmentAttempt
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from tests.unit.book_database import CALENDAR, CRIME, KEY, LIMIT_429, PROGRAMMING, book
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import BASE, address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")


class TestDataset:
    ISBNS = ("0-14-044913-2", "x", CALENDAR, None, CRIME, int(PROGRAMMING))

    def test_each_input_has_one_row_in_order(self, tmp_path: Path) -> None:
        make(tmp_path / "day" / "books.jsonl", isbns=list(self.ISBNS)).execute({})

        rows = json_rows(tmp_path / "day" / "books.jsonl")
        assert [(row["input"], row["isbn13"], row["status"]) for row in rows] == [
            ("0-14-044913-2", CRIME, "found"),
            ("x", None, "invalid"),
            (CALENDAR, CALENDAR, "not_found"),
            ("", None, "missing"),
            (CRIME, CRIME, "found"),
            (PROGRAMMING, PROGRAMMING, "found"),
        ]
        assert rows[0]["book"] == rows[4]["book"] == book(CRIME, pages="8", unknown=[1])["book"]
        assert "must have 10 or 13 digits" in rows[1]["error"]

    def test_summary_has_the_figures_of_the_dataset(self, tmp_path: Path) -> None:
        summary = make(tmp_path / "books.jsonl", isbns=list(self.ISBNS)).execute({})

        figures = {"rows": 6, "found": 3, "not_found": 1, "missing": 1, "invalid": 1, "requests": 3}
        assert {name: number for name, number in summary.items() if type(number) is int and number} == {
            **figures,
            "bytes": (tmp_path / "books.jsonl").stat().st_size,
        }
        assert summary["rows_per_second"] > 0

    def test_csv_and_parquet_have_flat_columns_and_the_whole_record(self, tmp_path: Path) -> None:
        for name in ("books.csv", "books.parquet"):
            make(tmp_path / name, isbns=list(self.ISBNS)).execute({})

        with (tmp_path / "books.csv").open(encoding="utf-8", newline="") as file:
            texts = list(csv.DictReader(file))
        rows = pq.read_table(tmp_path / "books.parquet").to_pylist()
        assert [row["status"] for row in rows] == [row["status"] for row in texts]
        assert [row["status"] for row in rows] == ["found", "invalid", "not_found", "missing", "found", "found"]
        assert (rows[0]["title"], rows[0]["pages"]) == (f"The Book {CRIME}", 8)
        assert (texts[0]["title"], texts[0]["pages"]) == (f"The Book {CRIME}", "8")
        record = book(CRIME, pages="8", unknown=[1])["book"]
        assert json.loads(rows[0]["record"]) == json.loads(texts[0]["record"]) == record
        assert rows[1]["record"] is None

    @pytest.mark.parametrize(("csv_formulas", "written"), [("keep", "=1+1"), ("escape", "'=1+1")])
    def test_formulas_are_escaped_if_asked_for(self, tmp_path: Path, csv_formulas: str, written: str) -> None:
        (tmp_path / "l.csv").write_text("isbn,note\n=1+1,=1+1\n")

        make(tmp_path / "books.csv", source=str(tmp_path / "l.csv"), csv_formulas=csv_formulas).execute({})

        line = (tmp_path / "books.csv").read_text(encoding="utf-8").splitlines()[1]
        assert line.startswith(f"{written},")
        assert line.endswith(f",{written}")

    @pytest.mark.parametrize("written", [str, Path.as_uri])
    def test_object_storage_paths_are_a_source_and_a_destination(
        self, tmp_path: Path, written: Callable[[Path], str]
    ) -> None:
        (tmp_path / "isbns.txt").write_text(CRIME)
        operator = EnrichIsbnsOperator(
            task_id="enrich",
            source=ObjectStoragePath(written(tmp_path / "isbns.txt")),
            destination=ObjectStoragePath(written(tmp_path / "books.jsonl")),
        )

        assert operator.execute({})["path"] == str(tmp_path / "books.jsonl")
        assert len(json_rows(tmp_path / "books.jsonl")) == 1

    @pytest.mark.parametrize("name", ["books.jsonl", "books.csv", "books.parquet"])
    def test_empty_list_makes_a_valid_empty_file(self, tmp_path: Path, name: str, database: Mocker) -> None:
        summary = make(tmp_path / name, isbns=[]).execute({})

        assert (summary["rows"], summary["requests"]) == (0, 0)
        if name.endswith("parquet"):
            assert pq.read_table(tmp_path / name).num_rows == 0
        else:
            assert len((tmp_path / name).read_text().splitlines()) == (1 if name.endswith("csv") else 0)
        assert not database.called


class TestSources:
    def test_isbn_column_that_a_native_template_made_a_number_is_found_by_its_text(self, tmp_path: Path) -> None:
        (tmp_path / "isbns.csv").write_text(f"2026\n{CRIME}\n")
        operator = make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.csv"), isbn_column="{{ year }}")
        operator.isbn_column = 2026  # type: ignore[assignment]

        assert operator.execute({})["found"] == 1


class TestLog:
    def test_the_first_line_says_what_is_done_and_the_last_what_came_of_it_without_the_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        (tmp_path / "isbns.txt").write_text(f"{CRIME}\nx\n{CALENDAR}\n")

        summary = make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.txt")).execute({})

        reading, read, counted, first, last = [line for line in lines if line.startswith("INFO")]
        assert reading == f"INFO: Reading {tmp_path / 'isbns.txt'}."
        assert read == f"INFO: {tmp_path / 'isbns.txt'}: txt, encoding utf-8; 3 rows."
        assert counted == "INFO: The list has 3 rows, 2 ISBNs, 0 missing, 1 invalid."
        assert first == (
            f"INFO: Enriching 3 rows of {tmp_path / 'isbns.txt'} into {tmp_path / 'books.jsonl'}: plan default, "
            "10000 requests a second."
        )
        assert last.startswith("INFO: 3 of 3 rows: 1 found, 1 not found, 1 invalid, 0 failed;")
        assert last.endswith(f"Written to {tmp_path / 'books.jsonl'}.")
        assert KEY not in f"{lines} {summary} {(tmp_path / 'books.jsonl').read_text()}"

    @pytest.mark.parametrize(
        ("reply", "quota"),
        [
            ({"json": {"plan_limit": {"total": 5_000, "spent": 680, "left": 4_320}}}, "; 4,320 of 5,000 requests of"),
            ({"status_code": 404, "json": {}}, "."),
            ({"text": "<html>"}, "."),
        ],
    )
    def test_the_first_line_says_the_quota_left_if_the_service_does(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        database: Mocker,
        reply: dict[str, Any],
        quota: str,
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        database.get(f"{BASE}/key", **reply)

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME] * 100).execute({})

        first = next(line for line in lines if "Enriching 100 rows of a list" in line)
        assert f"requests a second{quota}" in first
        assert [request.path for request in database.request_history] == ["/key", f"/book/{CRIME}"]
        assert summary["found"] == 100

    def test_short_list_spends_no_request_on_the_quota(self, tmp_path: Path, database: Mocker) -> None:
        make(tmp_path / "books.jsonl", isbns=[CRIME] * 99).execute({})

        assert [request.path for request in database.request_history] == [f"/book/{CRIME}"]

    def test_rate_limit_is_explained_in_the_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Mocker
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        database.get(address(PROGRAMMING), status_code=429, json=LIMIT_429)

        make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=1).execute({})

        [line] = [line for line in lines if "refuses requests" in line]
        assert line.startswith("WARNING: ")
        assert "Probably the connection's rate (plan default, 10000 requests a second) is higher" in line
        assert "another program uses the key" in line

    def test_long_run_logs_its_progress(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        ticks = itertools.count(0, 10.0)
        monkeypatch.setattr(enrichment, "EnrichmentAttempt", partial(EnrichmentAttempt, clock=lambda: next(ticks)))
        monkeypatch.setattr(enrichment, "_MIN_ROWS_FOR_USAGE", 99_999)

        make(tmp_path / "books.jsonl", isbns=["x"] * 10_000).execute({})

        assert sum(" of 10,000 rows: " in line for line in lines) >= 2
