"""The columns of a source beside that of the ISBNs: kept in every format, over a resume, and in the triggerer."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.book_database import CALENDAR, CRIME
from tests.unit.operators.enrichment import context, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.forms import in_triggerer
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")

CSV = f"sku,isbn,price,book\na,{CRIME},3.50,x\nb,no ISBN,,y\nc,{CALENDAR},1,\nd,{CRIME},2,z\n"
KEPT = [
    {"sku": "a", "price": "3.50", "book": "x"},
    {"sku": "b", "price": "", "book": "y"},
    {"sku": "c", "price": "1", "book": ""},
    {"sku": "d", "price": "2", "book": "z"},
]


def source_of(folder: Path, name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(folder / name)


def kept_of(file: Path) -> list[Any]:
    return [row.get("source", "nothing") for row in json_rows(file)]


def cells_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


class TestFormats:
    @pytest.mark.parametrize("name", ["list.csv", "list.csv.gz"])
    def test_the_columns_of_csv_are_kept_as_they_are(self, tmp_path: Path, name: str) -> None:
        source = source_of(tmp_path, name, CSV)
        for file in ("books.jsonl", "books.csv", "books.parquet"):
            make(tmp_path / file, source=source).execute({})

        assert kept_of(tmp_path / "books.jsonl") == KEPT
        tables = (cells_of(tmp_path / "books.csv"), pq.read_table(tmp_path / "books.parquet").to_pylist())
        for table in tables:
            assert [{name: row[f"source_{name}"] for name in KEPT[0]} for row in table] == KEPT
            assert [row["status"] for row in table] == ["found", "invalid", "not_found", "found"]
        assert list(tables[0][0])[-4:] == ["reused", "source_sku", "source_price", "source_book"]

    def test_the_fields_of_json_are_kept_with_their_types(self, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [
            {"isbn": CRIME, "tags": ["a", {"b": None}], "n": 3, "ok": True},
            {"isbn": CALENDAR, "later": "é", "n": 1e300},
            {"isbn": int(CRIME)},
        ]
        source = source_of(tmp_path, "list.jsonl", "\n".join(map(json.dumps, rows)) + '\n{"isbn":\n')
        for file in ("books.jsonl", "books.csv"):
            make(tmp_path / file, source=source).execute({})

        wanted: list[Any] = [{name: value for name, value in row.items() if name != "isbn"} for row in rows]
        assert kept_of(tmp_path / "books.jsonl") == [*wanted, {}]
        table = cells_of(tmp_path / "books.csv")
        assert [[row[f"source_{name}"] for name in ("tags", "n", "ok", "later")] for row in table] == [
            ['["a",{"b":null}]', "3", "true", ""],
            ["", "1e+300", "", "é"],
            ["", "", "", ""],
            ["", "", "", ""],
        ]

    def test_the_columns_of_parquet_keep_numbers_as_numbers(self, tmp_path: Path) -> None:
        when = datetime(2026, 11, 22, 10, 30, tzinfo=timezone.utc)
        table = pa.table(
            {
                "sku": ["a", None],
                "price": [3.5, None],
                "isbn": [int(CRIME), int(CALENDAR)],
                "stock": pa.array([2**40, None], pa.int64()),
                "huge": pa.array([2**64 - 1, 0], pa.uint64()),
                "since": pa.array([when, None], pa.timestamp("ns", "UTC")),
                "day": [date(2026, 11, 22), None],
                "cost": pa.array([Decimal("3.50"), None]),
                "raw": [b"\xff\x00a", None],
                "took": pa.array([timedelta(seconds=90), None], pa.duration("ns")),
                "nested": [{"a": [1, None]}, None],
                "open": [True, None],
            }
        )
        pq.write_table(table, tmp_path / "list.parquet")
        for file in ("books.jsonl", "books.parquet"):
            make(tmp_path / file, source=str(tmp_path / "list.parquet")).execute({})

        assert kept_of(tmp_path / "books.jsonl") == [
            {
                "sku": "a",
                "price": 3.5,
                "stock": 2**40,
                "huge": 2**64 - 1,
                "since": "2026-11-22T10:30:00+00:00",
                "day": "2026-11-22",
                "cost": "3.50",
                "raw": "\\xff\0a",
                "took": 90.0,
                "nested": {"a": [1, None]},
                "open": True,
            },
            {**dict.fromkeys(name for name in table.column_names if name != "isbn"), "huge": 0},
        ]
        written = pq.read_table(tmp_path / "books.parquet")
        types = {name: str(written.schema.field(f"source_{name}").type) for name in ("sku", "price", "stock", "huge")}
        assert types == {"sku": "string", "price": "double", "stock": "int64", "huge": "string"}
        first, second = written.to_pylist()
        assert (first["source_stock"], first["source_price"], first["source_huge"]) == (2**40, 3.5, str(2**64 - 1))
        assert (first["source_nested"], first["source_open"]) == ('{"a":[1,null]}', "true")
        assert {value for name, value in second.items() if name.startswith("source_")} == {None, "0"}

    @pytest.mark.parametrize("name", ["list.txt", "list.txt.gz", "list.csv", ""])
    def test_list_without_other_columns_adds_none(self, tmp_path: Path, name: str) -> None:
        content = f"isbn\n{CRIME}\n" if name == "list.csv" else f"{CRIME}\n"
        given: dict[str, Any] = {"source": source_of(tmp_path, name, content)} if name else {"isbns": [CRIME]}
        for file in ("books.jsonl", "books.csv"):
            make(tmp_path / file, **given, keep_columns=True).execute({})

        assert kept_of(tmp_path / "books.jsonl") == ["nothing"]
        assert list(cells_of(tmp_path / "books.csv")[0])[-1] == "reused"


class TestChoice:
    @pytest.mark.parametrize(
        ("keep", "names"),
        [
            (True, ["sku", "price", "book"]),
            ("true", ["sku", "price", "book"]),
            (False, []),
            ("False", []),
            (["price"], ["price"]),
            ("book, sku", ["book", "sku"]),
            (("isbn", "sku"), ["isbn", "sku"]),
        ],
    )
    def test_all_none_or_some_are_kept(self, tmp_path: Path, keep: Any, names: list[str]) -> None:
        source = source_of(tmp_path, "list.csv", CSV)
        for file in ("books.jsonl", "books.csv"):
            make(tmp_path / file, source=source, keep_columns=keep).execute({})

        assert [list(row) if row != "nothing" else [] for row in kept_of(tmp_path / "books.jsonl")] == [names] * 4
        header = list(cells_of(tmp_path / "books.csv")[0])
        assert [name for name in header if name.startswith("source_")] == [f"source_{name}" for name in names]

    def test_column_with_another_isbn_is_kept_beside_that_which_is_called_isbn(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.csv", f"eISBN,ISBN\n{CALENDAR},{CRIME}\n")

        make(tmp_path / "books.jsonl", source=source).execute({})

        assert [(row["input"], row["source"]) for row in json_rows(tmp_path / "books.jsonl")] == [
            (CRIME, {"eISBN": CALENDAR})
        ]

    def test_kept_field_that_some_rows_lack_is_empty_there(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.jsonl", f'{{"isbn": "{CRIME}"}}\n{{"isbn": "x", "price": 2}}\n')

        make(tmp_path / "books.jsonl", source=source, keep_columns="price").execute({})

        assert kept_of(tmp_path / "books.jsonl") == [{"price": None}, {"price": 2}]

    @pytest.mark.long
    def test_table_of_too_many_columns_raises_before_the_first_request(self, tmp_path: Path, database: Mocker) -> None:
        source = source_of(
            tmp_path, "list.jsonl", "".join(f'{{"isbn": "{CRIME}", "key {n}": 1}}\n' for n in range(1_001))
        )

        with pytest.raises(permanent(ValueError), match=r"more than 1,000 columns.*name in keep_columns"):
            make(tmp_path / "books.csv", source=source).execute({})
        assert not database.called

        assert make(tmp_path / "books.jsonl", source=source).execute({})["rows"] == 1_001


class TestOddSources:
    def test_short_rows_lack_cells_and_what_has_no_column_is_left_out(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.csv", f"isbn,sku,price\n{CRIME},a\n{CRIME},b,1,more,and more\n{CRIME}\n")
        for file in ("books.jsonl", "books.csv"):
            make(tmp_path / file, source=source).execute({})

        assert kept_of(tmp_path / "books.jsonl") == [
            {"sku": "a", "price": None},
            # Any of its cells may be that of another column.
            {"sku": None, "price": None},
            {"sku": None, "price": None},
        ]
        rows = cells_of(tmp_path / "books.csv")
        assert [row["source_price"] for row in rows] == ["", "", ""]
        assert (rows[1]["status"], rows[1]["error"][:27]) == ("invalid", "Line 3: it has 5 cells, but")

    def test_columns_of_one_name_are_numbered_and_those_without_one_are_left_out(self, tmp_path: Path) -> None:
        source_of(tmp_path, "list.csv", f",isbn,note,note,note_2,\n0,{CRIME},a,b,c,\n")
        table = pa.Table.from_arrays([pa.array([text]) for text in ("a", CRIME, "b", "c")], ["n", "isbn", "n", "z"])
        pq.write_table(table, tmp_path / "list.parquet")
        for name in ("list.csv", "list.parquet"):
            make(tmp_path / f"{name}.jsonl", source=str(tmp_path / name)).execute({})

        assert kept_of(tmp_path / "list.csv.jsonl") == [{"note": "a", "note_3": "b", "note_2": "c"}]
        assert kept_of(tmp_path / "list.parquet.jsonl") == [{"n": "a", "n_2": "b", "z": "c"}]


@pytest.mark.parametrize(
    ("name", "destination"), [("list.csv", "books.jsonl"), ("list.csv", "books.parquet"), ("list.jsonl", "books.csv")]
)
def test_the_triggerer_writes_the_same_file(tmp_path: Path, name: str, destination: str) -> None:
    content = CSV if name.endswith("csv") else f'{{"isbn": "{CRIME}", "n": [1]}}\n{{"isbn": "{CALENDAR}"}}\n'
    source = source_of(tmp_path, name, content)
    worker, triggerer = tmp_path / destination, tmp_path / "triggerer" / destination

    make(worker, source=source).execute(context())
    in_triggerer(make(triggerer, source=source, deferrable=True), context())

    assert worker.read_bytes() == triggerer.read_bytes()
