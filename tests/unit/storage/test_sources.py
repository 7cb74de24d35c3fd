from __future__ import annotations

import gzip
import json
import os
import sys
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.storage.source_columns import places_of, read_keep
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, SourceRow
from airflow_provider_mediaops.storage.source_list import ListSource
from tests.unit.storage.source_files import GZIPPED, count_rows, file_of, read_rows, table_of, texts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.storage.conftest import Store


def version_of(source: str) -> str:
    return ListSource([source]).version()


LINES = "a\n\n  b \r\nc"


TABLE = 'id;x,isbn,note\n1,a,"two\nlines"\n2,,x\n\n3,,\n4,b,n\n'


OBJECTS = '{"isbn":"a"}\n\n{"isbn": 9780131103627}\n{"isbn":null}\n{"isbn":9780131103627.0}\n{"isbn":["x"]}\n'


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


@pytest.mark.parametrize("source", ["day", "day/", "day/part-*", "d*"])
def test_folder_and_pattern_on_an_object_store_are_read_by_their_connection(store: Store, source: str) -> None:
    for name, text in (("part-1.csv", "b"), ("part-0.csv", "a"), ("_SUCCESS", "x"), (".part-0.csv.crc", "x")):
        store.pipe_file(f"/bucket/day/{name}", f"isbn\n{text}\n".encode())

    assert texts(f"memory://shelf@bucket/{source}") == ["a", "b"]


def test_file_on_a_store_is_read_without_a_right_to_list(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("no right to list")

    store.pipe_file("/bucket/s.txt", b"a\nb\n")
    for method in ("ls", "find", "glob", "isdir"):
        monkeypatch.setattr(store, method, refuse)

    assert texts("memory://shelf@bucket/s.txt") == ["a", "b"]


def test_array_of_json_in_one_line_is_read_in_parts_however_long(tmp_path: Path) -> None:
    rows = [{"isbn": str(number), "t": "é},{" * 20_000} for number in range(230)]
    source = file_of(tmp_path, "s.json", json.dumps(rows, ensure_ascii=False, separators=(",", ":")))

    found = list(read_rows(source, keep=True))

    assert [row.text for row in found] == [row["isbn"] for row in rows]
    assert {row.columns["t"] for row in found if row.columns} == {rows[0]["t"]}


def test_a_file_is_read_as_its_rows_are_asked_for(tmp_path: Path) -> None:
    rows = read_rows(file_of(tmp_path, "s.csv", b"isbn\n" + b"a\n" * 2_000 + b"x" * 20_000_000), "isbn")

    assert next(rows) == SourceRow("a")


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
    for read in (
        lambda: next(read_rows(source, "isbn")),
        lambda: count_rows(source, "isbn"),
        lambda: version_of(source),
    ):
        with pytest.raises(InvalidArgumentError, match="is no path of a file"):
            read()


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

    @pytest.mark.parametrize(
        "column",
        [pa.array([b"\xff"]).view(pa.string()), pa.array([2**62], pa.duration("s"))],
        ids=["no UTF-8", "longer than Python has"],
    )
    def test_values_that_cannot_be_read_are_named(self, tmp_path: Path, column: Any) -> None:
        pq.write_table(pa.table({"isbn": column}), tmp_path / "s.parquet")

        with pytest.raises(InvalidSourceError, match=r"s\.parquet: column 'isbn' has values of type .* cannot be read"):
            list(read_rows((tmp_path / "s.parquet").as_uri(), "isbn"))

    def test_a_time_zone_that_is_not_known_is_named(self, tmp_path: Path) -> None:
        times = pa.array([0], pa.timestamp("us", "Nowhere/Never"))
        pq.write_table(pa.table({"isbn": ["a"], "when": times}), tmp_path / "s.parquet")

        with pytest.raises(InvalidSourceError, match=r"column 'when' .*Nowhere/Never.* cannot be kept .* keep_columns"):
            list(read_rows((tmp_path / "s.parquet").as_uri(), "isbn", keep=True))

    def test_all_groups_of_rows_are_read(self, tmp_path: Path) -> None:
        column = [f"text {number}" for number in range(2_500)]
        source = table_of(tmp_path, column, a_group=1_100)

        assert count_rows(source, "isbn") == 2_500
        assert texts(source) == column

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

        with pytest.raises(PermanentError, match="extra 'parquet'"):
            list(read_rows(source, "isbn"))


class TestVersion:
    def test_version_stays_while_the_file_does(self, tmp_path: Path) -> None:
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

    def test_memory_of_a_client_does_not_count(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        tags = {"known": "old", "true": "new"}
        monkeypatch.setattr(store, "info", lambda _: {"type": "file", "size": 1, "ETag": tags["known"]})
        monkeypatch.setattr(store, "invalidate_cache", lambda: tags.update(known=tags["true"]))
        now = version_of("memory://shelf@bucket/s.txt")

        tags["true"] = "newer"
        assert version_of("memory://shelf@bucket/s.txt") != now

    def test_the_tag_of_a_store_counts_before_its_time(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        store.pipe_file("/bucket/s.txt", b"a")
        known = json.loads('{"type": "file", "size": 1, "ETag": "one", "LastModified": "monday"}')
        monkeypatch.setattr(store, "info", lambda _: known)
        first = version_of("memory://shelf@bucket/s.txt")

        known["LastModified"] = "tuesday"
        assert version_of("memory://shelf@bucket/s.txt") == first
        known["ETag"] = "two"
        assert version_of("memory://shelf@bucket/s.txt") != first


def test_columns_that_share_a_name_are_numbered_in_linear_time() -> None:
    began = time.process_time()

    places = places_of(["isbn", *["note"] * 30_000], [0], keep=True)

    assert (places[0], places[-1]) == ((1, "note"), (30_000, "note_30000"))
    # In quadratic time it took more than a minute of the processor.
    assert time.process_time() - began < 30


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


class TestKeep:
    @pytest.mark.parametrize(
        ("value", "keep"),
        [
            (True, True),
            ("false", False),
            (0, False),
            ("a, b", ["a", "b"]),
            (["a,b", " c "], ["a,b", "c"]),
            (("true",), ["true"]),
        ],
    )
    def test_keep_columns_is_a_flag_or_names(self, value: object, keep: object) -> None:
        assert read_keep(value) == keep

    @pytest.mark.parametrize("value", [None, [], "", ["a", ""], 2.5, {"a": 1}, ["a", "a"], [None], "['a']"])
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidArgumentError, match="keep_columns"):
            read_keep(value)
