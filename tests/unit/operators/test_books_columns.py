"""The columns of a source beside that of the ISBNs: kept in every format, over a resume, and in the triggerer."""

from __future__ import annotations

import csv
import gzip
import json
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import QuotaExceededError
from tests.memory_rates import forget_rates
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, book, connection, http, no_such_book, replied
from tests.unit.loopback import Loopback, Peer
from tests.unit.operators.enrichment import address, in_triggerer, json_rows, make
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor

pytestmark = pytest.mark.usefixtures("supervisor")

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="dag", run_id="today", task_id="enrich", map_index=-1, max_tries=2)}
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

    @pytest.mark.parametrize("name", ["list.txt", "list.txt.gz"])
    def test_text_file_adds_no_columns(self, tmp_path: Path, name: str) -> None:
        make(tmp_path / "books.jsonl", source=source_of(tmp_path, name, f"{CRIME}\n")).execute({})

        assert kept_of(tmp_path / "books.jsonl") == ["nothing"]

    def test_list_of_isbns_adds_no_columns(self, tmp_path: Path) -> None:
        make(tmp_path / "books.jsonl", isbns=[CRIME], keep_columns=True).execute({})

        assert kept_of(tmp_path / "books.jsonl") == ["nothing"]

    def test_file_of_one_column_adds_no_columns(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.csv", f"isbn\n{CRIME}\n")
        for file, keep in (("kept.csv", True), ("bare.csv", False), ("kept.jsonl", True), ("bare.jsonl", False)):
            make(tmp_path / file, source=source, keep_columns=keep).execute({})

        assert (tmp_path / "kept.csv").read_bytes() == (tmp_path / "bare.csv").read_bytes()
        assert (tmp_path / "kept.jsonl").read_bytes() == (tmp_path / "bare.jsonl").read_bytes()


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

    @pytest.mark.parametrize(
        ("name", "content"),
        [("list.csv", CSV), ("list.jsonl", f'{{"isbn": "{CRIME}", "sku": 1}}\n{{"isbn": "x", "price": 2}}\n')],
    )
    @pytest.mark.parametrize("destination", ["books.jsonl", "books.csv"])
    def test_kept_column_that_no_row_has_raises_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker, name: str, content: str, destination: str
    ) -> None:
        source = source_of(tmp_path, name, content)

        with pytest.raises(permanent(ValueError), match=r"there is no column 'SKU', but .*'sku', .*'price'"):
            make(tmp_path / destination, source=source, keep_columns=["price", "SKU"]).execute({})

        assert not database.called

    def test_kept_field_that_some_rows_lack_is_empty_there(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.jsonl", f'{{"isbn": "{CRIME}"}}\n{{"isbn": "x", "price": 2}}\n')

        make(tmp_path / "books.jsonl", source=source, keep_columns="price").execute({})

        assert kept_of(tmp_path / "books.jsonl") == [{"price": None}, {"price": 2}]

    def test_table_of_too_many_columns_raises_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        source = source_of(
            tmp_path, "list.jsonl", "".join(f'{{"isbn": "{CRIME}", "key {n}": 1}}\n' for n in range(1_001))
        )

        with pytest.raises(permanent(ValueError), match=r"more than 1,000 columns.*name in keep_columns"):
            make(tmp_path / "books.csv", source=source).execute({})
        assert not database.called

        assert make(tmp_path / "books.jsonl", source=source).execute({})["rows"] == 1_001


class TestOddSources:
    def test_columns_of_a_text_are_refused_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        source = source_of(tmp_path, "list.txt", f"{CRIME}\n")

        with pytest.raises(permanent(ValueError), match=r"keep_columns is .+ has one text a line"):
            make(tmp_path / "books.jsonl", source=source, keep_columns=["sku"]).execute({})
        assert not database.called

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

    def test_names_that_are_missing_or_come_twice(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.csv", f",isbn,note,note,note_2,\n0,{CRIME},a,b,c,\n")

        make(tmp_path / "books.jsonl", source=source).execute({})

        assert kept_of(tmp_path / "books.jsonl") == [{"note": "a", "note_3": "b", "note_2": "c"}]

    def test_parquet_columns_of_one_name(self, tmp_path: Path) -> None:
        arrays = [pa.array([text]) for text in ("first", CRIME, "second", "x")]
        pq.write_table(pa.Table.from_arrays(arrays, names=["n", "isbn", "n", "z"]), tmp_path / "list.parquet")

        make(tmp_path / "books.jsonl", source=str(tmp_path / "list.parquet")).execute({})

        assert kept_of(tmp_path / "books.jsonl") == [{"n": "first", "n_2": "second", "z": "x"}]

    @pytest.mark.parametrize(
        ("name", "content", "kept"),
        [
            ("list.csv", f"isbn,caf\xe9\n{CRIME},\xe9t\xe9\n", {"caf\xe9": "\xe9t\xe9"}),
            ("list.jsonl", f'{{"isbn": "{CRIME}", "n": "\xe9t\xe9"}}\n', {"n": "\xe9t\xe9"}),
        ],
    )
    def test_text_in_the_encoding_of_windows_is_kept_as_its_letters(
        self, tmp_path: Path, name: str, content: str, kept: dict[str, str]
    ) -> None:
        source = source_of(tmp_path, name, content.encode("latin-1"))
        for file in ("books.jsonl", "books.csv"):
            make(tmp_path / file, source=source).execute({})

        assert kept_of(tmp_path / "books.jsonl") == [kept]
        row = cells_of(tmp_path / "books.csv")[0]
        assert {name: row[f"source_{name}"] for name in kept} == kept

    def test_formula_in_a_kept_column_is_escaped(self, tmp_path: Path) -> None:
        source = source_of(tmp_path, "list.csv", f"isbn,note\n{CRIME},=1+1\n")

        make(tmp_path / "books.csv", source=source, csv_formulas="escape").execute({})

        assert cells_of(tmp_path / "books.csv")[0]["source_note"] == "'=1+1"


class TestResuming:
    def stopped(self, file: Path, source: str, database: requests_mock.Mocker, **arguments: Any) -> None:
        database.get(address(PROGRAMMING), status_code=429, json={"message": "Daily quota exceeded"})
        with pytest.raises(QuotaExceededError):
            make(file, source=source, **arguments).execute(CONTEXT)
        forget_rates()
        database.get(address(PROGRAMMING), json=book(PROGRAMMING))
        database.reset_mock()

    @pytest.mark.parametrize("destination", ["books.jsonl", "books.csv"])
    @pytest.mark.parametrize("name", ["list.csv", "list.jsonl", "list.csv.gz", "list.parquet"])
    def test_resumed_dataset_with_kept_columns_is_that_of_an_undisturbed_run(
        self, tmp_path: Path, database: requests_mock.Mocker, name: str, destination: str
    ) -> None:
        rows = [{"n": str(n), "isbn": isbn} for n, isbn in enumerate([CRIME, "x", CRIME, PROGRAMMING, CALENDAR])]
        if name.endswith("parquet"):
            pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
            source = str(tmp_path / name)
        elif name.endswith("jsonl"):
            source = source_of(tmp_path, name, "".join(f"{json.dumps(row)}\n" for row in rows))
        else:
            source = source_of(tmp_path, name, "n,isbn\n" + "".join(f"{row['n']},{row['isbn']}\n" for row in rows))
        make(tmp_path / f"whole.{destination}", source=source).execute({})
        self.stopped(tmp_path / destination, source, database)

        summary = make(tmp_path / destination, source=source).execute(CONTEXT)

        assert summary["resumed"]
        assert CRIME not in str([request.url for request in database.request_history])
        assert (tmp_path / destination).read_bytes() == (tmp_path / f"whole.{destination}").read_bytes()

    def test_another_choice_of_columns_starts_anew(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        source = source_of(tmp_path, "list.csv", f"n,isbn\n1,{CRIME}\n2,{PROGRAMMING}\n")
        self.stopped(tmp_path / "books.jsonl", source, database)

        summary = make(tmp_path / "books.jsonl", source=source, keep_columns=False).execute(CONTEXT)

        assert not summary["resumed"]
        assert kept_of(tmp_path / "books.jsonl") == ["nothing", "nothing"]


def shelf(peer: Peer) -> None:
    while request := peer.request():
        isbn13 = request.split()[1].rpartition(b"/")[2].decode()
        peer.send(http(no_such_book() if isbn13 == CALENDAR else replied(book(isbn13))))


@pytest.mark.parametrize(
    ("name", "destination"), [("list.csv", "books.jsonl"), ("list.csv", "books.parquet"), ("list.jsonl", "books.csv")]
)
def test_the_triggerer_writes_the_same_file(
    tmp_path: Path, supervisor: Supervisor, database: requests_mock.Mocker, name: str, destination: str
) -> None:
    database.register_uri("GET", re.compile("//127"), real_http=True)
    content = CSV if name.endswith("csv") else f'{{"isbn": "{CRIME}", "n": [1]}}\n{{"isbn": "{CALENDAR}"}}\n'
    source = source_of(tmp_path, name, content)
    (tmp_path / "triggerer").mkdir()
    files = (tmp_path / destination, tmp_path / "triggerer" / destination)
    with Loopback(shelf) as server:
        supervisor.connect("mediaops_books_default", connection(server.base))
        make(files[0], source=source).execute(CONTEXT)
        in_triggerer(make(files[1], source=source, deferrable=True), CONTEXT)

    assert files[0].read_bytes() == files[1].read_bytes()
