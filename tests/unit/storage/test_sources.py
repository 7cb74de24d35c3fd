from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.storage import source_lines
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError, SourceRow
from airflow_provider_mediaops.storage.sources import (
    check_source,
    count_rows,
    read_rows,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.unit.storage.conftest import Store

GZIPPED = gzip.compress(b"a\n" * 99, mtime=0)
LINES = "a\n\n  b \r\nc"
TABLE = 'id;x,isbn,note\n1,a,"two\nlines"\n2,,x\n\n3,,\n4,b,n\n'
OBJECTS = '{"isbn":"a"}\n\n{"isbn": 9780131103627}\n{"isbn":null}\n{"isbn":9780131103627.0}\n{"isbn":["x"]}\n'


def file_of(tmp_path: Path, name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return (tmp_path / name).as_uri()


def table_of(tmp_path: Path, column: Iterable[Any], *, a_group: int = 1_000, **types: Any) -> str:
    file = tmp_path / "s.parquet"
    pq.write_table(pa.table({"id": list(range(len(list(column)))), "isbn": pa.array(column, **types)}), file, a_group)
    return file.as_uri()


def texts(source: str, skip: int = 0) -> list[str]:
    rows = list(read_rows(source, "isbn", skip=skip))
    assert [row.error for row in rows if row.error] == []
    return [row.text for row in rows]


@pytest.mark.parametrize("packed", ["", ".gz", ".GZ"])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("s.txt", LINES, ["a", "b", "c"]),
        ("s.csv", TABLE, ["a", "", "", "b"]),
        ("s.jsonl", OBJECTS, ["a", "9780131103627", "", "9780131103627", '["x"]']),
    ],
)
def test_each_format_gives_a_text_a_row(
    tmp_path: Path, name: str, content: str, expected: list[str], packed: str
) -> None:
    source = file_of(tmp_path, name + packed.lower(), content)
    if packed.isupper():
        (tmp_path / f"{name}.gz").rename(tmp_path / f"{name}{packed}")
    source = source.removesuffix(".gz") + packed if packed else source

    assert texts(source) == expected
    assert count_rows(source, "isbn") == len(expected)
    for skip in range(len(expected) + 2):
        assert texts(source, skip) == expected[skip:]


@pytest.mark.parametrize(("name", "content"), [("s.txt", "a"), ("s.csv", "isbn\na"), ("s.jsonl", '{"isbn":"a"}')])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, name: str, content: str) -> None:
    assert texts(file_of(tmp_path, name, b"\xef\xbb\xbf" + content.encode())) == ["a"]


def test_blanks_around_the_names_of_columns_do_not_matter(tmp_path: Path) -> None:
    assert texts(file_of(tmp_path, "s.csv", "id , isbn \n1,a\n")) == ["a"]


def test_a_source_on_an_object_store_is_read_by_its_connection(store: Store, tmp_path: Path) -> None:
    store.pipe_file("/bucket/s.txt", b"a\nb\n")
    table_of(tmp_path, ["a", "b"])
    store.pipe_file("/bucket/s.parquet", (tmp_path / "s.parquet").read_bytes())

    assert texts("memory://shelf@bucket/s.txt") == ["a", "b"]
    assert texts("memory://shelf@bucket/s.parquet") == ["a", "b"]


def test_a_file_is_read_as_its_rows_are_asked_for(tmp_path: Path) -> None:
    rows = read_rows(file_of(tmp_path, "s.csv", b"isbn\na\n" + b"x" * 200_000), "isbn")

    assert next(rows) == SourceRow("a")


class TestRowsThatCannotBeRead:
    @pytest.mark.parametrize(
        ("name", "content", "row"),
        [
            (
                "s.txt",
                b"a\nb\nc \xff\nd\n",
                SourceRow(r"c \xff", "Line 3: it is no UTF-8 text (byte 0xff at place 3)."),
            ),
            (
                "s.csv",
                b"isbn,n\na,\nb,\nc\xe9,\nd,\n",
                SourceRow(r"c\xe9", "Line 4: it is no UTF-8 text (byte 0xe9 at place 2)."),
            ),
            (
                "s.csv",
                b"n,isbn\n,a\n,b\n1\n,d\n",
                SourceRow("", "Line 4: it has 1 of 2 columns, and 'isbn' is not among them."),
            ),
            (
                "s.jsonl",
                b'{"isbn":"a"}\n{"isbn":"b"}\n{"isbn":\n{"isbn":"d"}\n',
                SourceRow('{"isbn":', "Line 3: it is no JSON (Expecting value: line 2 column 1 (char 9))."),
            ),
            (
                "s.jsonl",
                b'{"isbn":"a"}\n{"isbn":"b"}\n[1]\n{"isbn":"d"}\n',
                SourceRow("[1]", "Line 3: it is a JSON list, not an object."),
            ),
            (
                "s.jsonl",
                b'{"isbn":"a"}\n{"isbn":"b"}\n{"id":1}\n{"isbn":"d"}\n',
                SourceRow("", "Line 3: there is no column 'isbn', but 'id'."),
            ),
            (
                "s.jsonl",
                b'{"isbn":"a"}\n{"isbn":"b"}\n{"isbn":"c\xff"}\n{"isbn":"d"}\n',
                SourceRow(r"c\xff", "Line 3: it is no UTF-8 text (byte 0xff at place 2)."),
            ),
        ],
    )
    def test_one_bad_row_is_a_row_with_its_line_and_spoils_no_other(
        self, tmp_path: Path, name: str, content: bytes, row: SourceRow
    ) -> None:
        source = file_of(tmp_path, name, content)

        assert list(read_rows(source, "isbn")) == [SourceRow("a"), SourceRow("b"), row, SourceRow("d")]
        assert count_rows(source, "isbn") == 4

    @pytest.mark.parametrize(
        ("name", "content"),
        [("s.csv", b"isbn,title\na,\xdcberblick\n"), ("s.jsonl", b'{"isbn":"a","title":"\xdcberblick"}\n')],
    )
    def test_bytes_of_another_encoding_elsewhere_do_not_matter(self, tmp_path: Path, name: str, content: bytes) -> None:
        assert texts(file_of(tmp_path, name, content)) == ["a"]

    def test_what_is_nested_too_deep_spoils_no_other_row(self, tmp_path: Path) -> None:
        deep = f'{{"isbn":{"[" * 100_000}{"]" * 100_000}}}'
        rows = list(read_rows(file_of(tmp_path, "s.jsonl", f'{{"isbn":"a"}}\n{deep}\n{{"isbn":"b"}}\n'), "isbn"))

        assert [row.text for row in rows] == ["a", deep, "b"]
        assert str(rows[1].error).startswith("Line 2: it is no JSON (")

    def test_half_of_a_surrogate_pair_in_json_is_kept(self, tmp_path: Path) -> None:
        assert texts(file_of(tmp_path, "s.jsonl", r'{"isbn":"\ud800"}')) == ["\ud800"]


class TestFilesThatAreSomethingElse:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("s.csv", "id,ISBN13\n1,a\n", "line 1: there is no column 'isbn', but 'id', 'ISBN13'"),
            (
                "s.csv",
                b"x,\xfcber\n",
                r"line 1: it is no UTF-8 text .byte 0xfc at place 3.; there is no column 'isbn', but 'x', '\\xfcber'",
            ),
            (
                "s.csv",
                ",".join("abcdefghijklmnopqrstuvwxyz"),
                "line 1: there is no column 'isbn', but .*'t' and 6 more",
            ),
            ("s.csv", "x" * 9_999, f"line 1: there is no column 'isbn', but '{'x' * 39}…'"),
            ("s.csv", "isbn,ean,isbn\na,b,c\n", "line 1: there are 2 columns 'isbn'; give them different names"),
            ("s.csv", "isbn\n" + "a" * 200_000, "line 2: it is no CSV"),
            ("s.csv", 'n,isbn\n,a\n"x,b\n,c\n,d\n', "line 3: it is no CSV .a quote is opened there and never closed"),
            ("s.csv", 'n,isbn\n,a\n,b\n,"', "line 4: it is no CSV .a quote is opened there and never closed"),
            ("s.jsonl", '\n{"id":1}\n', "line 2: there is no column 'isbn', but 'id'"),
            ("s.jsonl", '{"isbn":', "line 1: it is no JSON"),
            ("s.jsonl", '["isbn"]\n', "line 1: it is a JSON list, not an object"),
            ("s.txt", b"\xe9\nb\n", "line 1: it is no UTF-8 text .byte 0xe9 at place 1"),
            ("s.txt", b"a\0b\n", r"line 1: it is no text \(it holds NUL bytes\)"),
            ("s.csv", "isbn\ra\rb\r", "line 1: its lines end in CR alone, as on old Macs; save it with LF"),
            ("s.txt", "a\rb", "line 1: its lines end in CR alone"),
            ("s.csv", "isbn\n".encode("utf-16"), "line 1: it is no UTF-8 text but UTF-16; save it as UTF-8"),
            ("s.csv", "\ufeffisbn\n".encode("utf-16-be"), "line 1: it is no UTF-8 text but UTF-16"),
            ("s.txt", GZIPPED, "line 1: it is no UTF-8 text but compressed with gzip; let its name end in .gz"),
            ("s.csv", b"PK\x03\x04rest", "line 1: it is no text but a ZIP archive or a workbook"),
            ("s.txt", b"PAR1rest", "line 1: it is no text but Parquet"),
        ],
    )
    def test_a_file_that_is_something_else_is_named_with_what_it_is(
        self, tmp_path: Path, name: str, content: str | bytes, message: str
    ) -> None:
        source = file_of(tmp_path, name, content)

        with pytest.raises(InvalidSourceError, match=f"source {source}, {message}"):
            list(read_rows(source, "isbn"))
        with pytest.raises(InvalidSourceError, match=message):
            count_rows(source, "isbn")

    @pytest.mark.parametrize("name", ["s.csv", "s.csv.gz"])
    def test_an_empty_table_is_named(self, tmp_path: Path, name: str) -> None:
        source = file_of(tmp_path, name, "")

        with pytest.raises(InvalidSourceError, match=f"source {source}: it is empty, without even a first line"):
            count_rows(source, "isbn")

    @pytest.mark.parametrize("name", ["s.txt", "s.csv.gz", "s.jsonl"])
    def test_what_has_no_lines_is_not_read_into_memory(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InvalidSourceError, match=r"the next line is longer than 16 MB, so it is no list"):
            count_rows(file_of(tmp_path, name, b"x" * (17 << 20)), "isbn")

    @pytest.mark.parametrize("skip", [1, 5])
    def test_it_is_found_out_at_the_start_however_many_rows_are_left_out(self, tmp_path: Path, skip: int) -> None:
        source = file_of(tmp_path, "s.jsonl", '{"id":1}\n' * 9)

        with pytest.raises(InvalidSourceError, match="no column"):
            next(read_rows(source, "isbn", skip=skip))

    @pytest.mark.parametrize(
        "content",
        [b"plain\n", GZIPPED[:-9], GZIPPED[:10] + b"\xff" * 9, GZIPPED[:5]],
        ids=["plain", "cut", "overwritten", "cut in its head"],
    )
    def test_a_damaged_gzip_file_is_named(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(content)

        with pytest.raises(InvalidSourceError, match=r"s\.txt\.gz.*: it is no whole gzip file"):
            list(read_rows((tmp_path / "s.txt.gz").as_uri(), "isbn"))

    @pytest.mark.parametrize("name", ["s.txt", "s.parquet"])
    def test_a_missing_file_is_named(self, tmp_path: Path, name: str) -> None:
        source = (tmp_path / name).as_uri()
        for use in (lambda: list(read_rows(source, "isbn")), lambda: version_of(source)):
            with pytest.raises(FileNotFoundError, match=rf"source {source} cannot be read: No such file"):
                use()

    @pytest.mark.usefixtures("store")
    def test_a_missing_object_is_named(self) -> None:
        with pytest.raises(FileNotFoundError, match=r"bucket/s\.txt cannot be read: there is no such file"):
            list(read_rows("memory://shelf@bucket/s.txt", "isbn"))

    def test_a_folder_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "s.txt").mkdir()

        with pytest.raises(IsADirectoryError, match=r"s\.txt cannot be read: Is a directory"):
            list(read_rows((tmp_path / "s.txt").as_uri(), "isbn"))

    @pytest.mark.parametrize("source", ["s", "s.xlsx", "s.gz", "s.txt.bz2", "txt", "s.parquet.gz"])
    def test_an_unknown_suffix_is_refused_before_the_file_is_looked_at(self, source: str) -> None:
        message = r"ends in none of \.txt, \.csv, \.jsonl \(each also with \.gz\) and \.parquet"
        with pytest.raises(InvalidSourceError, match=message):
            check_source(source)


# Airflow 3.1 knows no home folders in paths, and looks for the scheme only when the file is opened.
SINCE_3_2 = pytest.mark.airflow(">=3.2")


@pytest.mark.parametrize(
    "source",
    [
        "file:///a\0b.txt",
        pytest.param("~nosuchuser/s.txt", marks=SINCE_3_2),
        pytest.param("nosuchproto://x/s.txt", marks=SINCE_3_2),
    ],
)
def test_a_path_that_can_never_name_a_file_is_refused(source: str) -> None:
    for read in (lambda: read_rows(source, "isbn"), lambda: count_rows(source, "isbn"), lambda: version_of(source)):
        with pytest.raises(InvalidArgumentError, match="is no path of a file"):
            read()


class TestGzip:
    @pytest.mark.parametrize(
        "data",
        [
            gzip.compress(b"a\nb") + gzip.compress(b"") + gzip.compress(b"\nc\n"),
            gzip.compress(b"a\nb\nc\n") + b"\0" * 20_000,
            gzip.compress(b"a\nb") + b"\0" * 20_000 + gzip.compress(b"\nc\n"),
            b"".join(gzip.compress(bytes([byte])) for byte in b"a\nb\nc\n"),
        ],
        ids=["members", "padding", "padding between members", "small members"],
    )
    def test_members_and_padding_are_one_text(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(data)

        assert texts((tmp_path / "s.txt.gz").as_uri()) == ["a", "b", "c"]

    def test_an_empty_file_has_no_rows(self, tmp_path: Path) -> None:
        (tmp_path / "s.txt.gz").touch()

        assert texts((tmp_path / "s.txt.gz").as_uri()) == []

    @pytest.mark.parametrize("end", [b"x", b"\0x", GZIPPED[:5], GZIPPED[:-1], b"\0" * 9_000 + GZIPPED[:-8]])
    def test_anything_else_after_a_member_is_refused(self, tmp_path: Path, end: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(GZIPPED + end)

        with pytest.raises(InvalidSourceError, match="no whole gzip file"):
            count_rows((tmp_path / "s.txt.gz").as_uri(), "isbn")

    @pytest.mark.parametrize("size", [1, 8_191, 8_192, 8_193, 262_143, 262_144, 262_145, 1_000_000])
    @pytest.mark.parametrize("level", [0, 9])
    def test_blocks_of_any_size_are_whole(self, tmp_path: Path, size: int, level: int) -> None:
        (tmp_path / "s.txt.gz").write_bytes(gzip.compress(b"a" * size, level))

        assert [len(text) for text in texts((tmp_path / "s.txt.gz").as_uri())] == [size]

    @pytest.mark.parametrize(
        "data",
        [
            GZIPPED + b"\0" * 1_000_000,
            GZIPPED[:3] + b"\x08" + GZIPPED[4:10] + b"n" * 1_000_000 + b"\0" + GZIPPED[10:],
        ],
        ids=["padding", "name"],
    )
    def test_padding_and_long_names_are_not_read_byte_by_byte(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, data: bytes
    ) -> None:
        store.pipe_file("/bucket/s.txt.gz", data)
        reads: list[int] = []
        opened = store.open

        def opening(*args: Any, **options: Any) -> Any:
            file = opened(*args, **options)
            read = file.read

            def counting(size: int = -1) -> bytes:
                reads.append(size)
                return bytes(read(size))

            file.read = counting
            return file

        monkeypatch.setattr(store, "open", opening)

        assert count_rows("memory://shelf@bucket/s.txt.gz", "isbn") == 99
        assert 1 < len(reads) < 200


class TestEmptyLines:
    """64 kB of gzip hold 64 million empty lines: none of them is a row, and reading them takes time."""

    def test_a_file_of_nothing_else_is_refused_after_a_million(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = file_of(tmp_path, "s.txt.gz", b"\n" * 3_000_000)
        inflated: list[int] = []
        real = zlib.decompressobj

        class Counting:
            def __init__(self, wbits: int) -> None:
                self._real = real(wbits)

            def decompress(self, data: bytes, most: int) -> bytes:
                inflated.append(most)
                return self._real.decompress(data, most)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._real, name)

        monkeypatch.setattr(zlib, "decompressobj", Counting)
        with pytest.raises(InvalidSourceError, match="line 1000001: 1,000,001 of the lines up to here are empty, so"):
            count_rows(source, "isbn")
        assert sum(inflated) < 2_000_000

    @pytest.mark.parametrize(
        ("name", "head"), [("s.txt", b"a\n"), ("s.csv.gz", b"isbn\na\n"), ("s.jsonl", b'{"isbn":"a"}\n')]
    )
    @pytest.mark.parametrize(
        "blank",
        [
            b"\n",
            b"\r\n",
            b" \t\n",
            b"\x1c\n",
            b"\x1f\r\n",
            *(f"{char}\n".encode() for char in "\x85\xa0\u2000\u2028\u3000"),
        ],
    )
    def test_in_every_format(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes, blank: bytes
    ) -> None:
        monkeypatch.setattr(source_lines, "_BLANK_LINES", 1_000)
        most = 1_000 + 10 * head.count(b"\n")
        assert count_rows(file_of(tmp_path, name, head + blank * most), "isbn") >= 1
        source = file_of(tmp_path, name, head + blank * (most + 1))
        with pytest.raises(InvalidSourceError, match=f"{most + 1:,} of the lines up to here are empty"):
            count_rows(source, "isbn")

    def test_ten_of_them_beside_each_row_are_read_however_many(self, tmp_path: Path) -> None:
        rows = 110_000
        source = file_of(tmp_path, "s.txt.gz", (b"\n" * 10 + b"a\n") * rows)

        assert count_rows(source, "isbn") == rows

    def test_more_than_that_are_refused_though_rows_stand_between(self, tmp_path: Path) -> None:
        source = file_of(tmp_path, "s.txt.gz", (b"\n" * 100_000 + b"a\n") * 20)

        with pytest.raises(InvalidSourceError, match="of the lines up to here are empty, so it is no list"):
            count_rows(source, "isbn")


class TestParquet:
    @pytest.mark.parametrize(
        ("column", "types"),
        [
            (["a", None, "b"], {}),
            (["a", None, "b"], {"type": pa.large_string()}),
            ([b"a", None, b"b"], {}),
        ],
    )
    def test_texts_are_read_from_a_column(self, tmp_path: Path, column: list[Any], types: dict[str, Any]) -> None:
        assert texts(table_of(tmp_path, column, **types)) == ["a", "", "b"]

    @pytest.mark.parametrize(
        "value", [9780131103627, 9780131103627.0, Decimal(9780131103627), Decimal("9780131103627.00")]
    )
    def test_numbers_are_texts_of_digits(self, tmp_path: Path, value: Any) -> None:
        assert texts(table_of(tmp_path, [value, None])) == ["9780131103627", ""]

    def test_words_of_a_dictionary_are_texts(self, tmp_path: Path) -> None:
        file = tmp_path / "s.parquet"
        pq.write_table(pa.table({"isbn": pa.array(["a", "b", "a"]).dictionary_encode()}), file)

        assert texts(file.as_uri()) == ["a", "b", "a"]

    def test_groups_of_rows_are_left_out_unread(self, tmp_path: Path) -> None:
        column = [f"text {number}" for number in range(2_500)]
        source = table_of(tmp_path, column, a_group=1_100)

        assert count_rows(source, "isbn") == 2_500
        for skip in (0, 1, 999, 1_000, 1_001, 1_100, 1_101, 2_200, 2_499, 2_500, 9_999):
            assert texts(source, skip) == column[skip:]

    def test_a_table_without_the_column_is_named_with_those_it_has(self, tmp_path: Path) -> None:
        source = table_of(tmp_path, ["a"])
        twice = tmp_path / "twice.parquet"
        pq.write_table(pa.table([["a"], ["b"]], names=["isbn", "isbn"]), twice)

        with pytest.raises(InvalidSourceError, match="there are 2 columns 'isbn'; give them different names"):
            count_rows(twice.as_uri(), "isbn")
        for use in (lambda: list(read_rows(source, "ean")), lambda: [count_rows(source, "ean")]):
            with pytest.raises(
                InvalidSourceError, match=f"source {source}: there is no column 'ean', but 'id', 'isbn'"
            ):
                use()

    @pytest.mark.parametrize("content", [b"", b"isbn\na\n", b"PAR1" + b"x" * 99])
    def test_a_file_that_is_something_else_is_named(self, tmp_path: Path, content: bytes) -> None:
        with pytest.raises(InvalidSourceError, match=r"s\.parquet: it is no whole Parquet file"):
            list(read_rows(file_of(tmp_path, "s.parquet", content), "isbn"))

    def test_without_pyarrow_the_error_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = table_of(tmp_path, ["a"])
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(PermanentError, match=r"airflow-provider-mediaops\[parquet\]"):
            list(read_rows(source, "isbn"))


class TestVersion:
    def test_it_stays_while_the_file_does(self, tmp_path: Path) -> None:
        source = file_of(tmp_path, "s.txt", "a")

        assert version_of(source) == version_of(source)

    def test_another_size_or_time_is_another_version(self, tmp_path: Path) -> None:
        source = file_of(tmp_path, "s.txt", "a")
        versions = [version_of(source)]
        (tmp_path / "s.txt").write_text("ab")
        versions.append(version_of(source))
        os.utime(tmp_path / "s.txt", ns=(1, 1))
        versions.append(version_of(source))

        assert len(set(versions)) == 3

    def test_what_a_client_remembers_does_not_count(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        tags = {"known": "old", "true": "new"}
        monkeypatch.setattr(store, "info", lambda _: {"size": 1, "ETag": tags["known"]})
        monkeypatch.setattr(store, "invalidate_cache", lambda: tags.update(known=tags["true"]))
        now = version_of("memory://shelf@bucket/s.txt")

        tags["true"] = "newer"
        assert version_of("memory://shelf@bucket/s.txt") != now

    def test_the_tag_of_a_store_counts_before_its_time(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        store.pipe_file("/bucket/s.txt", b"a")
        known = json.loads('{"size": 1, "ETag": "one", "LastModified": "monday"}')
        monkeypatch.setattr(store, "info", lambda _: known)
        first = version_of("memory://shelf@bucket/s.txt")

        known["LastModified"] = "tuesday"
        assert version_of("memory://shelf@bucket/s.txt") == first
        known["ETag"] = "two"
        assert version_of("memory://shelf@bucket/s.txt") != first
