"""The enrichment of ISBN lists: its arguments, its dataset, its summary, and how it fails."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, ObjectStoragePath

from airflow_provider_mediaops.books import enrich
from airflow_provider_mediaops.books.progress import Progress
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    PermanentError,
    QuotaExceededError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.isbn import sample_isbns
from airflow_provider_mediaops.task_failure import HAS_RETRY_POLICY
from tests.unit.book_database import CALENDAR, CRIME, KEY, NO_SUCH_BOOK, PROGRAMMING, book, connection
from tests.unit.log_lines import log_lines

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("supervisor")

BASE = "https://books.example"


def address(isbn13: str) -> str:
    return f"{BASE}/book/{isbn13}"


def make(destination: object, **arguments: Any) -> EnrichIsbnsOperator:
    return EnrichIsbnsOperator(task_id="enrich", destination=str(destination), **arguments)


def json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def permanent(cls: type[Exception]) -> type[Exception]:
    """What a permanent error ends the task as."""
    return cls if HAS_RETRY_POLICY else AirflowFailException


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker) -> requests_mock.Mocker:
    """Have a database with two books."""
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(BASE))
    requests_mock.get(address(CRIME), json=book(CRIME, pages="8", unknown=[1]))
    requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))
    requests_mock.get(address(CALENDAR), status_code=404, json=NO_SUCH_BOOK)
    return requests_mock


class TestDataset:
    ISBNS = ("0-14-044913-2", "x", CALENDAR, None, CRIME, int(PROGRAMMING))

    def test_each_input_has_one_row_in_order(self, tmp_path: Path) -> None:
        summary = make(tmp_path / "day" / "books.jsonl", isbns=list(self.ISBNS)).execute({})

        rows = json_rows(tmp_path / "day" / "books.jsonl")
        assert [(row["input"], row["isbn13"], row["status"]) for row in rows] == [
            ("0-14-044913-2", CRIME, "found"),
            ("x", None, "invalid"),
            (CALENDAR, CALENDAR, "not_found"),
            ("", None, "invalid"),
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
            "invalid": 2,
            "failed": 0,
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
        assert [row["status"] for row in rows] == ["found", "invalid", "not_found", "invalid", "found", "found"]
        assert (rows[0]["title"], rows[0]["pages"]) == (f"The Book {CRIME}", 8)
        assert (texts[0]["title"], texts[0]["pages"]) == (f"The Book {CRIME}", "8")
        record = book(CRIME, pages="8", unknown=[1])["book"]
        assert json.loads(rows[0]["record"]) == json.loads(texts[0]["record"]) == record
        assert rows[1]["record"] is None

    def test_the_format_can_be_named(self, tmp_path: Path) -> None:
        make(tmp_path / "books.out", isbns=[CRIME], format="jsonl").execute({})

        assert json_rows(tmp_path / "books.out")[0]["status"] == "found"

    def test_an_object_storage_path_is_a_destination(self, tmp_path: Path) -> None:
        target = ObjectStoragePath((tmp_path / "books.jsonl").as_uri())
        operator = EnrichIsbnsOperator(task_id="enrich", isbns=[CRIME], destination=target)

        assert operator.execute({})["path"] == (tmp_path / "books.jsonl").as_uri()
        assert len(json_rows(tmp_path / "books.jsonl")) == 1

    @pytest.mark.parametrize("name", ["books.jsonl", "books.csv", "books.parquet"])
    def test_an_empty_list_makes_a_valid_empty_file(
        self, tmp_path: Path, name: str, database: requests_mock.Mocker
    ) -> None:
        summary = make(tmp_path / name, isbns=[]).execute({})

        assert (summary["rows"], summary["requests"]) == (0, 0)
        if name.endswith("parquet"):
            assert pq.read_table(tmp_path / name).num_rows == 0
        else:
            assert len((tmp_path / name).read_text().splitlines()) == (1 if name.endswith("csv") else 0)
        assert not database.called

    def test_a_list_of_only_invalid_isbns_spends_no_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        summary = make(tmp_path / "books.jsonl", isbns=["x", "9780140449137", ""]).execute({})

        assert (summary["invalid"], summary["requests"]) == (3, 0)
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
    def test_a_file_is_enriched_row_by_row(
        self, tmp_path: Path, name: str, content: str, column: dict[str, str], *, packed: bool
    ) -> None:
        data = content.encode()
        source = tmp_path / (f"{name}.gz" if packed else name)
        source.write_bytes(gzip.compress(data) if packed else data)

        summary = make(tmp_path / "books.jsonl", source=str(source), **column).execute({})

        assert [row["input"] for row in json_rows(tmp_path / "books.jsonl")] == ["0140449132", "x", CALENDAR]
        assert (summary["found"], summary["invalid"], summary["not_found"]) == (1, 1, 1)

    def test_a_parquet_file_is_enriched_too(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"ean": [int(CRIME), None, int(CALENDAR)]}), tmp_path / "isbns.parquet")

        make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.parquet"), isbn_column="ean").execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [(row["input"], row["status"]) for row in rows] == [
            (CRIME, "found"),
            ("", "invalid"),
            (CALENDAR, "not_found"),
        ]

    def test_a_row_that_cannot_be_read_is_a_row_with_its_line(self, tmp_path: Path) -> None:
        (tmp_path / "isbns.txt").write_bytes(f"{CRIME}\n978\xff\n{PROGRAMMING}\n".encode("latin-1"))

        summary = make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.txt")).execute({})

        bad = json_rows(tmp_path / "books.jsonl")[1]
        assert (bad["input"], bad["isbn13"], bad["status"]) == (r"978\xff", None, "invalid")
        assert bad["error"] == "Line 2: it is no UTF-8 text (byte 0xff at place 4)."
        assert (summary["found"], summary["invalid"]) == (2, 1)

    def test_on_invalid_fail_refuses_such_a_file_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        (tmp_path / "isbns.txt").write_bytes(f"{CRIME}\n978\xff\n".encode("latin-1"))

        with pytest.raises(permanent(ValueError), match="Row 2: Line 2: it is no UTF-8 text"):
            make(tmp_path / "b.jsonl", source=str(tmp_path / "isbns.txt"), on_invalid="fail").execute({})

        assert not database.called

    def test_what_is_wrong_with_the_whole_file_is_found_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        (tmp_path / "isbns.csv").write_text(f"isbn\n{CRIME}\n" * 1_000 + "x" * 200_000)

        with pytest.raises(permanent(ValueError), match="line 2001: it is no CSV"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.csv")).execute({})

        assert not database.called

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("isbns.csv", b"id,ISBN13\n", "no column 'isbn', but 'id', 'ISBN13'"),
            ("isbns.jsonl", b'{"id": 1}\n', "no column 'isbn', but 'id'"),
            ("isbns.txt", b"\xff\xfe9\x007\x00", "no UTF-8 text"),
            ("isbns.txt.gz", b"9780140449136", "no whole gzip file"),
        ],
    )
    def test_a_file_that_is_something_else_ends_the_task_with_what_it_is(
        self, tmp_path: Path, name: str, content: bytes, message: str
    ) -> None:
        (tmp_path / name).write_bytes(content)

        with pytest.raises(permanent(ValueError), match=f"{name}.*{message}"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / name)).execute({})

        assert not (tmp_path / "books.jsonl").exists()

    def test_a_missing_file_is_named(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        with pytest.raises(FileNotFoundError, match=r"isbns\.txt cannot be read"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "isbns.txt")).execute({})

        assert not database.called


class TestBulk:
    def test_many_books_are_asked_for_in_one_request(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.post(f"{BASE}/books", json={"data": [book(PROGRAMMING)["book"], book(CRIME)["book"]]})

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME, "x", CALENDAR, PROGRAMMING], bulk=True).execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [row["status"] for row in rows] == ["found", "invalid", "not_found", "found"]
        assert "left it out" in rows[2]["error"]
        assert (summary["requests"], database.call_count) == (1, 1)

    def test_what_it_leaves_out_is_asked_for_by_itself_if_wanted(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        database.post(f"{BASE}/books", json={"data": [book(PROGRAMMING)["book"]]})
        isbns = [CRIME, CALENDAR, PROGRAMMING]

        summary = make(tmp_path / "books.jsonl", isbns=isbns, bulk=True, bulk_verify=True).execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [(row["status"], row["error"]) for row in rows] == [
            ("found", None),
            ("not_found", None),
            ("found", None),
        ]
        assert summary["requests"] == 3


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "either isbns or source"),
            ({"isbns": [], "source": "s.txt"}, "either isbns or source"),
            ({"isbns": CRIME}, "isbns is a list of texts, not a str"),
            ({"isbns": {CRIME: 1}}, "isbns is a list of texts, not a dict"),
            ({"isbns": [], "destination": "books.xlsx"}, r"'books\.xlsx' ends in none of \.jsonl, \.csv, \.parquet"),
            ({"isbns": [], "format": "xlsx"}, "format is one of"),
            ({"isbns": [], "on_invalid": "skip"}, "on_invalid is record or fail"),
            ({"isbns": [], "max_failures": -1}, "max_failures is 0 or more"),
            ({"source": "isbns.xlsx"}, r"'isbns\.xlsx' ends in none of \.txt, \.csv, \.jsonl .* and \.parquet"),
            ({"isbns": [], "bulk_verify": True}, "bulk_verify is about bulk requests: give bulk=True, too"),
            ({"isbns": [], "destination": ObjectStoragePath("s3://bucket/x.doc")}, "ends in none of"),
        ],
    )
    def test_what_cannot_be_used_is_refused_at_parse_time(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            EnrichIsbnsOperator(task_id="enrich", **{"destination": "books.csv", **arguments})

    @pytest.mark.parametrize(
        ("arguments", "rendered", "message"),
        [
            ({"isbns": "{{ x }}"}, {"isbns": "['1']"}, "render_template_as_native_obj"),
            ({"isbns": [], "destination": "{{ x }}"}, {"destination": "books.doc"}, "ends in none of"),
            ({"isbns": [], "format": "{{ x }}"}, {"format": "doc"}, "format is one of"),
            ({"source": "{{ x }}"}, {"source": "isbns.doc"}, "ends in none of"),
        ],
    )
    def test_what_is_templated_is_checked_before_the_first_request(
        self,
        tmp_path: Path,
        database: requests_mock.Mocker,
        arguments: dict[str, Any],
        rendered: dict[str, str],
        message: str,
    ) -> None:
        operator = EnrichIsbnsOperator(task_id="enrich", **{"destination": str(tmp_path / "books.csv"), **arguments})
        for name, value in rendered.items():
            setattr(operator, name, value)

        with pytest.raises(permanent(ValueError), match=message):
            operator.execute({})

        assert not database.called
        assert list(tmp_path.iterdir()) == []

    def test_every_template_field_is_an_argument(self) -> None:
        operator = make("books.csv", isbns=[])

        assert all(hasattr(operator, name) for name in operator.template_fields)

    def test_a_path_is_rendered(self) -> None:
        target = ObjectStoragePath("file:///out/{{ run }}.csv")
        operator = EnrichIsbnsOperator(task_id="enrich", isbns=["{{ run }}"], destination=target)

        operator.render_template_fields(cast("Context", {"run": "monday"}))

        assert str(operator.destination) == "file:///out/monday.csv"
        assert operator.isbns == ["monday"]


class TestFailing:
    def test_a_destination_that_cannot_be_written_is_found_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(OSError, match=r"books\.csv cannot be written"):
            make(tmp_path / "file" / "books.csv", isbns=[CRIME]).execute({})

        assert not database.called

    def test_on_invalid_fail_refuses_the_list_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        with pytest.raises(permanent(ValueError), match="Row 2: '9780140449137' is no ISBN: its check digit"):
            make(tmp_path / "books.csv", isbns=[CRIME, "9780140449137"], on_invalid="fail").execute({})

        assert not database.called

    def test_on_invalid_fail_lets_a_good_list_pass(self, tmp_path: Path) -> None:
        summary = make(tmp_path / "books.csv", isbns=[CRIME, CALENDAR], on_invalid="fail").execute({})

        assert summary["rows"] == 2

    def test_failures_within_bounds_are_rows(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.get(address(CRIME), status_code=503)

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=1).execute({})

        assert [row["status"] for row in json_rows(tmp_path / "books.jsonl")] == ["failed", "found"]
        assert "503" in json_rows(tmp_path / "books.jsonl")[0]["error"]
        assert (summary["failed"], summary["found"], summary["requests"]) == (1, 1, 2)

    def test_one_failure_too_many_fails_the_task_and_keeps_the_older_dataset(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        make(tmp_path / "books.jsonl", isbns=[PROGRAMMING]).execute({})
        older = (tmp_path / "books.jsonl").read_bytes()
        database.get(address(CRIME), status_code=503, headers={"Retry-After": "600"})

        with pytest.raises(ServiceUnavailableError) as caught:
            make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING]).execute({})

        assert caught.value.retry_after == 600
        assert (tmp_path / "books.jsonl").read_bytes() == older
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["books.jsonl"]

    def test_a_spent_quota_ends_the_task_whatever_may_fail(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        isbns = sample_isbns(50)
        database.get(re.compile("/book/97800"), json=book(isbns[0]))
        database.get(address(CRIME), status_code=429, json={"message": "Daily quota exceeded"})

        with pytest.raises(QuotaExceededError, match="00:00 UTC"):
            make(tmp_path / "books.jsonl", isbns=[CRIME, *isbns], max_failures=99).execute({})

        # The first, and what was sent before it was answered.
        assert database.call_count < 50

    def test_a_refused_key_ends_the_task_at_once(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.get(address(CRIME), status_code=401, json={"message": "Unauthorized"})

        with pytest.raises(permanent(AuthenticationError), match="not active"):
            make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=9).execute({})

    def test_parquet_without_pyarrow_spends_no_request(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(permanent(PermanentError), match=r"airflow-provider-mediaops\[parquet\]"):
            make(tmp_path / "books.parquet", isbns=[CRIME]).execute({})

        assert not database.called


class TestLog:
    def test_the_end_is_told_without_the_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME, "x", CALENDAR]).execute({})

        [line] = [line for line in lines if line.startswith("INFO")]
        assert line.startswith("INFO: 3 of 3 ISBNs: 1 found, 1 not found, 1 invalid, 0 failed;")
        assert line.endswith(f"Written to {tmp_path / 'books.jsonl'}.")
        assert KEY not in f"{lines} {summary} {(tmp_path / 'books.jsonl').read_text()}"

    def test_a_long_run_tells_how_far_it_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        ticks = itertools.count(0, 10.0)
        monkeypatch.setattr(enrich, "Progress", partial(Progress, clock=lambda: next(ticks)))

        make(tmp_path / "books.jsonl", isbns=["x"] * 10_000).execute({})

        told = [
            int(found[1].replace(",", ""))
            for line in lines
            if (found := re.match(r"INFO: ([\d,]+) of 10,000 ISBNs: ", line))
        ]
        assert len(told) >= 2
        assert told == sorted(told)
        assert told[-1] == 10_000
