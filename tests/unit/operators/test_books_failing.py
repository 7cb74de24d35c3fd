"""Enrichments that fail: of arguments that cannot be, of what the service or the disk refuses, of too many failures."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    PermanentError,
    QuotaExceededError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, book
from tests.unit.operators.enrichment import address, json_rows, make, permanent
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("supervisor")


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
            ({"source": "{{ ds }}/isbns.xlsx"}, "ends in none of"),
            ({"isbns": "{{ x }}", "destination": "{{ ds }}/books.doc"}, "ends in none of"),
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
            ({"source": "{{ x }}.gz"}, {"source": "isbns.doc.gz"}, "ends in none of"),
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
