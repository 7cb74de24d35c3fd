from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FlatView, write_table
from airflow_provider_mediaops.storage.ownership import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from tests.unit.storage.conftest import Store

FORMATS = ("jsonl", "csv", "parquet")
SCHEMA = {"name": "string", "pages": "int64", "price": "double"}


def flatten(record: Mapping[str, Any]) -> dict[str, object]:
    return {name: record.get(name) for name in SCHEMA}


OWNER = Owner("dag/run/task/-1", "parameters")
VIEW = FlatView(columns={"name": str, "pages": int, "price": float}, flatten=flatten)


def write(destination: str | Path | ObjectStoragePath, *pages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    target = str(destination) if isinstance(destination, Path) else destination
    with Dataset(target, view=VIEW, **options).staging(OWNER) as staging:
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


def test_json_lines_keep_half_a_surrogate_pair_as_an_escape(tmp_path: Path) -> None:
    record = {"name": "a\ud800Ä"}
    with Dataset(str(tmp_path / "d.jsonl"), view=VIEW).staging(OWNER) as staging:
        staging.commit([record], None)
        assert list(staging.records()) == [record]

    assert (tmp_path / "d.jsonl").read_bytes() == b'{"name":"a\\ud800\xc3\x84"}\n'


def test_number_that_json_does_not_have_is_null(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"price": float("nan"), "pages": None},
        {"price": float("-inf")},
        {"name": "NaN", "price": None},
        {"name": "half a pair \ud800", "price": float("nan")},
    ]
    write(tmp_path / "d.jsonl", records)

    lines = (tmp_path / "d.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [
        '{"price":null,"pages":null}',
        '{"price":null}',
        '{"name":"NaN","price":null}',
        '{"name":"half a pair \\ud800","price":null}',
    ]


CELLS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.mark.parametrize("csv_formulas", ["keep", "escape"])
@given(cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
@example(cells=[("a\rb", "\r"), ("\r\n", "\n"), ('"', ",")])
@example(cells=[("=1+1", "-1"), ("\t=1", "\r=1"), ("\uff1d1", "@x")])
def test_csv_gives_back_the_cells_whatever_text_they_hold(
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[tuple[str | None, str | None]],
    csv_formulas: CsvFormulas,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "d.csv"
    view = FlatView(columns={"a": str, "b": str}, flatten=lambda record: record)
    write_table("csv", path, view, [{"a": a, "b": b} for a, b in cells], csv_formulas)

    def expected(cell: str | None) -> str:
        is_formula = csv_formulas == "escape" and (cell or "").startswith(tuple("=+-@\t\r\n＝＋－＠"))  # noqa: RUF001
        return f"'{cell}" if is_formula else cell or ""

    assert csv_rows(path) == [["a", "b"], *([expected(a), expected(b)] for a, b in cells)]
    # The same by a reader that ends a line at any line break.
    with path.open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + len(cells)


def test_a_row_of_one_empty_cell_is_no_empty_line(tmp_path: Path) -> None:
    view = FlatView(columns={"a": str}, flatten=lambda record: record)
    write_table("csv", tmp_path / "d.csv", view, [{"a": None}, {"a": ""}, {"a": "b"}])

    assert csv_rows(tmp_path / "d.csv") == [["a"], [""], [""], ["b"]]


VALUES = {"t": CELLS, "n": st.none() | st.integers(), "x": st.none() | st.floats(), "f": st.none() | st.booleans()}


@given(records=st.lists(st.fixed_dictionaries(VALUES), max_size=5))
def test_csv_is_written_as_the_writer_of_python_does(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, str | int | float | None]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "d.csv"
    view = FlatView(columns={"t": str, "n": int, "x": float, "f": bool}, flatten=lambda record: record)
    write_table("csv", path, view, records)

    def line(row: Sequence[object]) -> str:
        file = io.StringIO(newline="")
        # Below Python 3.13 the writer quotes only those of the two that end its lines.
        csv.writer(file, lineterminator="\r\n").writerow(row)
        return f"{file.getvalue()[:-2]}\n"

    words = {None: None, False: "false", True: "true"}
    rows = [line([*row[:3], words[row[3]]]) for row in zip(*view.cells(records), strict=True)]
    assert path.read_bytes().decode() == "".join([line(list(view.columns)), *rows])


# What no column takes as it is, beside what all of them do.
ODD_TEXTS = ("", "a", "a\0b", "\ud800", "\U0001f600", "\u2028", '"', ",", "\r", "\n", " ", "=1", "12", "1.5", "1e999")
ODD_NUMBERS = (True, False, 0, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e16, float("nan"), -math.inf)
ODD = st.sampled_from([*ODD_TEXTS, *ODD_NUMBERS, None, [], ["a", 1], {"a": None}])


@pytest.mark.parametrize("csv_formulas", ["keep", "escape"])
@given(records=st.lists(st.dictionaries(st.sampled_from([*VALUES, "other"]), ODD), max_size=8))
# A block of rows is full, and the next one holds what is not plain.
@example(records=[{"t": f"plain {number}"} for number in range(150)] + [{"t": 'a\0"', "n": "7", "f": 1}, {}])
def test_a_row_is_the_same_whatever_rows_are_around_it(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], csv_formulas: CsvFormulas
) -> None:
    folder = tmp_path_factory.mktemp("table")
    view = FlatView(columns={"t": str, "n": int, "x": float, "f": bool}, flatten=lambda record: record)

    def csv_of(some: list[dict[str, Any]]) -> tuple[bytes, bytes, bytes]:
        write_table("csv", folder / "d.csv", view, some, csv_formulas)
        return (folder / "d.csv").read_bytes().partition(b"\n")

    def parquet_of(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
        write_table("parquet", folder / "d.parquet", view, some)
        rows: list[dict[str, Any]] = pq.read_table(folder / "d.parquet").to_pylist()
        return rows

    assert csv_of(records)[2] == b"".join(csv_of([record])[2] for record in records)
    assert repr(parquet_of(records)) == repr([row for record in records for row in parquet_of([record])])


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


def test_an_unknown_way_with_formulas_is_refused() -> None:
    with pytest.raises(ValueError, match="csv_formulas is keep or escape; not 'drop'"):
        Dataset("d.csv", view=VIEW, csv_formulas="drop")  # type: ignore[arg-type]


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


@pytest.mark.parametrize("format_", FORMATS)
def test_a_dataset_goes_to_an_object_store_by_its_connection(tmp_path: Path, store: Store, format_: str) -> None:
    write(tmp_path / f"d.{format_}", [{"name": "a"}])
    write(ObjectStoragePath(f"memory://shelf@bucket/day/d.{format_}"), [{"name": "a"}])
    write(f"memory://shelf@bucket/text.{format_}", [{"name": "a"}])

    names = [f"/bucket/day/d.{format_}", f"/bucket/text.{format_}"]
    assert [name for name in store.names if "/." not in name] == names
    assert {store.cat_file(name) for name in names} == {(tmp_path / f"d.{format_}").read_bytes()}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(PermanentError, match="install this provider's extra 'parquet', or write"):
        write(tmp_path / "d.parquet")

    assert list(tmp_path.iterdir()) == []
