"""Lists with rows or lines that cannot be read, and files that are something else."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.storage import source_lines
from airflow_provider_mediaops.storage.source_file import LIST, InvalidSourceError, ReadOptions, SourceFile, SourceRow
from airflow_provider_mediaops.storage.source_list import ListSource
from airflow_provider_mediaops.storage.sources import rows_of
from tests.unit.storage.source_files import GZIPPED, count_rows, file_of, read_rows, texts

if TYPE_CHECKING:
    from pathlib import Path


class TestRowsThatCannotBeRead:
    @pytest.mark.parametrize(
        ("name", "content", "row"),
        [
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
                b'{"isbn":"a"}\n{"isbn":"b"}\n[1,2]\n{"isbn":"d"}\n',
                SourceRow("[1, 2]", "Line 3: it has 2 values without names."),
            ),
            ("s.jsonl", b'{"isbn":"a"}\n{"isbn":"b"}\n{"id":1}\n{"isbn":"d"}\n', SourceRow("")),
            (
                "s.csv",
                b"n,isbn\n,a\n,b\n1,2,3\n,d\n",
                SourceRow(
                    "2",
                    "Line 4: it has 3 cells, but the header names 2 columns, so which is which is not known.",
                ),
            ),
        ],
    )
    def test_one_bad_row_is_a_row_with_its_line_and_spoils_no_other(
        self, tmp_path: Path, name: str, content: bytes, row: SourceRow
    ) -> None:
        source = file_of(tmp_path, name, content)

        assert list(read_rows(source, "isbn")) == [SourceRow("a"), SourceRow("b"), row, SourceRow("d")]
        assert count_rows(source, "isbn") == 4

    def test_row_that_is_nested_too_deep_spoils_no_other(self, tmp_path: Path) -> None:
        deep = f'{{"isbn":{"[" * 100_000}{"]" * 100_000}}}'
        rows = list(read_rows(file_of(tmp_path, "s.jsonl", f'{{"isbn":"a"}}\n{deep}\n{{"isbn":"b"}}\n'), "isbn"))

        assert [row.text for row in rows] == ["a", deep, "b"]
        assert str(rows[1].error).startswith("Line 2: it is no JSON (")

    @pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
    def test_row_that_is_nested_as_deep_as_may_be_is_kept(self, tmp_path: Path, begin: str, end: str) -> None:
        row = f'{{"isbn":"a","x":{begin * 690}1{end * 690}}}'

        [found] = read_rows(file_of(tmp_path, "s.jsonl", row), "isbn", keep=True)

        assert (found.text, found.error) == ("a", None)
        assert json.dumps(found.columns, separators=(",", ":")) == f'{{"x":{begin * 690}1{end * 690}}}'

    @pytest.mark.parametrize("levels", [800, 900, 100_000])
    def test_array_with_a_row_that_is_nested_too_deep_is_refused_with_its_line(
        self, tmp_path: Path, levels: int
    ) -> None:
        deep = f'{{"isbn":{"[" * levels}{"]" * levels}}}'

        with pytest.raises(InvalidSourceError, match=r"s\.json, line 3: it is no JSON \(it is nested too deep\)"):
            list(read_rows(file_of(tmp_path, "s.json", f'[\n{{"isbn":"a"}},\n{deep}]'), "isbn"))

    def test_half_of_a_surrogate_pair_in_json_is_kept(self, tmp_path: Path) -> None:
        assert texts(file_of(tmp_path, "s.jsonl", r'{"isbn":"\ud800"}')) == ["\ud800"]


# Within quotes, a row may have many lines.
LONG_ROW = ",".join(f'"{"a" * 99_000}\n"' for _ in range(200))


class TestFilesThatAreSomethingElse:
    def test_a_row_is_as_long_as_a_line_at_the_most(self, tmp_path: Path) -> None:
        long = "a" * 131_072
        assert [row.text for row in read_rows(file_of(tmp_path, "s.csv", f"isbn\n{long}"), "isbn")] == [long]
        with pytest.raises(InvalidSourceError, match=r"s\.csv, line 3: .*a cell has more than 131,072 characters"):
            list(read_rows(file_of(tmp_path, "s.csv", f"isbn\nb\n{long}a"), "isbn"))

        with pytest.raises(InvalidSourceError, match=r"line \d+: the row is longer than 16 MB, so it is no list"):
            list(read_rows(file_of(tmp_path, "long.csv", f"isbn,more\n{LONG_ROW}"), "isbn"))

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("s.csv", "id,ISBN13\n1,a\n", "line 1: there is no column 'isbn', but 'id', 'ISBN13'"),
            ("s.csv", b"x,\xfcber\n", "line 1: there is no column 'isbn', but 'x', '\xfcber'"),
            (
                "s.csv",
                "9780439023481,One\n",
                "line 1: .*, but '9780439023481', 'One'. Its first line is no header: add",
            ),
            (
                "s.csv",
                ",".join("abcdefghijklmnopqrstuvwxyz"),
                "line 1: there is no column 'isbn', but .*'t' and 6 more",
            ),
            ("s.csv", "x" * 9_999, f"line 1: there is no column 'isbn', but '{'x' * 39}…'"),
            ("s.csv", "isbn,ean,isbn\na,b,c\n", "line 1: there are 2 columns 'isbn'; give them different names"),
            ("s.csv", 'n,isbn\n,a\n"x,b\n,c\n,d\n', "line 3: it is no CSV .a quote is opened there and never closed"),
            ("s.csv", 'n,isbn\n,a\n,b\n,"', "line 4: it is no CSV .a quote is opened there and never closed"),
            ("s.jsonl", '\n{"id":1}\n', "line 2: there is no column 'isbn', but 'id'"),
            ("s.jsonl", '{"isbn":', "line 1: it is no JSON"),
            ("s.json", '[\n{"isbn": 1},\n{"isbn": 2\n', "line 3: it is no JSON"),
            ("s.json", '[{"isbn": 1},\n', "line 2: it is no JSON .its end is missing"),
            ("s.txt", b"a\0b\n", r"line 1: it is no text \(it holds NUL bytes\)"),
            ("s.csv", "isbn\ra\rb\r", "line 1: its lines end in CR alone, as on old Macs; save it with LF"),
            ("s.txt", "a\rb", "line 1: its lines end in CR alone"),
            ("s.csv", '"isbn","a\rb"\ra,b\r', "line 1: its lines end in CR alone"),
            ("s.jsonl", '{"isbn":1}\r{"isbn":2}\r', "line 1: its lines end in CR alone"),
            ("s.csv", "\ufeffisbn\na\n\ud800".encode("utf-16-le", "surrogatepass"), "line 3: it is no text in utf-16"),
            ("s.txt", GZIPPED, "line 1: it is no text but compressed with gzip; let its name end in .gz"),
            ("s.csv", b"%PDF-1.7\n", "line 1: it is no text but a PDF"),
            ("s.csv", b"\n<!DOCTYPE html>\n<p>", "line 1: it is a web page; download the file itself"),
            ("s.csv", b"\xd0\xcf\x11\xe0rest", "line 1: it is no text but a workbook of Excel in its old form"),
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
    def test_file_without_lines_is_not_read_into_memory(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InvalidSourceError, match=r"the next line is longer than 16 MB, so it is no list"):
            count_rows(file_of(tmp_path, name, b"x" * (17 << 20)), "isbn")

    @pytest.mark.parametrize(
        "content",
        [b"plain\n", GZIPPED[:-9], GZIPPED[:10] + b"\xff" * 9, GZIPPED[:5]],
        ids=["plain", "cut", "overwritten", "cut in its head"],
    )
    def test_a_damaged_gzip_file_is_named(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(content)

        with pytest.raises(InvalidSourceError, match=r"s\.txt\.gz.*: it is no whole gzip file"):
            list(read_rows((tmp_path / "s.txt.gz").as_uri(), "isbn"))

    def test_a_parquet_file_with_a_damaged_name_of_a_column_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "s.parquet"
        pq.write_table(pa.table({"isbn": ["9780131103627"], "pages": ["9"]}), file, store_schema=False)
        file.write_bytes(file.read_bytes().replace(b"pages", b"page\xff"))

        with pytest.raises(InvalidSourceError, match=r"s\.parquet: it is no whole Parquet file \('utf-8' codec"):
            list(read_rows(file.as_uri(), "isbn"))

    @pytest.mark.parametrize("name", ["s.txt", "s.parquet", "s.xlsx"])
    def test_a_missing_file_is_named(self, tmp_path: Path, name: str) -> None:
        source = (tmp_path / name).as_uri()
        for use in (lambda: list(read_rows(source, "isbn")), lambda: ListSource([source]).version()):
            with pytest.raises(FileNotFoundError, match=rf"source {source} cannot be read: No such file"):
                use()

    @pytest.mark.usefixtures("store")
    def test_a_missing_object_is_named(self) -> None:
        with pytest.raises(FileNotFoundError, match=r"bucket/s\.txt cannot be read: there is no such file"):
            list(read_rows("memory://shelf@bucket/s.txt", "isbn"))

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("s.xls", "is in the old form of Excel; save it as .xlsx or as .csv"),
            ("s.zip", "is an archive; unpack it first"),
            ("s.txt.bz2", "is compressed with bzip2; unpack it"),
            *(
                (name, r"ends in none of \.txt, .*\(each also with \.gz\), \.parquet and \.xlsx")
                for name in ("s", "txt")
            ),
        ],
    )
    def test_an_unknown_suffix_is_refused_before_the_file_is_looked_at(self, source: str, message: str) -> None:
        with pytest.raises(InvalidSourceError, match=message):
            ListSource([source]).files()


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
        list(rows_of(SourceFile(path, format, LIST, ReadOptions(["isbn"]))))

    assert "hush-hush" not in str(raised.value)
