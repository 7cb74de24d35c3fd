"""Lists of every format, the rows and lines of them that cannot be read, and files that are something else."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage import source_file, source_text
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, ReadOptions, SourceFile, SourceRow
from airflow_provider_mediaops.storage.source_list import find_files, read_list, rows_of, version_of

if TYPE_CHECKING:
    from tests.unit.storage.fake_store import FakeStore

GZIPPED = gzip.compress(b"a\n" * 99, mtime=0)


def file_of(tmp_path: Path, name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return (tmp_path / name).as_uri()


def table_of(tmp_path: Path, column: Any, *, a_group: int = 1_000) -> str:
    pq.write_table(pa.table({"id": list(range(len(column))), "isbn": column}), tmp_path / "s.parquet", a_group)
    return (tmp_path / "s.parquet").as_uri()


def read_rows(source: str, column: str | None = "isbn", *, keep: bool = False) -> Iterator[SourceRow]:
    return read_list(find_files([source], ReadOptions(column and [column], keep=keep)))


def texts(source: str) -> list[str]:
    rows = list(read_rows(source))
    assert [row.error for row in rows if row.error] == []
    return [row.text for row in rows]


def digest_of(source: str) -> str:
    return version_of(find_files([source]))


LINES = "\ufeffa\n\n  b \r\nc"
TABLE = '\ufeffid;x, isbn ,note\n1,a,"two\nlines"\n2,,x\n\n3,,\n4,b,n\n'
OBJECTS = '\ufeff{"isbn":"a"}\n\n{"isbn": 9780131103627}\n{"isbn":null}\n{"isbn":9780131103627.0}\n{"isbn":["x"]}\n'


@pytest.mark.parametrize("packed", ["", ".gz", ".GZ"])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("s.txt", LINES, ["a", "b", "c"]),
        ("s.txt", "a\rb\r\rc", ["a", "b", "c"]),
        ("s.csv", '"isbn","a\rb"\ra,b\r"b",\r', ["a", "b"]),
        ("s.jsonl", '{"isbn":"a"}\r{"isbn":2}\r', ["a", "2"]),
        ("s.csv", TABLE, ["a", "", "", "b"]),
        ("s.jsonl", OBJECTS, ["a", "9780131103627", "", "9780131103627", '["x"]']),
    ],
)
def test_each_format_gives_a_text_a_row(
    tmp_path: Path, name: str, content: str, expected: list[str], packed: str
) -> None:
    assert texts(file_of(tmp_path, name + packed, content)) == expected


def test_a_source_on_an_object_store_is_read_by_its_connection(store: FakeStore, tmp_path: Path) -> None:
    store.pipe_file("/bucket/s.txt", b"a\nb\n")
    table_of(tmp_path, ["a", "b"])
    store.pipe_file("/bucket/s.parquet", (tmp_path / "s.parquet").read_bytes())

    assert texts("memory://shelf@bucket/s.txt") == ["a", "b"]
    assert texts("memory://shelf@bucket/s.parquet") == ["a", "b"]


@pytest.mark.parametrize("source", ["day", "day/", "day/part-*", "day/*", "d*"])
def test_folder_and_pattern_on_an_object_store_are_read_by_their_connection(store: FakeStore, source: str) -> None:
    for name, text in (("part-1.csv", "b"), ("part-0.csv", "a"), ("_old.csv", "x"), (".part-0.csv", "x")):
        store.pipe_file(f"/bucket/day/{name}", f"isbn\n{text}\n".encode())

    assert texts(f"memory://shelf@bucket/{source}") == ["a", "b"]


def test_file_on_a_store_is_read_without_a_right_to_list(store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("no right to list")

    store.pipe_file("/bucket/s.txt", b"a\nb\n")
    for method in ("ls", "find", "glob", "isdir"):
        monkeypatch.setattr(store, method, refuse)

    assert texts("memory://shelf@bucket/s.txt") == ["a", "b"]


@pytest.mark.parametrize(
    "rows",
    [[{"isbn": str(number), "t": "é},{" * 40} for number in range(230)], [10**12 + number for number in range(500)]],
    ids=["objects", "numbers"],
)
def test_array_of_json_in_one_line_is_read_in_parts_however_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Any]
) -> None:
    monkeypatch.setattr(source_file, "MAX_LIST_ROW_BYTES", 1_000)
    source = file_of(tmp_path, "s.json", json.dumps(rows, ensure_ascii=False, separators=(",", ":")))

    found = list(read_rows(source, keep=True))

    assert [row.text for row in found] == [str(row["isbn"] if isinstance(row, dict) else row) for row in rows]
    assert all(row.columns == {"t": rows[0]["t"]} for row in found if row.columns)


def test_a_file_is_read_as_its_rows_are_asked_for(tmp_path: Path) -> None:
    rows = read_rows(file_of(tmp_path, "s.csv", b"isbn\n" + b"a\n" * 2_000 + b"x" * 20_000_000))

    assert next(rows).text == "a"


class TestParquet:
    @pytest.mark.parametrize(
        ("column", "expected"),
        [
            (["a", None, "b"], ["a", "", "b"]),
            (pa.array(["a", None, "b"], pa.large_string()), ["a", "", "b"]),
            ([b"a", None, b"b"], ["a", "", "b"]),
            (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
            ([9780131103627, None], ["9780131103627", ""]),
            ([9780131103627.0, None], ["9780131103627", ""]),
            ([Decimal(9780131103627), None], ["9780131103627", ""]),
            ([Decimal("9780131103627.00"), None], ["9780131103627", ""]),
        ],
        ids=["texts", "large texts", "bytes", "dictionary", "integers", "floats", "decimals", "decimals with a point"],
    )
    def test_texts_and_numbers_of_a_column_are_texts(self, tmp_path: Path, column: Any, expected: list[str]) -> None:
        assert texts(table_of(tmp_path, column)) == expected

    @pytest.mark.parametrize(
        ("name", "column", "message"),
        [
            ("isbn", pa.array([b"\xff"]).view(pa.string()), "column 'isbn' .* cannot be read"),
            ("isbn", pa.array([2**62], pa.duration("s")), "column 'isbn' .* cannot be read"),
            (
                "when",
                pa.array([0], pa.timestamp("us", "Nowhere/Never")),
                "Nowhere/Never.* cannot be kept .*keep_columns",
            ),
        ],
        ids=["no UTF-8", "longer than Python has", "unknown time zone"],
    )
    def test_values_that_cannot_be_read_are_named(self, tmp_path: Path, name: str, column: Any, message: str) -> None:
        pq.write_table(pa.table({"isbn": ["a"], name: column}), tmp_path / "s.parquet")

        with pytest.raises(InvalidSourceError, match=message):
            list(read_rows((tmp_path / "s.parquet").as_uri(), keep=True))

    def test_all_groups_of_rows_are_read(self, tmp_path: Path) -> None:
        column = [f"text {number}" for number in range(2_500)]

        assert texts(table_of(tmp_path, column, a_group=1_100)) == column

    def test_column_whose_name_is_the_path_of_a_part_of_another_is_read(self, tmp_path: Path) -> None:
        table = pa.table({"book": [{"isbn": "no", "x": 1}], "book.isbn": ["a"], "book.x": ["kept"]})
        pq.write_table(table, tmp_path / "s.parquet")

        [row] = read_list(find_files([str(tmp_path / "s.parquet")], ReadOptions(["book.isbn"], keep=["book.x"])))

        assert (row.text, dict(row.columns or {})) == ("a", {"book.x": "kept"})

    @pytest.mark.parametrize("damage", ["empty", "another format", "the head alone", "a page", "a column's name"])
    def test_file_that_is_no_whole_table_is_named(self, tmp_path: Path, damage: str) -> None:
        table = pa.table({"isbn": [f"text {number}" for number in range(2_500)], "pages": ["9"] * 2_500})
        pq.write_table(table, tmp_path / "s.parquet", compression="zstd", use_dictionary=False, store_schema=False)
        whole = (tmp_path / "s.parquet").read_bytes()
        content = {
            "empty": b"",
            "another format": b"isbn\na\n",
            "the head alone": whole[:99],
            "a page": whole[:1_000] + b"\xff" * 1_000 + whole[2_000:],
            "a column's name": whole.replace(b"pages", b"page\xff"),
        }[damage]

        with pytest.raises(InvalidSourceError, match=r"s\.parquet: it is not a whole Parquet file"):
            texts(file_of(tmp_path, "s.parquet", content))

    def test_without_pyarrow_the_error_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = table_of(tmp_path, ["a"])
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(PermanentError, match="extra 'parquet'"):
            list(read_rows(source))


class TestVersion:
    def test_version_stays_until_the_size_or_the_time_changes(self, tmp_path: Path) -> None:
        source = file_of(tmp_path, "s.txt", "a")
        versions = [digest_of(source), digest_of(source)]
        (tmp_path / "s.txt").write_text("ab")
        versions.append(digest_of(source))
        os.utime(tmp_path / "s.txt", ns=(1, 1))
        versions.append(digest_of(source))

        assert [versions.index(each) for each in versions] == [0, 0, 2, 3]

    def test_memory_of_a_client_does_not_count(self, store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
        tags = {"known": "old", "true": "new"}
        monkeypatch.setattr(store, "info", lambda _: {"type": "file", "size": 1, "ETag": tags["known"]})
        monkeypatch.setattr(store, "invalidate_cache", lambda: tags.update(known=tags["true"]))
        now = digest_of("memory://shelf@bucket/s.txt")

        tags["true"] = "newer"
        assert digest_of("memory://shelf@bucket/s.txt") != now

    def test_the_tag_of_a_store_counts_before_its_time(self, store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
        known: dict[str, Any] = {"type": "file", "size": 1, "ETag": "one", "LastModified": "monday"}
        monkeypatch.setattr(store, "info", lambda _: known)
        first = digest_of("memory://shelf@bucket/s.txt")

        known["LastModified"] = "tuesday"
        assert digest_of("memory://shelf@bucket/s.txt") == first
        known["ETag"] = "two"
        assert digest_of("memory://shelf@bucket/s.txt") != first


class TestGzip:
    def test_members_and_padding_are_one_text(self, tmp_path: Path) -> None:
        data = gzip.compress(b"a\nb") + b"\0" * 20_000 + gzip.compress(b"") + gzip.compress(b"\nc\n") + b"\0"
        (tmp_path / "s.txt.gz").write_bytes(data)

        assert texts((tmp_path / "s.txt.gz").as_uri()) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        "data",
        [b"plain\n", GZIPPED + b"text", GZIPPED[:-1], GZIPPED[:5], GZIPPED[:10] + b"\xff" * 9],
        ids=["no gzip", "text after it", "cut", "cut in its head", "overwritten"],
    )
    def test_anything_else_is_refused(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(data)

        with pytest.raises(InvalidSourceError, match=r"s\.txt\.gz.*: it is not a whole gzip file"):
            texts((tmp_path / "s.txt.gz").as_uri())


class TestRowsThatCannotBeRead:
    @pytest.mark.parametrize(
        ("name", "content", "text", "error"),
        [
            (
                "s.csv",
                b"n,isbn\n,a\n,b\n1\n,d\n",
                "",
                "Line 4: it has 1 of 2 columns, and 'isbn' is not among them.",
            ),
            (
                "s.jsonl",
                b'{"isbn":"a"}\n{"isbn":"b"}\n{"isbn":\n{"isbn":"d"}\n',
                '{"isbn":',
                "Line 3: it is not valid JSON (Expecting value).",
            ),
            (
                "s.jsonl",
                b'{"isbn":"a"}\n{"isbn":"b"}\n[1,2]\n{"isbn":"d"}\n',
                "[1, 2]",
                "Line 3: it has 2 values without names.",
            ),
            ("s.jsonl", b'{"isbn":"a"}\n{"isbn":"b"}\n{"id":1}\n{"isbn":"d"}\n', "", None),
            (
                "s.csv",
                # Spark's escape would make no table of it either.
                b'n,isbn\n"C:\\",a\n,b\n1,2,3\n,d\n',
                "2",
                "Line 4: it has 3 cells, but the header names 2 columns, so which is which is not known.",
            ),
        ],
    )
    def test_one_bad_row_is_a_row_with_its_line_and_spoils_no_other(
        self, tmp_path: Path, name: str, content: bytes, text: str, error: str | None
    ) -> None:
        rows = list(read_rows(file_of(tmp_path, name, content)))

        assert [(row.text, row.error) for row in rows] == [("a", None), ("b", None), (text, error), ("d", None)]

    def test_row_that_is_nested_too_deep_spoils_no_other(self, tmp_path: Path) -> None:
        deep = f'{{"isbn":{"[" * 100_000}{"]" * 100_000}}}'
        rows = list(read_rows(file_of(tmp_path, "s.jsonl", f'{{"isbn":"a"}}\n{deep}\n{{"isbn":"b"}}\n')))

        assert [row.text for row in rows] == ["a", deep, "b"]
        assert str(rows[1].error).startswith("Line 2: it is not valid JSON (")

    @pytest.mark.parametrize(
        ("value", "why"),
        [("[" * 100_000 + "]" * 100_000, "it is nested too deep"), ("9" * 5_000, "Exceeds the limit .4300.*")],
        ids=["deep", "a number of 5,000 digits"],
    )
    def test_array_with_a_row_that_cannot_be_read_is_refused_with_its_line_and_why(
        self, tmp_path: Path, value: str, why: str
    ) -> None:
        row = f'{{"isbn":{value}}}'

        with pytest.raises(InvalidSourceError, match=rf"s\.json, line 3: it is not valid JSON \({why}\)"):
            list(read_rows(file_of(tmp_path, "s.json", f'[\n{{"isbn":"a"}},\n{row}]')))

    def test_half_of_a_surrogate_pair_in_json_is_kept(self, tmp_path: Path) -> None:
        assert texts(file_of(tmp_path, "s.jsonl", r'{"isbn":"\ud800"}')) == ["\ud800"]


class TestFilesThatAreSomethingElse:
    def test_cell_is_as_long_as_it_may_be_at_the_most(self, tmp_path: Path) -> None:
        long = "a" * 131_072
        assert [row.text for row in read_rows(file_of(tmp_path, "s.csv", f"isbn\n{long}"))] == [long]
        with pytest.raises(InvalidSourceError, match=r"s\.csv, line 3: .*a cell has more than 131,072 characters"):
            list(read_rows(file_of(tmp_path, "s.csv", f"isbn\nb\n{long}a")))

    @pytest.mark.parametrize(
        ("name", "content", "what"),
        [
            ("s.txt", "x" * (2 << 20), "line"),
            ("s.csv.gz", "x" * (2 << 20), "line"),
            ("s.jsonl", "x" * (2 << 20), "line"),
            ("s.json", "[" + '{"isbn": "' + "x" * (3 << 20), "value"),
            # Within quotes, a row may have many lines.
            ("s.csv", "isbn,more\n" + ",".join([f'"{"a" * 99_000}\n"'] * 20), "row"),
        ],
    )
    def test_row_that_would_fill_the_memory_is_refused_before_its_end_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, what: str
    ) -> None:
        monkeypatch.setattr(source_file, "MAX_LIST_ROW_BYTES", 1 << 20)

        with pytest.raises(
            InvalidSourceError, match=rf"line \d+: the {what} is longer than 1 MB, so it is not a row of"
        ):
            texts(file_of(tmp_path, name, content))

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("s.csv", "id,ISBN13\n1,a\n", "line 1: there is no column 'isbn', but 'id', 'ISBN13'"),
            ("s.csv", b"x,\xfcber\n", "line 1: there is no column 'isbn', but 'x', '\xfcber'"),
            (
                "s.csv",
                "9780439023481,One\n",
                "line 1: .*, but '9780439023481', 'One'. Its first line is not a header: add",
            ),
            ("s.csv", "x" * 9_999, f"line 1: there is no column 'isbn', but '{'x' * 399}…"),
            ("s.csv", "isbn,ean,isbn\na,b,c\n", "line 1: there are 2 columns 'isbn'; give them different names"),
            (
                "s.csv",
                'n,isbn\n,a\n"x,b\n,c\n,d\n',
                "line 3: it is not valid CSV .a quote is opened there and never closed",
            ),
            ("s.csv", 'n,isbn\n,a\n,b\n,"', "line 4: it is not valid CSV .a quote is opened there and never closed"),
            ("s.jsonl", '\n{"id":1}\n', "line 2: there is no column 'isbn', but 'id'"),
            ("s.jsonl", '{"isbn":', "line 1: it is not valid JSON"),
            ("s.json", '[\n{"isbn": 1},\n{"isbn": 2\n', "line 3: it is not valid JSON"),
            ("s.json", '[{"isbn": 1},\n', "line 2: it is not valid JSON .its end is missing"),
            ("s.txt", b"a\0b\n", r"line 1: it is not text \(it holds NUL bytes\)"),
            ("s.csv", "\ufeffisbn\na\n\ud800".encode("utf-16-le", "surrogatepass"), "line 3: it is not text in utf-16"),
            ("s.txt", GZIPPED, "line 1: it is not text but compressed with gzip"),
            ("s.csv", b"%PDF-1.7\n", "line 1: it is not text but a PDF"),
            ("s.csv", b"\n<!DOCTYPE html>\n<p>", "line 1: it is a web page; perhaps that of a login"),
            ("s.csv", b"\xd0\xcf\x11\xe0rest", "line 1: it is not text but a workbook of Excel in its old form"),
            ("s.csv", b"PK\x03\x04rest", "line 1: it is not text but a ZIP archive, or a workbook"),
            ("s.txt", b"PAR1rest", "line 1: it is not text but Parquet"),
        ],
    )
    def test_a_file_that_is_something_else_is_named_with_what_it_is(
        self, tmp_path: Path, name: str, content: str | bytes, message: str
    ) -> None:
        source = file_of(tmp_path, name, content)

        with pytest.raises(InvalidSourceError, match=f"source {source}, {message}"):
            list(read_rows(source))

    @pytest.mark.parametrize("name", ["s.csv", "s.csv.gz"])
    def test_an_empty_table_is_named(self, tmp_path: Path, name: str) -> None:
        source = file_of(tmp_path, name, "")

        with pytest.raises(InvalidSourceError, match=f"source {source}: it is empty, without even a first line"):
            texts(source)

    @pytest.mark.usefixtures("store")
    @pytest.mark.parametrize("name", ["s.txt", "s.parquet", "s.xlsx", "memory://shelf@bucket/s.txt"])
    def test_missing_file_is_named(self, tmp_path: Path, name: str) -> None:
        source = name if ":" in name else (tmp_path / name).as_uri()
        for use in (lambda: list(read_rows(source, "isbn")), lambda: digest_of(source)):
            with pytest.raises(FileNotFoundError, match=rf"source {source} cannot be read: (No|there is no) such file"):
                use()

    @pytest.mark.parametrize("source", ["s.xls", "s.zip", "s.txt.bz2", "s", "txt"])
    def test_an_unknown_suffix_is_refused_before_the_file_is_looked_at(self, source: str) -> None:
        known = r"ends in none of \.txt, .*\(each also with \.gz\), \.parquet and \.xlsx: save or unpack the list"
        with pytest.raises(InvalidSourceError, match=known):
            find_files([source])


# 64 kB of gzip hold 64 million empty lines: none of them is a row, and reading them takes time.
@pytest.mark.parametrize(
    ("name", "head", "blank"),
    [
        *(("s.txt", b"a\n", f"{blank}\n".encode()) for blank in ("", " \t\r", "\xa0", "\u3000")),
        ("s.csv.gz", b"isbn\na\n", b"\n"),
        ("s.jsonl", b'{"isbn":"a"}\n', b"\n"),
    ],
)
def test_more_empty_lines_than_may_follow_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes, blank: bytes
) -> None:
    monkeypatch.setattr(source_text, "_BLANK_LINES", 100)
    row = head.splitlines(keepends=True)[-1]
    assert texts(file_of(tmp_path, name, head + (blank * 100 + row) * 3)) == ["a"] * 4
    source = file_of(tmp_path, name, head + blank * 101)

    with pytest.raises(InvalidSourceError, match="101 lines up to here are empty, so it is not a list"):
        texts(source)


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("csv", b"a,b\n1,2\n"),
        ("json", b"{"),
        ("jsonl", b"PK\3\4"),
        ("parquet", b"PAR1"),
        ("txt", b"a\0b\n"),
        ("xlsx", b"PK\3\4"),
    ],
)
def test_error_of_a_list_does_not_show_the_signature_in_its_path(tmp_path: Path, format: str, content: bytes) -> None:
    path = unquote(file_of(tmp_path, f"list.{format}?signature=hush-hush", content))

    with pytest.raises(InvalidSourceError, match=rf"/list\.{format}[,: ]") as raised:
        list(rows_of(SourceFile(path, format, ReadOptions(["isbn"]))))

    assert "hush-hush" not in str(raised.value)
