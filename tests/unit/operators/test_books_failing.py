"""Enrichments that fail: of arguments that cannot be, of what the service or the disk refuses, of too many failures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import (
    PermanentError,
    QuotaExceededError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.unit.book_database import CRIME, PROGRAMMING, book
from tests.unit.operators.enrichment import BASE, address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "either isbns or source"),
            ({"isbns": [], "source": "s.txt"}, "either isbns or source"),
            ({"isbns": f"['{CRIME}']"}, "isbns is the text of a list: .* join"),
            ({"isbns": ""}, "isbns needs at least one entry"),
            ({"isbns": CRIME.encode()}, "isbns is a list of texts, or one text with commas, not a bytes"),
            ({"isbns": [CRIME, [1, 2]]}, "Row 2 of isbns has 2 values: select one"),
            ({"isbns": [CRIME, {"id": 1}]}, "Row 2 of isbns: there is no column"),
            ({"isbns": [], "destination": "books.xlsx"}, r"'books\.xlsx' ends in none of \.jsonl, \.csv, \.parquet"),
            ({"isbns": [], "format": ["csv"]}, "format is one of jsonl, csv, parquet; not "),
            ({"isbns": [], "on_invalid": None}, "on_invalid is record or fail"),
            ({"isbns": [], "max_failures": 1.5}, "max_failures is a number of rows, a share such as '5%' .*; not 1.5"),
            ({"isbns": [], "max_invalid": -1}, "max_invalid is a number of rows, a share"),
            ({"isbns": [], "max_requests": -1}, "max_requests is a whole number, 0 or more"),
            ({"isbns": [], "max_requests": "many"}, "max_requests is a whole number"),
            ({"isbns": [], "bulk": None}, "bulk is True or False; not None"),
            ({"isbns": [], "deferrable": "sometimes"}, "deferrable is True or False"),
            ({"isbns": [], "csv_formulas": "drop"}, "csv_formulas is keep or escape; not 'drop'"),
            ({"isbns": [], "several": "last"}, "several is first or rows"),
            ({"isbns": [], "repair_zeros": "maybe"}, "repair_zeros is True or False"),
            ({"isbns": [], "reuse": []}, "reuse needs at least one entry"),
            ({"isbns": [], "reuse": ["/a.jsonl", ""]}, "reuse needs at least one entry, and none of them empty"),
            ({"isbns": [], "reuse": ["/a.jsonl", "/b.txt"]}, r"ends in none of \.jsonl, \.csv, \.parquet"),
            ({"isbns": [], "reuse": "/a.csv.gz"}, "name a dataset as this operator writes it"),
            ({"isbns": [], "reuse": "/a/\ud800.jsonl"}, "an entry of reuse is a text of whole characters"),
            ({"isbns": [], "reuse_for": -1}, "reuse_for is a number of seconds, 0 or more, or a timedelta"),
            ({"isbns": [], "reuse_not_found_for": "a week"}, "reuse_not_found_for is a number of seconds"),
            ({"source": "a.csv", "isbn_column": ["isbn", ""]}, "isbn_column is "),
            ({"source": "a.csv", "isbn_column": 1.5}, "isbn_column is "),
            ({"source": "a.csv", "delimiter": "ab"}, "delimiter"),
            ({"source": "a.csv", "encoding": "hex"}, "encoding"),
            ({"source": "a.csv", "keep_columns": None}, "keep_columns is True, False or a list"),
            ({"source": "./books.csv"}, "source and destination are the same file, .*Choose another"),
            ({"source": "s3://b/a.csv", "destination": "s3://conn@b/a.csv"}, "are the same file"),
            ({"source": ",".join([CRIME] * 1_000)}, "is not the path of a file: File name too long"),
            ({"source": ["a.csv", "books.csv"]}, "source and destination are the same file"),
            ({"source": []}, "source is an empty list"),
            ({"source": "list.xls"}, "source 'list.xls' is .*save it as .csv or .xlsx"),
            ({"source": ["a.csv", "s3://b/lists.ZIP"]}, "source 's3://b/lists.ZIP' is "),
            ({"source": ["a.csv", 1.5]}, "source is a text"),
            ({"isbns": [], "destination": ObjectStoragePath("s3://bucket/x.doc")}, "ends in none of"),
        ],
    )
    def test_arguments_that_cannot_be_used_raise_at_parse_time(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            EnrichIsbnsOperator(task_id="enrich", **{"destination": "books.csv", **arguments})

    @pytest.mark.parametrize(
        ("arguments", "rendered", "message"),
        [
            ({"isbns": "{{ x }}"}, {"isbns": "['1']"}, "render_template_as_native_obj"),
            ({"isbns": [], "max_failures": "{{ x }}"}, {"max_failures": "a lot"}, "max_failures is a number of rows"),
            ({"isbns": [], "bulk": "{{ x }}"}, {"bulk": "None"}, "bulk is True or False; not 'None'"),
            ({"source": "a.csv", "keep_columns": "{{ x }}"}, {"keep_columns": ""}, "keep_columns needs at least one"),
            ({"source": "{{ x }}", "destination": "a.csv"}, {"source": "a.csv"}, "are the same file"),
            ({"isbns": [], "destination": "{{ x }}"}, {"destination": "books.doc"}, "ends in none of"),
            ({"isbns": [], "format": "{{ x }}"}, {"format": "doc"}, "format is one of"),
            ({"source": "{{ x }}.gz"}, {"source": "isbns.doc.gz"}, "ends in none of"),
        ],
    )
    def test_templated_arguments_that_cannot_be_used_raise_before_the_first_request(
        self,
        tmp_path: Path,
        database: Mocker,
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

    @pytest.mark.parametrize("written", [str, Path.as_uri, os.path.relpath])
    def test_source_given_as_destination_in_other_words_is_not_overwritten(
        self, tmp_path: Path, database: Mocker, written: Callable[[Path], str]
    ) -> None:
        source = tmp_path / "books.csv"
        source.write_text(f"isbn,price\n{CRIME},3\n")
        (tmp_path / "list.csv").symlink_to(source)
        operator = make(tmp_path / "{{ x }}.csv", source=written(tmp_path / "list.csv"))
        operator.destination = str(source)

        with pytest.raises(permanent(ValueError), match="the dataset would replace the list"):
            operator.execute({})

        assert source.read_text() == f"isbn,price\n{CRIME},3\n"
        assert not database.called

    def test_options_that_templates_have_made_texts_are_understood(self, tmp_path: Path, database: Mocker) -> None:
        database.post(f"{BASE}/books", json={"data": [book(CRIME)["book"]]})
        database.get(address(PROGRAMMING), status_code=503)
        templates = dict.fromkeys(("isbns", "bulk", "max_failures", "on_invalid"), "{{ x }}")
        operator = make(tmp_path / "books.jsonl", **templates)
        texts = (f"{CRIME}, {PROGRAMMING},x", "False", "34%", "record")
        for name, text in zip(templates, texts, strict=True):
            setattr(operator, name, text)

        summary = operator.execute({})

        assert [row["status"] for row in json_rows(tmp_path / "books.jsonl")] == ["found", "failed", "invalid"]
        assert summary["failed"] == 1
        assert all(request.method == "GET" for request in database.request_history)


class TestFailing:
    @pytest.mark.parametrize("deferrable", [False, True])
    def test_destination_that_cannot_be_written_raises_before_the_first_request(
        self, tmp_path: Path, database: Mocker, *, deferrable: bool
    ) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(OSError, match=r"books\.csv cannot be written"):
            make(tmp_path / "file" / "books.csv", isbns=[CRIME], deferrable=deferrable).execute({})

        assert not database.called

    @pytest.mark.parametrize("bound", [1, "50%", "all"])
    def test_failures_within_bounds_are_rows(self, tmp_path: Path, database: Mocker, bound: object) -> None:
        database.get(address(CRIME), status_code=503)

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=bound).execute({})

        assert [row["status"] for row in json_rows(tmp_path / "books.jsonl")] == ["failed", "found"]
        assert "503" in json_rows(tmp_path / "books.jsonl")[0]["error"]
        assert (summary["failed"], summary["found"], summary["requests"]) == (1, 1, 2)

    def test_one_failure_too_many_fails_the_task_and_keeps_the_older_dataset(
        self, tmp_path: Path, database: Mocker
    ) -> None:
        make(tmp_path / "books.jsonl", isbns=[PROGRAMMING]).execute({})
        older = (tmp_path / "books.jsonl").read_bytes()
        database.get(address(CRIME), status_code=503, headers={"Retry-After": "600"})

        with pytest.raises(ServiceUnavailableError) as caught:
            make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures="49%").execute({})

        assert caught.value.retry_after == 600
        assert (tmp_path / "books.jsonl").read_bytes() == older
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["books.jsonl"]

    def test_spent_quota_ends_the_task_whatever_max_failures_says(self, tmp_path: Path, database: Mocker) -> None:
        isbns = sample_isbns(50)
        database.get(re.compile("/book/97800"), json=book(isbns[0]))
        database.get(address(CRIME), status_code=429, json={"message": "Daily quota exceeded"})

        with pytest.raises(QuotaExceededError, match="00:00 UTC"):
            make(tmp_path / "books.jsonl", isbns=[CRIME, *isbns], max_failures=99).execute({})

    @pytest.mark.parametrize(
        ("scheme", "package"),
        [
            ("s3", r"apache-airflow-providers-amazon\[s3fs\]"),
            ("gs", "apache-airflow-providers-google"),
            ("sftp", r"apache-airflow-providers-sftp\[sshfs\]"),
            ("abfs", "apache-airflow-providers-microsoft-azure"),
        ],
    )
    @pytest.mark.parametrize("role", ["destination", "source"])
    def test_store_without_its_package_is_named_before_the_first_request(
        self, database: Mocker, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str, role: str
    ) -> None:
        # Whatever providers are installed where this runs.
        monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", dict)
        path = f"{scheme}://bucket/books.csv"
        operator = make("/out/a.csv", source=path) if role == "source" else make(path, isbns=[CRIME])

        with pytest.raises(
            permanent(PermanentError),
            match=f"{role} {scheme}://.*csv cannot be opened.*Install {package} on all that open it",
        ):
            operator.execute({})

        assert not database.called
