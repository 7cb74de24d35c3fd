from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.storage.sources import InvalidSourceError, check_source, read_column

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.storage.conftest import Store

GZIPPED = gzip.compress(b"a\n" * 99, mtime=0)
LINES = "a\n\n  b \r\nc"
TABLE = 'id;x,isbn,note\n1,a,"two\nlines"\n2\n\n3,,\n4,b,n\n'
OBJECTS = '{"isbn":"a"}\n\n{"isbn": 9780131103627}\n{"isbn":null}\n{}\n{"isbn":["x"]}\n'


def file_of(tmp_path: Path, name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return (tmp_path / name).as_uri()


@pytest.mark.parametrize("packed", ["", ".gz", ".GZ"])
@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("s.txt", LINES, ["a", "b", "c"]),
        ("s.csv", TABLE, ["a", "", "", "b"]),
        ("s.jsonl", OBJECTS, ["a", "9780131103627", "", "", '["x"]']),
    ],
)
def test_each_format_gives_a_text_a_row(tmp_path: Path, name: str, content: str, texts: list[str], packed: str) -> None:
    source = file_of(tmp_path, name + packed.lower(), content)
    if packed.isupper():
        (tmp_path / f"{name}.gz").rename(tmp_path / f"{name}{packed}")

    assert list(read_column(source.removesuffix(".gz") + packed if packed else source, "isbn")) == texts


@pytest.mark.parametrize(("name", "content"), [("s.txt", "a"), ("s.csv", "isbn\na"), ("s.jsonl", '{"isbn":"a"}')])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, name: str, content: str) -> None:
    source = file_of(tmp_path, name, b"\xef\xbb\xbf" + content.encode())

    assert list(read_column(source, "isbn")) == ["a"]


def test_blanks_around_the_names_of_columns_do_not_matter(tmp_path: Path) -> None:
    assert list(read_column(file_of(tmp_path, "s.csv", "id , isbn \n1,a\n"), "isbn")) == ["a"]


def test_a_source_on_an_object_store_is_read_by_its_connection(store: Store) -> None:
    store.pipe_file("/bucket/s.txt", b"a\nb\n")

    assert list(read_column("memory://shelf@bucket/s.txt", "isbn")) == ["a", "b"]


def test_a_file_is_read_as_its_rows_are_asked_for(tmp_path: Path) -> None:
    rows = read_column(file_of(tmp_path, "s.txt", b"a\n\xff\n"), "isbn")

    assert next(rows) == "a"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.csv", "id,ISBN13\n1,a\n", "line 1: there is no column 'isbn', but 'id', 'ISBN13'"),
        ("s.csv", "", "line 0: there is no column 'isbn', but nothing"),
        ("s.csv", "isbn\n" + "a" * 200_000, "line 2: it is no CSV"),
        ("s.jsonl", '\n{"id":1}\n', "line 2: there is no column 'isbn', but 'id'"),
        ("s.jsonl", '{"isbn":"a"}\n{"isbn":', "line 2: it is no JSON"),
        ("s.jsonl", '["isbn"]\n', "line 1: it is a JSON list, not an object"),
        ("s.txt", b"a\nb\nc \xff\n", "line 3: it is no UTF-8 text .byte 0xff at place 3"),
        ("s.csv", "isbn\n".encode("utf-16"), "line 1: it is no UTF-8 text"),
        ("s.txt", GZIPPED, "line 1: it is no UTF-8 text .byte 0x8b"),
    ],
)
def test_a_file_that_is_something_else_is_named_with_what_it_is(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    source = file_of(tmp_path, name, content)

    with pytest.raises(InvalidSourceError, match=f"source {source}, {message}"):
        list(read_column(source, "isbn"))


@pytest.mark.parametrize(
    "content",
    [b"plain\n", GZIPPED[:-9], GZIPPED[:10] + b"\xff" * 9, GZIPPED[:5]],
    ids=["plain", "cut", "overwritten", "cut in its head"],
)
def test_a_damaged_gzip_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.txt.gz").write_bytes(content)

    with pytest.raises(InvalidSourceError, match=r"s\.txt\.gz, line \d+: it is no whole gzip file"):
        list(read_column((tmp_path / "s.txt.gz").as_uri(), "isbn"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"source file://{tmp_path}/s\.txt cannot be read: No such file"):
        list(read_column((tmp_path / "s.txt").as_uri(), "isbn"))


@pytest.mark.usefixtures("store")
def test_a_missing_object_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"bucket/s\.txt cannot be read: there is no such file"):
        list(read_column("memory://shelf@bucket/s.txt", "isbn"))


def test_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.txt").mkdir()

    with pytest.raises(IsADirectoryError, match=r"s\.txt cannot be read: Is a directory"):
        list(read_column((tmp_path / "s.txt").as_uri(), "isbn"))


@pytest.mark.parametrize("source", ["s", "s.parquet", "s.gz", "s.txt.bz2", "txt"])
def test_an_unknown_suffix_is_refused_before_the_file_is_looked_at(source: str) -> None:
    with pytest.raises(InvalidSourceError, match=r"ends in none of \.txt, \.csv, \.jsonl, each also with \.gz"):
        check_source(source)
