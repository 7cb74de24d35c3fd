"""Enrichments that fail: of arguments that cannot be, of what the service or the disk refuses, of too many failures."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    PermanentError,
    QuotaExceededError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, book
from tests.unit.operators.enrichment import BASE, address, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests_mock
    from airflow.sdk import Context

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
            ({"isbns": {CRIME: 1}}, "isbns is a list of texts, or one text with commas, not a dict"),
            ({"isbns": [], "destination": "books.xlsx"}, r"'books\.xlsx' ends in none of \.jsonl, \.csv, \.parquet"),
            ({"isbns": [], "format": "xlsx"}, "format is one of"),
            ({"isbns": [], "on_invalid": "skip"}, "on_invalid is record or fail"),
            ({"isbns": [], "on_invalid": None}, "on_invalid is record or fail"),
            ({"isbns": [], "max_failures": -1}, "max_failures is a number of rows, a share .* or 'all'; not -1"),
            ({"isbns": [], "max_failures": 1.5}, "1.5 is neither. Write '1.5%'"),
            ({"isbns": [], "max_failures": None}, "not None"),
            ({"isbns": [], "max_failures": True}, "not True"),
            ({"isbns": [], "bulk": "maybe"}, "bulk is True or False; not 'maybe'"),
            ({"isbns": [], "bulk": None}, "bulk is True or False; not None"),
            ({"isbns": [], "deferrable": "{{ x }}"}, "deferrable is True or False.*Templates are not rendered"),
            ({"isbns": [], "deferrable": "sometimes"}, "deferrable is True or False"),
            ({"isbns": [], "csv_formulas": "drop"}, "csv_formulas is keep or escape; not 'drop'"),
            ({"source": "a.csv", "keep_columns": 5.5}, "keep_columns is a list of texts"),
            ({"source": "a.csv", "keep_columns": ["sku", "sku"]}, "keep_columns names a column twice"),
            ({"source": "a.csv", "keep_columns": None}, "keep_columns is True, False or a list"),
            ({"source": "books.csv"}, "source and destination are the same file, 'books.csv': .*Choose another"),
            ({"source": "./books.csv"}, "source and destination are the same file"),
            ({"source": "s3://b/a.csv", "destination": "s3://conn@b/a.csv"}, "are the same file"),
            ({"source": "isbns.xls"}, r"'isbns\.xls' is in the old form of Excel; save it as \.xlsx or as \.csv"),
            ({"source": "{{ ds }}/isbns.zip"}, "is an archive; unpack it first"),
            ({"source": []}, "source is an empty list"),
            ({"source": ["a.csv", 1.5]}, "source is a text"),
            ({"source": ["a.csv", "books.csv"]}, "source and destination are the same file"),
            ({"isbns": [], "several": "last"}, "several is first or rows"),
            ({"isbns": [], "repair_zeros": "maybe"}, "repair_zeros is True or False"),
            ({"isbns": [], "max_invalid": -1}, "max_invalid is a number of rows, a share"),
            ({"isbns": "{{ x }}", "destination": "{{ ds }}/books.doc"}, "ends in none of"),
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
            ({"isbns": [], "on_invalid": "{{ x }}"}, {"on_invalid": "ignore"}, "on_invalid is record or fail"),
            ({"isbns": [], "csv_formulas": "{{ x }}"}, {"csv_formulas": "no"}, "csv_formulas is keep or escape"),
            ({"source": "a.csv", "keep_columns": "{{ x }}"}, {"keep_columns": ""}, "keep_columns needs at least one"),
            ({"source": "a.csv", "max_invalid": "{{ x }}"}, {"max_invalid": "many"}, "max_invalid is a number of rows"),
            ({"source": "a.csv", "several": "{{ x }}"}, {"several": "all"}, "several is first or rows"),
            ({"source": "{{ x }}", "destination": "a.csv"}, {"source": "a.csv"}, "are the same file"),
            ({"isbns": [], "destination": "{{ x }}"}, {"destination": "books.doc"}, "ends in none of"),
            ({"isbns": [], "format": "{{ x }}"}, {"format": "doc"}, "format is one of"),
            ({"source": "{{ x }}"}, {"source": "isbns.doc"}, "ends in none of"),
            ({"source": "{{ x }}.gz"}, {"source": "isbns.doc.gz"}, "ends in none of"),
        ],
    )
    def test_templated_arguments_that_cannot_be_used_raise_before_the_first_request(
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

    @pytest.mark.parametrize("written", [str, Path.as_uri, os.path.relpath])
    @pytest.mark.parametrize("linked", [True, False])
    def test_source_given_as_destination_in_other_words_is_not_overwritten(
        self, tmp_path: Path, database: requests_mock.Mocker, written: Callable[[Path], str], *, linked: bool
    ) -> None:
        source = tmp_path / "books.csv"
        source.write_text(f"isbn,price\n{CRIME},3\n")
        if linked:
            (tmp_path / "list.csv").symlink_to(source)
        operator = make(tmp_path / "{{ x }}.csv", source=written(tmp_path / "list.csv" if linked else source))
        operator.destination = str(source)

        with pytest.raises(permanent(ValueError), match="the dataset would replace the list"):
            operator.execute({})

        assert source.read_text() == f"isbn,price\n{CRIME},3\n"
        assert not database.called

    def test_options_that_templates_have_made_texts_are_understood(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
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

    @pytest.mark.parametrize("word", ["false", "False", "no", 0])
    def test_flag_given_as_the_text_of_false_is_not_set(
        self, tmp_path: Path, database: requests_mock.Mocker, word: object
    ) -> None:
        make(tmp_path / "books.jsonl", isbns=[CRIME], bulk=word, deferrable=word).execute({})

        assert [request.method for request in database.request_history] == ["GET"]

    def test_path_object_with_a_template_is_rendered(self) -> None:
        target = ObjectStoragePath("file:///out/{{ run }}.csv")
        operator = EnrichIsbnsOperator(task_id="enrich", isbns=["{{ run }}"], destination=target)

        operator.render_template_fields(cast("Context", {"run": "monday"}))

        assert str(operator.destination) == "file:///out/monday.csv"
        assert operator.isbns == ["monday"]


class TestFailing:
    def test_destination_that_cannot_be_written_raises_before_the_first_request(
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

    @pytest.mark.parametrize("bound", ["50%", 0.5, "all", "1"])
    def test_the_bound_may_be_a_share_of_the_list(
        self, tmp_path: Path, database: requests_mock.Mocker, bound: object
    ) -> None:
        database.get(address(CRIME), status_code=503)

        summary = make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=bound).execute({})

        assert (summary["failed"], summary["found"]) == (1, 1)

    @pytest.mark.parametrize("bound", ["49%", 0.49, "0"])
    def test_share_of_failures_is_rounded_down(
        self, tmp_path: Path, database: requests_mock.Mocker, bound: object
    ) -> None:
        database.get(address(CRIME), status_code=503)

        with pytest.raises(ServiceUnavailableError):
            make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=bound).execute({})

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

    def test_spent_quota_ends_the_task_whatever_max_failures_says(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        isbns = sample_isbns(50)
        database.get(re.compile("/book/97800"), json=book(isbns[0]))
        database.get(address(CRIME), status_code=429, json={"message": "Daily quota exceeded"})

        with pytest.raises(QuotaExceededError, match="00:00 UTC"):
            make(tmp_path / "books.jsonl", isbns=[CRIME, *isbns], max_failures=99).execute({})

    def test_refused_key_fails_the_task_for_good(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.get(address(CRIME), status_code=401, json={"message": "Unauthorized"})

        with pytest.raises(permanent(AuthenticationError), match="not active"):
            make(tmp_path / "books.jsonl", isbns=[CRIME, PROGRAMMING], max_failures=9).execute({})

    @pytest.mark.parametrize("scheme", ["s3", "gs", "abfs", "sftp", "adl"])
    def test_store_without_its_package_is_named_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, scheme: str
    ) -> None:
        package = {
            "s3": "apache-airflow-providers-amazon[s3fs]",
            "gs": "apache-airflow-providers-google",
            "sftp": "apache-airflow-providers-sftp[sshfs]",
        }.get(scheme, "apache-airflow-providers-microsoft-azure")
        # Whatever providers are installed where this runs.
        monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", dict)
        paths = {"destination": f"{scheme}://bucket/out.csv", "source": f"{scheme}://bucket/in.csv"}
        for role, arguments in {
            "destination": {"isbns": [CRIME], "destination": paths["destination"]},
            "source": {"source": paths["source"], "destination": str(tmp_path / "books.csv")},
        }.items():
            operator = EnrichIsbnsOperator(task_id="enrich", **cast("Any", arguments))
            message = rf"{role} {scheme}://.*\.csv cannot be opened.*Install {re.escape(package)} on all that open it"
            with pytest.raises(permanent(PermanentError), match=message):
                operator.execute({})

        assert not database.called

    def test_parquet_without_pyarrow_spends_no_request(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(permanent(PermanentError), match="this provider's extra 'parquet'"):
            make(tmp_path / "books.parquet", isbns=[CRIME]).execute({})

        assert not database.called
