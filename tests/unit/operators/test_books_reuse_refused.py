"""Enrichments that ask only for what is new: what cannot be reused is refused in words."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from tests.unit.book_database import CRIME, PROGRAMMING
from tests.unit.operators.earlier_books import asked, dataset, row, run
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.enrichment import make
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")

FORMATS = ("jsonl", "csv", "parquet")


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("old.jsonl", b'{"isbn": "9780140449136"}\n', "no column 'isbn13', but 'isbn'"),
            ("old.jsonl", b'{"isbn13": "9780140449136"}\n', "there is no 'input' in it"),
            ("old.jsonl", b"no JSON\n", "line 1: it is no JSON"),
            ("old.csv", b"isbn13,title\n", "there is no column 'input', but 'isbn13', 'title'"),
            ("old.csv", b"", "it is empty"),
            ("old.parquet", b"PAR1", "no whole Parquet file"),
        ],
    )
    def test_file_that_is_no_dataset_of_ours_raises_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker, name: str, content: bytes, message: str
    ) -> None:
        (tmp_path / name).write_bytes(content)

        with pytest.raises(
            permanent(InvalidArgumentError), match="reuse names a file that is no whole dataset"
        ) as caught:
            run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=tmp_path / name)

        assert message in str(caught.value)
        assert str(tmp_path / name) in str(caught.value)
        assert not database.called

    def test_dataset_that_is_damaged_further_on_is_refused_before_the_first_request_too(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        old = Path(dataset(tmp_path / "old.jsonl", row(CRIME)))
        old.write_text(old.read_text() + '{"input": "978')

        with pytest.raises(permanent(InvalidArgumentError), match=r"old\.jsonl: Line 2: it is no JSON"):
            run(tmp_path / "new.jsonl", isbns=[PROGRAMMING], reuse=old)

        assert not database.called

    @pytest.mark.parametrize(
        ("argument", "kind"),
        [
            *(
                (argument, kind)
                for argument in ("reuse", "source")
                for kind in ("a named pipe", "a device", "a socket")
            ),
            ("reuse", "a folder"),
        ],
    )
    def test_path_of_no_regular_file_raises_before_it_is_opened(
        self, tmp_path: Path, database: requests_mock.Mocker, kind: str, argument: str
    ) -> None:
        path = tmp_path / "list.jsonl"
        with socket.socket(socket.AF_UNIX) as listener:
            if kind == "a named pipe":
                os.mkfifo(tmp_path / "pipe")
                path.symlink_to(tmp_path / "pipe")
            elif kind == "a device":
                path.symlink_to("/dev/zero")
            elif kind == "a socket":
                listener.bind(str(path))
            else:
                path.mkdir()
            isbns = {"isbns": [CRIME]} if argument == "reuse" else {}

            with pytest.raises(permanent(InvalidArgumentError), match=f"^{argument} {path} is {kind}, not a file"):
                run(tmp_path / "new.jsonl", **{argument: path}, **isbns)

        assert not database.called

    @pytest.mark.parametrize("reuse", ["/out/old.txt", "/out/old", ["/out/a.jsonl", "/out/b.csv.gz"]])
    def test_suffix_that_is_no_format_raises_at_parse_time(self, reuse: str | Sequence[str]) -> None:
        with pytest.raises(InvalidArgumentError, match=r"ends in none of \.jsonl, \.csv, \.parquet"):
            make("/out/books.jsonl", isbns=[CRIME], reuse=reuse)

    # A dataset is not compressed, whatever its name says.
    @pytest.mark.parametrize("name", ["catalogue", "catalogue.csv.gz"])
    @pytest.mark.parametrize("format", FORMATS)
    def test_the_destination_has_its_own_format(
        self, tmp_path: Path, database: requests_mock.Mocker, name: str, format: str
    ) -> None:
        catalogue = tmp_path / name
        for _ in range(2):
            run(catalogue, isbns=[CRIME], reuse=catalogue, format=format)

        assert asked(database) == [CRIME]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"reuse": []}, "reuse needs at least one entry"),
            ({"reuse": ["/a.jsonl", ""]}, "reuse needs at least one entry, and none of them empty"),
            ({"reuse_for": -1}, "reuse_for is a number of seconds, 0 or more, or a timedelta"),
            ({"reuse_not_found_for": "a week"}, "reuse_not_found_for is a number of seconds"),
            ({"max_requests": -1}, "max_requests is a whole number, 0 or more"),
            ({"max_requests": "many"}, "max_requests is a whole number"),
            ({"max_requests": 10**5_000}, "max_requests is a whole number of at most 100 digits"),
            ({"max_failures": 10**5_000}, "max_failures is a whole number of at most 100 digits"),
            ({"reuse": "/a/\ud800.jsonl"}, "an entry of reuse holds half of a surrogate pair, at character 4"),
            ({"reuse": ["/a.jsonl", "s3://b/\udcff.csv"]}, "an entry of reuse holds half of a surrogate pair"),
        ],
    )
    def test_arguments_of_reuse_that_cannot_be_used_raise(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            make("/out/books.jsonl", isbns=[CRIME], **arguments)
