"""Enrichments that ask only for what is new: earlier datasets that are damaged, unreadable just now, or no datasets."""

from __future__ import annotations

import errno
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.enrichment.reuse import earlier_dataset, lookups_of
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.unit.book_database import CRIME
from tests.unit.operators.enrichment import asked_since, dataset, enrich, row
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.storage.fake_store import FakeStore, attached

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")
FORMATS = ("jsonl", "csv", "parquet")
# More than one batch of rows, of which the first is read when the dataset is checked.
BOOKS = sample_isbns(3_000)


class LostNetworkError(Exception):
    """An error of a client's own."""


class TestDamage:
    def test_dataset_that_is_replaced_while_it_is_read_is_read_anew_by_the_next_attempt(self, tmp_path: Path) -> None:
        file = Path(dataset(tmp_path / "old.jsonl", *(row(CRIME) for _ in range(5_000))))
        earlier = earlier_dataset(str(file), "new.jsonl", None)
        rows = lookups_of(earlier)
        next(rows)
        file.write_bytes(b"\0\n" * 2_000_000)

        with pytest.raises(OSError, match=f"reuse {file} was replaced while it was read; the next attempt") as caught:
            list(rows)

        assert caught.value.errno == errno.ESTALE
        with pytest.raises(InvalidArgumentError, match=f"not a whole dataset of EnrichIsbnsOperator. {file}"):
            list(lookups_of(earlier))


class TestAStoreThatFails:
    @pytest.mark.parametrize(
        "error",
        [OSError("the store is busy"), TimeoutError(errno.ETIMEDOUT, "timed out"), LostNetworkError()],
        ids=["without a number", "timeout", "the client's own"],
    )
    def test_reading_parquet_may_succeed_later(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def refuse(*_: object) -> bytes:
            raise error

        def unreadable(*arguments: Any, **options: Any) -> Any:
            file = opened(*arguments, **options)
            failing.setattr(file, "read", refuse)
            return file

        old = dataset(tmp_path / "old.jsonl", row(CRIME))
        before = enrich(tmp_path / "before.parquet", isbns=[CRIME], reuse=old)["path"]
        arguments: dict[str, Any] = {"isbns": [CRIME], "reuse": "memory://flaky@bucket/old.parquet"}
        with attached(FakeStore(), "flaky") as store:
            store.pipe_file("/bucket/old.parquet", Path(before).read_bytes())
            opened = store.open
            with monkeypatch.context() as failing:
                failing.setattr(store, "open", unreadable)
                with pytest.raises(OSError, match=r"memory://flaky@bucket/old\.parquet cannot be read: ") as caught:
                    enrich(tmp_path / "new.jsonl", **arguments)

            assert type(caught.value).__module__ == "builtins"
            assert enrich(tmp_path / "new.jsonl", **arguments)["reused"] == 1
        assert not database.called


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("old.jsonl", b'{"isbn": "9780140449136"}\n', "no column 'isbn13', but 'isbn'"),
            ("old.jsonl", b'{"isbn13": "9780140449136"}\n', "there is no column 'input', but 'isbn13'"),
            ("old.jsonl", b"no JSON\n", "Line 1: it is not valid JSON"),
            (
                "old.jsonl",
                json.dumps(row(CRIME, fetched_at=None)).encode() + b'\n{"input": "978',
                "Line 2: it is not valid JSON",
            ),
            ("old.csv", b"isbn13,title\n", "there is no column 'input', but 'isbn13', 'title'"),
            ("old.csv", b"", "it is empty"),
            ("old.csv", b"\x1f\x8b\x08\x00", "it is not text but compressed with gzip"),
            ("old.csv", b"PAR1", "it is not text but Parquet"),
            ("old.parquet", b"PAR1", "not a whole Parquet file"),
        ],
    )
    def test_file_that_is_no_dataset_of_ours_raises_before_the_first_request(
        self, tmp_path: Path, database: Mocker, name: str, content: bytes, message: str
    ) -> None:
        (tmp_path / name).write_bytes(content)

        with pytest.raises(
            permanent(InvalidArgumentError), match="reuse names a file that is not a whole dataset"
        ) as caught:
            enrich(tmp_path / "new.jsonl", isbns=[CRIME], reuse=tmp_path / name)

        assert message in str(caught.value)
        assert str(tmp_path / name) in str(caught.value)
        assert not database.called

    @pytest.mark.parametrize(
        ("argument", "kind"),
        [
            ("source", "a named pipe"),
            ("source", "a device"),
            ("reuse", "a named pipe"),
            ("reuse", "a socket"),
            ("reuse", "a folder"),
        ],
    )
    def test_path_of_no_regular_file_raises_before_it_is_opened(
        self, tmp_path: Path, database: Mocker, kind: str, argument: str
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

            with pytest.raises(permanent(InvalidArgumentError), match=f"^{argument} .*{path} is a folder, a pipe or"):
                enrich(tmp_path / "new.jsonl", **{argument: path}, **isbns)

        assert not database.called

    # A dataset is not compressed, whatever its name says.
    @pytest.mark.parametrize("name", ["catalogue", "catalogue.csv.gz"])
    @pytest.mark.parametrize("format", FORMATS)
    def test_the_destination_has_its_own_format(self, tmp_path: Path, database: Mocker, name: str, format: str) -> None:
        catalogue = tmp_path / name
        for _ in range(2):
            enrich(catalogue, isbns=[CRIME], reuse=catalogue, format=format)

        assert asked_since(database) == [CRIME]
