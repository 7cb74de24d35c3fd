"""The enrichment of ISBN lists: where they come from, its dataset, its summary, and its log."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.enrichment import attempt as enrichment
from airflow_provider_mediaops.enrichment.attempt import Attempt
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from tests.unit.book_database import CALENDAR, CRIME, KEY, LIMIT_429, PROGRAMMING, book
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import BASE, address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


class TestDataset:
    ISBNS = ("0-14-044913-2", "x", CALENDAR, None, CRIME, int(PROGRAMMING))

    def test_each_input_has_one_row_in_order(self, tmp_path: Path) -> None:
        summary = make(tmp_path / "day" / "books.jsonl", isbns=list(self.ISBNS)).execute({})

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
        assert summary.pop("rows_per_second") > 0
        assert summary == {
            "path": str(tmp_path / "day" / "books.jsonl"),
            "rows": 6,
            "found": 3,
            "not_found": 1,
            "missing": 1,
            "invalid": 1,
            "failed": 0,
            "not_asked": 0,
            "reused": 0,
            "stale": 0,
            "refresh_failed": 0,
            "requests": 3,
            "resumed": False,
            "bytes": (tmp_path / "day" / "books.jsonl").stat().st_size,
        }

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

    def test_formulas_are_escaped_if_asked_for(self, tmp_path: Path) -> None:
        for csv_formulas in ("keep", "escape"):
            make(tmp_path / f"{csv_formulas}.csv", isbns=["=1+1"], csv_formulas=csv_formulas).execute({})

        assert "\n=1+1," in (tmp_path / "keep.csv").read_text(encoding="utf-8")
        assert "\n'=1+1," in (tmp_path / "escape.csv").read_text(encoding="utf-8")
        with pytest.raises(ValueError, match="csv_formulas is keep or escape; not 'drop'"):
            make(tmp_path / "b.csv", isbns=[CRIME], csv_formulas="drop")

    def test_the_format_can_be_named(self, tmp_path: Path) -> None:
        make(tmp_path / "books.out", isbns=[CRIME], format="jsonl").execute({})

        assert json_rows(tmp_path / "books.out")[0]["status"] == "found"

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
    def test_empty_list_makes_a_valid_empty_file(
        self, tmp_path: Path, name: str, database: requests_mock.Mocker
    ) -> None:
        summary = make(tmp_path / name, isbns=[]).execute({})

        assert (summary["rows"], summary["requests"]) == (0, 0)
        if name.endswith("parquet"):
            assert pq.read_table(tmp_path / name).num_rows == 0
        else:
            assert len((tmp_path / name).read_text().splitlines()) == (1 if name.endswith("csv") else 0)
        assert not database.called

    def test_list_of_only_invalid_isbns_spends_no_request(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        summary = make(tmp_path / "books.jsonl", isbns=["x", "9780140449137", ""]).execute({})

        assert (summary["missing"], summary["invalid"], summary["requests"]) == (1, 2, 0)
        assert not database.called


class TestSources:
    @pytest.mark.parametrize(
        ("name", "content", "column"),
        [
            ("isbns.txt", f"0140449132\n\nx\n{CALENDAR}\n", {}),
            ("isbns.csv", f"id,isbn\n1,0140449132\n2,x\n3,{CALENDAR}\n", {}),
            ("isbns.csv", f"id,EAN\n1,0140449132\n2,x\n3,{CALENDAR}\n", {"isbn_column": "EAN"}),
            ("isbns.jsonl", f'{{"isbn":"0140449132"}}\n{{"isbn":"x"}}\n{{"isbn":{CALENDAR}}}\n', {}),
        ],
    )
    @pytest.mark.parametrize("packed", [True, False])
    def test_csv_file_is_enriched_row_by_row(
        self, tmp_path: Path, name: str, content: str, column: dict[str, str], *, packed: bool
    ) -> None:
        data = content.encode()
        source = tmp_path / (f"{name}.gz" if packed else name)
        source.write_bytes(gzip.compress(data) if packed else data)

        summary = make(tmp_path / "books.jsonl", source=str(source), **column).execute({})

        assert [row["input"] for row in json_rows(tmp_path / "books.jsonl")] == ["0140449132", "x", CALENDAR]
        assert (summary["found"], summary["invalid"], summary["not_found"]) == (1, 1, 1)

    def test_parquet_file_is_enriched_row_by_row(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"ean": [int(CRIME), None, int(CALENDAR)]}), tmp_path / "isbns.parquet")

        make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.parquet"), isbn_column="ean").execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [(row["input"], row["status"]) for row in rows] == [
            (CRIME, "found"),
            ("", "missing"),
            (CALENDAR, "not_found"),
        ]

    def test_row_that_cannot_be_read_is_a_row_with_its_line(self, tmp_path: Path) -> None:
        (tmp_path / "isbns.csv").write_text(f"title,isbn\na,{CRIME}\nb\nc,{PROGRAMMING}\n")

        summary = make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.csv")).execute({})

        bad = json_rows(tmp_path / "books.jsonl")[1]
        assert (bad["input"], bad["isbn13"], bad["status"]) == ("", None, "invalid")
        assert bad["error"] == "Line 3: it has 1 of 2 columns, and 'isbn' is not among them."
        assert (summary["found"], summary["invalid"]) == (2, 1)

    @pytest.mark.parametrize("format", [True, 0, 1.5, ["csv"]])
    def test_format_that_is_no_text_raises(self, tmp_path: Path, format: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="format is one of jsonl, csv, parquet; not "):
            make(tmp_path / "books.jsonl", isbns=[CRIME], format=format)

    @pytest.mark.parametrize("column", ["", True, 1.5, [], ["isbn", ""]])
    def test_isbn_column_that_is_no_text_raises(self, tmp_path: Path, column: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="isbn_column is "):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.csv"), isbn_column=column)

    def test_isbn_column_that_a_native_template_made_a_number_is_found_by_its_text(self, tmp_path: Path) -> None:
        (tmp_path / "isbns.csv").write_text(f"2026\n{CRIME}\n")
        operator = make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.csv"), isbn_column="{{ year }}")
        operator.isbn_column = 2026  # type: ignore[assignment]

        assert operator.execute({})["found"] == 1

    def test_on_invalid_fail_refuses_such_a_file_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        (tmp_path / "isbns.csv").write_text(f"title,isbn\na,{CRIME}\nb\n")

        with pytest.raises(permanent(ValueError), match="Row 2: Line 3: it has 1 of 2 columns"):
            make(tmp_path / "b.jsonl", source=str(tmp_path / "isbns.csv"), on_invalid="fail").execute({})

        assert not database.called

    def test_fault_of_the_whole_file_is_found_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        (tmp_path / "isbns.csv").write_text(f"isbn\n{CRIME}\n" * 1_000 + '"x')

        with pytest.raises(permanent(ValueError), match="line 2001: it is no CSV"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.csv")).execute({})

        assert not database.called

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("isbns.csv", b"id,number\n", "no column 'isbn', but 'id', 'number'; name it in isbn_column"),
            ("isbns.jsonl", b'{"id": 1}\n', "no column 'isbn', but 'id'"),
            ("isbns.txt", b"\x009\x01\x02", "it is no text"),
            ("isbns.txt.gz", b"9780140449136", "no whole gzip file"),
        ],
    )
    def test_file_of_another_kind_fails_the_task_and_is_named_by_its_kind(
        self, tmp_path: Path, name: str, content: bytes, message: str
    ) -> None:
        (tmp_path / name).write_bytes(content)

        with pytest.raises(permanent(ValueError), match=f"{name}.*{message}"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / name)).execute({})

        assert not (tmp_path / "books.jsonl").exists()

    def test_missing_file_is_named_in_the_error(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        with pytest.raises(FileNotFoundError, match=r"isbns\.txt cannot be read"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.txt")).execute({})

        assert not database.called


class TestBulk:
    def test_many_books_are_asked_for_in_one_request(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.post(f"{BASE}/books", json={"data": [book(PROGRAMMING)["book"], book(CRIME)["book"]]})

        isbns = [CRIME, "x", CALENDAR, PROGRAMMING, "9780000000002"]

        summary = make(tmp_path / "books.jsonl", isbns=isbns, bulk=True).execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [row["status"] for row in rows] == ["found", "invalid", "not_found", "found", "not_found"]
        # The first one of those that were left out is asked for by itself.
        assert rows[2]["error"] is None
        assert "left it out" in rows[4]["error"]
        assert (summary["requests"], database.call_count) == (2, 2)


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
            f"INFO: Enriching 3 ISBNs of {tmp_path / 'isbns.txt'} into {tmp_path / 'books.jsonl'}: plan default, "
            "10000 requests a second."
        )
        assert last.startswith("INFO: 3 of 3 ISBNs: 1 found, 1 not found, 1 invalid, 0 failed;")
        assert last.endswith(f"Written to {tmp_path / 'books.jsonl'}.")
        assert KEY not in f"{lines} {summary} {(tmp_path / 'books.jsonl').read_text()}"

    @pytest.mark.parametrize(
        ("reply", "quota"),
        [
            ({"json": {"plan_limit": {"total": 5_000, "spent": 680, "left": 4_320}}}, "; 4,320 of 5,000 requests of"),
            ({"status_code": 404, "json": {}}, "."),
            ({"status_code": 401, "json": {"message": "Unauthorized"}}, "."),
            ({"status_code": 503}, "."),
            ({"text": "<html>"}, "."),
        ],
    )
    def test_the_first_line_says_the_quota_left_if_the_service_does(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        database: requests_mock.Mocker,
        reply: dict[str, Any],
        quota: str,
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        database.get(f"{BASE}/key", **reply)

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME] * 100).execute({})

        first = next(line for line in lines if "Enriching 100 ISBNs of a list" in line)
        assert f"requests a second{quota}" in first
        assert [request.path for request in database.request_history] == ["/key", f"/book/{CRIME}"]
        assert summary["found"] == 100

    def test_short_list_spends_no_request_on_the_quota(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        make(tmp_path / "books.jsonl", isbns=[CRIME] * 99).execute({})

        assert [request.path for request in database.request_history] == [f"/book/{CRIME}"]

    def test_rate_limit_is_explained_in_the_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: requests_mock.Mocker
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        database.get(address(PROGRAMMING), status_code=429, json=LIMIT_429)

        make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=1).execute({})

        [line] = [line for line in lines if "has refused" in line]
        assert line.startswith("WARNING: ")
        assert "Probably the connection's rate (plan default, 10000 requests a second) is higher" in line
        assert "another program uses the key" in line

    def test_long_run_logs_its_progress(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        ticks = itertools.count(0, 10.0)
        monkeypatch.setattr(enrichment, "Attempt", partial(Attempt, clock=lambda: next(ticks)))
        monkeypatch.setattr(enrichment, "_MIN_ROWS_FOR_USAGE", 99_999)

        make(tmp_path / "books.jsonl", isbns=["x"] * 10_000).execute({})

        logged = [
            int(found[1].replace(",", ""))
            for line in lines
            if (found := re.match(r"INFO: ([\d,]+) of 10,000 ISBNs: ", line))
        ]
        assert len(logged) >= 2
        assert logged == sorted(logged)
        assert logged[-1] == 10_000
