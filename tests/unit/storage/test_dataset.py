"""What a dataset holds: records as they came, tables of them, and records of any length."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage import source_file, source_list
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FORMATS, FlatView, json_line, write_table
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.storage.paths import path_of
from airflow_provider_mediaops.storage.source_file import MAX_DATASET_ROW_BYTES, MAX_RECORD_BYTES

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.formats import CsvFormulas, Format

SCHEMA = {"name": "string", "pages": "int64", "price": "double"}


def flatten(record: Mapping[str, Any]) -> dict[str, object]:
    return {name: record.get(name) for name in SCHEMA}


OWNER = Owner("dag/run/task/-1", "parameters")
VIEW = FlatView(columns={"name": str, "pages": int, "price": float}, flatten=flatten)


def write(destination: Path, *pages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    with Dataset(str(destination), view=VIEW, **options).staging(OWNER) as staging:
        for page in pages:
            staging.commit(page, None)
    return staging.summary


def csv_rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_json_lines_hold_the_records_as_they_came(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"name": "Ä\u2028\n", "unknown": {"deep": [1, None, 2.5]}},
        {"pages": 12345678901234567890},
        {"name": "nul\0", "price": None},
    ]
    assert write(tmp_path / "d.jsonl", records[:2], records[2:])["rows"] == 3

    lines = (tmp_path / "d.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == records
    assert lines[-1] == ""


CELLS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
VALUES = {"t": CELLS, "n": st.none() | st.integers(), "x": st.none() | st.floats(), "f": st.none() | st.booleans()}


@pytest.mark.long
@pytest.mark.parametrize("csv_formulas", ["keep", "escape"])
@given(records=st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=5))
@example(records=[{"t": text} for text in ("a\rb", "\r", "\r\n", "\n", '"', ",", "=1+1", "\t=1", "\uff1d1", "@x")])
def test_csv_gives_back_the_cells_whatever_they_hold(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], csv_formulas: CsvFormulas
) -> None:
    path = tmp_path_factory.mktemp("csv") / "d.csv"
    view = FlatView(columns={"t": str, "n": int, "x": float, "f": bool}, flatten=lambda record: record)
    write_table("csv", path, view, records, csv_formulas)

    def expected(cell: object) -> str:
        if not isinstance(cell, str):
            return {"None": "", "True": "true", "False": "false"}.get(str(cell), str(cell))
        is_formula = csv_formulas == "escape" and cell.startswith(tuple("=+-@\t\r\n＝＋－＠"))  # noqa: RUF001
        return f"'{cell}" if is_formula else cell

    rows = [[expected(cell) for cell in view.row(record)] for record in records]
    assert csv_rows(path) == [list(view.columns), *rows]
    # The same by a reader that ends a line at any line break.
    with path.open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + len(records)


def test_a_row_of_one_empty_cell_is_no_empty_line(tmp_path: Path) -> None:
    view = FlatView(columns={"a": str}, flatten=lambda record: record)
    write_table("csv", tmp_path / "d.csv", view, [{"a": None}, {"a": ""}, {"a": "b"}])

    assert csv_rows(tmp_path / "d.csv") == [["a"], [""], [""], ["b"]]


def test_formulas_are_escaped_in_texts_of_csv_only_and_only_if_asked_for(tmp_path: Path) -> None:
    record = {"name": "=1+1", "pages": -3, "price": -1.5}
    write(tmp_path / "keep.csv", [record])
    write(tmp_path / "escape.csv", [record], csv_formulas="escape")
    write(tmp_path / "d.jsonl", [record], csv_formulas="escape")
    write(tmp_path / "d.parquet", [record], csv_formulas="escape")

    assert csv_rows(tmp_path / "keep.csv")[1] == ["=1+1", "-3", "-1.5"]
    assert csv_rows(tmp_path / "escape.csv")[1] == ["'=1+1", "-3", "-1.5"]
    assert json.loads((tmp_path / "d.jsonl").read_bytes()) == record
    assert pq.read_table(tmp_path / "d.parquet").to_pylist() == [record]


@pytest.mark.parametrize(
    ("value", "name", "pages", "price"),
    [
        (7, "7", 7, 7.0),
        ("7", "7", 7, 7.0),
        (" 7.50 ", " 7.50 ", None, 7.5),
        (2**62 + 1, str(2**62 + 1), 2**62 + 1, float(2**62)),
        (2**63, str(2**63), None, float(2**63)),
        (10**400, str(10**400), None, None),
        ("nan", "nan", None, None),
        ("-inf", "-inf", None, None),
        ("many", "many", None, None),
        ("a\0b", "ab", None, None),
        ("\ud800", "\\ud800", None, None),
        (True, None, None, None),
        (["a"], None, None, None),
        ({"a": 1}, None, None, None),
        (None, None, None, None),
    ],
)
def test_a_value_that_does_not_fit_its_column_leaves_it_empty(
    tmp_path: Path, value: object, name: str | None, pages: int | None, price: float | None
) -> None:
    write(tmp_path / "d.parquet", [dict.fromkeys(SCHEMA, value)])
    write(tmp_path / "d.csv", [dict.fromkeys(SCHEMA, value)])

    assert pq.read_table(tmp_path / "d.parquet").to_pylist() == [{"name": name, "pages": pages, "price": price}]
    texts = ["" if cell is None else str(cell) for cell in (name, pages, price)]
    assert csv_rows(tmp_path / "d.csv")[1] == texts


@pytest.mark.parametrize("format_", FORMATS)
def test_an_empty_dataset_is_a_valid_file(tmp_path: Path, format_: str) -> None:
    path = tmp_path / f"d.{format_}"
    assert write(path)["rows"] == 0

    if format_ == "jsonl":
        assert path.read_bytes() == b""
    elif format_ == "csv":
        assert csv_rows(path) == [list(SCHEMA)]
    else:
        table = pq.read_table(path)
        assert table.num_rows == 0
        assert {field.name: str(field.type) for field in table.schema} == SCHEMA


def test_parquet_gathers_small_pages_into_large_row_groups(tmp_path: Path) -> None:
    write(tmp_path / "d.parquet", *([{"pages": number}] * 50 for number in range(500)))

    file = pq.ParquetFile(tmp_path / "d.parquet")
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    assert groups == [10_000, 10_000, 5_000]
    assert file.read().column("pages").to_pylist() == [number for number in range(500) for _ in range(50)]


@pytest.mark.parametrize(("name", "format_"), [("d.data", "csv"), ("D.CSV", None)])
def test_format_is_the_one_that_is_named_or_that_of_the_suffix(tmp_path: Path, name: str, format_: str | None) -> None:
    write(tmp_path / name, [{"name": "a"}], format=format_)

    assert csv_rows(tmp_path / name) == [["name", "pages", "price"], ["a", "", ""]]


@pytest.mark.parametrize(
    "destination", ["d", "d.json", "d.jsonl/", "d.jsonl.gz", "a.csv/d", "a/csv", "", "s3://bucket/d.xlsx"]
)
def test_an_unknown_suffix_is_refused(destination: str) -> None:
    with pytest.raises(ValueError, match=r"ends in none of \.jsonl, \.csv, \.parquet"):
        Dataset(destination, view=VIEW)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format is one of jsonl, csv, parquet; not 'xlsx'"):
        Dataset("d.csv", view=VIEW, format="xlsx")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(PermanentError, match="install this provider's extra 'parquet', or write"):
        write(tmp_path / "d.parquet")

    assert list(tmp_path.iterdir()) == []


LIMIT = 10_000


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let records have 10,000 bytes, and the rows of datasets what follows from that."""
    factor = MAX_DATASET_ROW_BYTES // MAX_RECORD_BYTES
    monkeypatch.setattr(source_file, "MAX_DATASET_ROW_BYTES", factor * LIMIT)


def longest(value: str | list[Any]) -> dict[str, Any]:
    """Return the longest record of such values that may come."""
    count = (LIMIT - 20) // (len(json_line(value)) + 1)
    while len(json_line({"value": value * (count + 1)})) <= LIMIT:
        count += 1
    return {"value": value * count}


@pytest.mark.long
@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("value", ["x", '"', "\n", '","\n', "\1", "ä", "\ud800", [1e16], ["", '"'], [1]], ids=ascii)
def test_the_longest_record_is_read_again(tmp_path: Path, format_: Format, value: Any) -> None:
    record = longest(value)
    # A field is a column, too, as in the views of the package.
    view = FlatView(
        columns={"value": str, "record": str},
        flatten=lambda record: {"value": "; ".join(map(str, record["value"])), "record": json_line(record).decode()},
    )
    with Dataset(str(tmp_path / "d"), view=view, format=format_).staging(OWNER) as staging:
        staging.commit([record, {"value": "next"}], None)

    read = source_list.read_records(path_of(str(tmp_path / "d")), format_)

    assert list(map(json.loads, read)) == [record, {"value": "next"}]


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_file, "MAX_DATASET_ROW_BYTES", 1 << 20)
    (tmp_path / "d.jsonl").write_bytes(b"x" * (3 << 20))

    with pytest.raises(ValueError, match=r"d\.jsonl, line 1: the line is longer than 1 MB"):
        list(source_list.read_records(path_of(str(tmp_path / "d.jsonl")), "jsonl"))
