"""Enrichments that ask only for what is new: earlier datasets that are damaged, unreadable just now, or no datasets."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.enrichment.earlier_datasets import EarlierDataset
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.unit.book_database import CRIME, PROGRAMMING
from tests.unit.operators.earlier_books import asked, context, dataset, row, run
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.enrichment import in_triggerer, json_rows, make
from tests.unit.permanent import permanent
from tests.unit.storage.attached import attached
from tests.unit.storage.fake_store import FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")
FORMATS = ("jsonl", "csv", "parquet")
# More than one batch of rows, of which the first is read when the dataset is checked.
BOOKS = sample_isbns(3_000)


def with_damaged_pages(tmp_path: Path) -> Path:
    """Return a dataset in Parquet whose metadata is whole, and whose pages are not."""
    old = dataset(tmp_path / "old.jsonl", *(row(isbn) for isbn in BOOKS))
    file = Path(run(tmp_path / "damaged.parquet", isbns=BOOKS, reuse=old)["path"])
    group = pq.ParquetFile(file).metadata.row_group(0)
    chunks = {group.column(each).path_in_schema: group.column(each) for each in range(group.num_columns)}
    content = bytearray(file.read_bytes())
    chunk = chunks["record"]
    middle = chunk.dictionary_page_offset or chunk.data_page_offset
    # The header of the page stays, and what is compressed does not.
    content[middle + 60 : middle + chunk.total_compressed_size] = b"\xff" * (chunk.total_compressed_size - 60)
    file.write_bytes(content)
    return file


class FailingStore(FakeStore):
    """A store whose objects cannot be read at the time."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        super().__init__()
        self.error = error
        self.fails = False

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super().open(path, mode, **options)
        return UnreadableFile(self.error, file.getvalue()) if self.fails and mode == "rb" else file


class UnreadableFile(io.BytesIO):
    """A file whose reads fail."""

    def __init__(self, error: Callable[[], Exception], content: bytes) -> None:
        super().__init__(content)
        self.error = error

    def read(self, _size: int | None = -1, /) -> bytes:
        raise self.error()


class LostNetworkError(Exception):
    """An error of a client's own."""


class TestDamage:
    def test_damaged_pages_of_parquet_end_the_task_with_their_path_and_what_to_do(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        damaged = with_damaged_pages(tmp_path)
        asked(database)

        with pytest.raises(permanent(InvalidArgumentError)) as caught:
            run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=damaged)

        message = str(caught.value)
        what = f"{damaged}: it is no whole Parquet file ("
        assert message.startswith(f"reuse names a file that is no whole dataset of EnrichIsbnsOperator. {what}")
        assert message.endswith("Name one that this operator has written, or leave reuse out.")
        assert not database.called

    def test_in_the_triggerer_too(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        damaged = with_damaged_pages(tmp_path)
        asked(database)
        # It was whole when the worker looked.
        monkeypatch.setattr(EarlierDataset, "check", lambda _: None)
        deferring = make(tmp_path / "new.jsonl", isbns=[CRIME], reuse=damaged, deferrable=True)

        with pytest.raises(permanent(PermanentError), match=f"{damaged}: it is no whole Parquet file"):
            in_triggerer(deferring, context("deferred"))

        assert not database.called

    @pytest.mark.parametrize("format", FORMATS)
    def test_dataset_that_is_replaced_while_it_is_read_is_read_anew_by_the_next_attempt(
        self, tmp_path: Path, format: Any
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME))
        file = Path(run(tmp_path / f"books.{format}", isbns=[CRIME], reuse=old)["path"])
        before = EarlierDataset.at(str(file), format)
        file.write_bytes(b"\0\n")

        with pytest.raises(
            OSError, match=f"^.*reuse {file} was replaced while it was read; the next attempt"
        ) as caught:
            list(before.rows())

        assert caught.value.errno == errno.ESTALE
        with pytest.raises(InvalidArgumentError, match=f"no whole dataset of EnrichIsbnsOperator. {file}"):
            list(EarlierDataset.at(str(file), format).rows())


class TestAStoreThatFails:
    @pytest.mark.parametrize(
        "error",
        [
            lambda: OSError(errno.EIO, "Input/output error"),
            lambda: OSError("the store is busy"),
            lambda: TimeoutError(errno.ETIMEDOUT, "timed out"),
            LostNetworkError,
        ],
        ids=["EIO", "without a number", "timeout", "the client's own"],
    )
    def test_reading_parquet_may_succeed_later(
        self, tmp_path: Path, database: requests_mock.Mocker, error: Callable[[], Exception]
    ) -> None:
        old = dataset(tmp_path / "old.jsonl", row(CRIME))
        before = run(tmp_path / "before.parquet", isbns=[CRIME], reuse=old)["path"]
        with attached(FailingStore(error), "flaky") as store:
            store.pipe_file("/bucket/old.parquet", Path(before).read_bytes())
            store.fails = True
            arguments: dict[str, Any] = {"isbns": [CRIME], "reuse": "memory://flaky@bucket/old.parquet"}

            with pytest.raises(
                OSError, match=r"dataset memory://flaky@/bucket/old\.parquet cannot be read: "
            ) as caught:
                run(tmp_path / "new.jsonl", **arguments)

            assert type(caught.value).__module__ == "builtins"
            store.fails = False
            assert run(tmp_path / "new.jsonl", **arguments)["reused"] == 1
        assert not database.called


class TestAdvice:
    @pytest.mark.parametrize(
        ("content", "what"),
        [
            (b"\x1f\x8b\x08\x00", "it is no text but compressed with gzip."),
            (b"PAR1", "it is no text but Parquet."),
            (b"\xff\xfei\x00", "it is no text (it holds NUL bytes)."),
        ],
    )
    def test_no_other_name_of_the_file_is_advised(self, tmp_path: Path, content: bytes, what: str) -> None:
        (tmp_path / "old.csv").write_bytes(content)

        with pytest.raises(permanent(InvalidArgumentError)) as caught:
            run(tmp_path / "new.jsonl", isbns=[CRIME], reuse=tmp_path / "old.csv")

        assert f"old.csv, line 1: {what} Name one that this operator has written" in str(caught.value)

    def test_compressed_dataset_raises_with_the_advice_to_decompress_it(self) -> None:
        with pytest.raises(InvalidArgumentError, match=r"name a dataset of this operator\. Decompress it first: "):
            make("/out/books.jsonl", isbns=[CRIME], reuse="/out/old.csv.gz")

    def test_nothing_is_said_of_keep_columns(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        old = dataset(tmp_path / "old.jsonl", row(PROGRAMMING))
        file = Path(run(tmp_path / "books.parquet", isbns=[PROGRAMMING], reuse=old)["path"])
        table = pq.read_table(file)
        times = pa.array([0], pa.timestamp("s", "Mars/Olympus"))
        pq.write_table(table.set_column(table.schema.get_field_index("fetched_at"), "fetched_at", times), file)

        with pytest.raises(permanent(InvalidArgumentError), match="column 'fetched_at' has values of type") as caught:
            run(tmp_path / "new.jsonl", isbns=[PROGRAMMING], reuse=file)

        assert "that cannot be read (" in str(caught.value)
        assert "keep_columns" not in str(caught.value)
        assert not database.called


class TestLongRecords:
    @pytest.mark.parametrize("format", FORMATS)
    def test_record_of_many_megabytes_is_taken_from_every_format(
        self, tmp_path: Path, database: requests_mock.Mocker, format: str
    ) -> None:
        # In CSV, the record has two characters for each quote of a text, and the title is a column, too.
        title = '"' * 5_000_000
        old = dataset(tmp_path / "old.jsonl", row(CRIME, book={"title": title}), row(PROGRAMMING))
        before = run(tmp_path / f"before.{format}", isbns=[CRIME, PROGRAMMING], reuse=old)["path"]

        run(tmp_path / "after.jsonl", isbns=[CRIME, PROGRAMMING], reuse=before)

        assert asked(database) == []
        books = [each["book"] for each in json_rows(tmp_path / "after.jsonl")]
        assert [len(each["title"]) for each in books] == [5_000_000, len("As it was")]
        assert json.dumps(books[0]) == json.dumps({"title": title})


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
