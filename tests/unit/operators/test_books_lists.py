"""Lists as shops, catalogues, library systems and data frames export them: each row that holds an ISBN is asked for."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.storage import source_list, source_tables
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, asked
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.enrichment import json_rows, make
from tests.unit.permanent import permanent
from tests.unit.workbooks import workbook

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")

CRIME10, CALENDAR10, PROGRAMMING10 = "0140449132", "0306406152", "0131103628"
BOTH = [CRIME, PROGRAMMING]
GERMAN = f"Titel;ISBN-Nummer;Preis\nÜber Bäume;{CRIME};9,90\nGlück;{PROGRAMMING};1,50\n"
POLISH = f"Tytuł;ISBN\nŻółw;{CRIME}\nŁódź;{PROGRAMMING}\n"
JAPANESE = f"題名,ISBN\nこころ,{CRIME}\n雪国,{PROGRAMMING}\n"
FRENCH = f"sep=;\nTitre;N° ISBN\nÉté;{CRIME}\nÇa;{PROGRAMMING}\n"
SPARK = f'title,isbn,price\n"He said \\"hi, there\\" ok",{CRIME},1\n"5.25\\"",{PROGRAMMING},2\n'
MARC = (
    "biblionumber,020$a\n"
    f'1,"{CRIME} (pbk.) : $9.99"\n'
    f'2,"$a {PROGRAMMING} $q (hardback) $z {CALENDAR}"\n'
    f"3,{CRIME10} (alk. paper)\n"
)
DUMP = '/type/edition\t/books/OL1M\t3\t2020-01-01T00:00:00\t{{"isbn_13": ["{}"]}}\n'


class Export(NamedTuple):
    """
    A file with both books, as a program exports it.

    :param missing: the number of its rows without a text.
    """

    name: str
    content: str | bytes
    missing: int = 0
    arguments: Mapping[str, Any] = MappingProxyType({})


EXPORTS = {
    "Goodreads": Export(
        "l.csv", f'Book Id,ISBN,ISBN13\n1,="{CRIME10}",="{CRIME}"\n2,="",="{PROGRAMMING}"\n3,="",=""\n', missing=1
    ),
    "Goodreads by ISBN13": Export(
        "l.csv", f'ISBN,ISBN13\n="",="{CRIME}"\n="",="{PROGRAMMING}"\n', arguments={"isbn_column": "isbn 13"}
    ),
    "LibraryThing": Export(
        "l.tsv",
        f"Book Id\tTitle\tISBN\n1\tCafé\t[{CRIME10}]\n2\tB\t[]\n3\tC\t[{PROGRAMMING10}]\n".encode("cp1252"),
        missing=1,
    ),
    "StoryGraph": Export("l.csv", f"Title,ISBN/UID\nA,{CRIME}\nB,\nC,{PROGRAMMING}\n", missing=1),
    "Calibre": Export(
        "l.csv",
        f'\ufeffauthors,isbn,identifiers\nA,{CRIME},"x:1"\nB,,"amazon:B00,isbn:{PROGRAMMING}"\n',
        arguments={"isbn_column": ["isbn", "identifiers"]},
    ),
    "Zotero": Export("l.csv", f'"Key","ISBN"\n"K1","{CRIME} {CALENDAR}"\n"K2",""\n"K3","0-13-110362-8"\n', missing=1),
    "BookWyrm": Export(
        "l.csv",
        f"title,isbn_10,isbn_13\nA,{CRIME10},{CRIME}\nB,{PROGRAMMING10},\n",
        arguments={"isbn_column": ["isbn_13", "isbn_10"]},
    ),
    "Koha": Export("l.csv", MARC),
    "Open Library": Export(
        "l.jsonl",
        f'{{"isbn_13": ["{CRIME}"], "isbn_10": ["{CRIME10}"]}}\n{{"isbn_10": ["{PROGRAMMING10}"]}}\n{{"key": 1}}\n',
        missing=1,
    ),
    "Open Library's dump": Export("l.txt.gz", gzip.compress("".join(map(DUMP.format, BOTH)).encode())),
    "Crossref": Export(
        "l.json", json.dumps([{"ISBN": [f"http://id.example/isbn/{CRIME}"]}, {"ISBN": [PROGRAMMING10]}])
    ),
    "Book-Crossing": Export(
        "l.csv", f'"ISBN";"Book-Title"\n"{CRIME10}";"A &amp; B"\n"{PROGRAMMING10}";"Ü"\n'.encode("latin-1")
    ),
    "Excel, German": Export("l.csv", GERMAN.encode("cp1252")),
    "Excel, Polish": Export("l.csv", POLISH.encode("cp1250"), arguments={"encoding": "cp1250"}),
    "Excel, Japanese": Export("l.csv", JAPANESE.encode("shift_jis"), arguments={"encoding": "shift_jis"}),
    "Excel, French": Export("l.csv", FRENCH.encode("utf-8-sig")),
    "Excel, Unicode text": Export("l.txt", "\ufeffTitle\tISBN\nÜ\t{}\nB\t{}\n".format(*BOTH).encode("utf-16-le")),
    "pandas": Export("l.csv", f",isbn,title\n0,{CRIME}.0,A\n1,,B\n2,nan,C\n3,{PROGRAMMING}.0,D\n", missing=2),
    "pandas, JSON": Export(
        "l.json", json.dumps([{"isbn": float(CRIME)}, {"isbn": None}, {"isbn": int(PROGRAMMING)}], indent=1), missing=1
    ),
    "Spark": Export("l.csv", SPARK),
    "Spark, doubles": Export("l.csv", "isbn\n9.780140449136E12\n9.780131103627E12\n"),
    "Google Books": Export(
        "l.json", json.dumps([{"isbn": [{"type": "ISBN_13", "identifier": isbn}]} for isbn in BOTH])
    ),
    "an object with the list in it": Export(
        "l.json",
        json.dumps({"kind": "volumes", "total": 3, "items": [{"isbn": isbn, "tags": ["a"]} for isbn in [*BOTH, None]]}),
        missing=1,
    ),
    "an object with the list in it, over lines": Export(
        "l.json", json.dumps({"links": ["x"], "items": [{"isbn": isbn} for isbn in BOTH]}, indent=1)
    ),
    "an object a page with a list in it": Export(
        "l.jsonl", "".join(json.dumps({"page": 1, "items": [{"isbn": isbn}]}) + "\n" for isbn in BOTH)
    ),
    "a pipe": Export("l.csv", f"a|isbn\n1|{CRIME}\n2|{PROGRAMMING}\n"),
    "an apostrophe": Export("l.csv", f"isbn\n'{CRIME}\n\u2019{PROGRAMMING10}\n"),
    "thousands": Export("l.csv", 'isbn\n"9,780,140,449,136"\n"9.780.131.103.627"\n'),
    "lost zeros": Export("l.csv", "isbn\n140449132\n131103628.0\n", arguments={"repair_zeros": True}),
}


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_every_row_of_an_export_that_holds_an_isbn_is_asked_for_and_nothing_else(
    tmp_path: Path, database: Mocker, export: Export
) -> None:
    content = export.content if isinstance(export.content, bytes) else export.content.encode()
    (tmp_path / export.name).write_bytes(content)

    summary = make(tmp_path / "books.jsonl", source=str(tmp_path / export.name), **export.arguments).execute({})

    assert sorted(asked(database)) == sorted(BOTH)
    assert (summary["missing"], summary["invalid"]) == (export.missing, 0)
    assert summary["rows"] == summary["found"] + export.missing


def parquet(**columns: Any) -> bytes:
    """Return a table in a file."""
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


TWO_LISTS = {"new": [{"isbn": CRIME}], "old": [{"isbn": CALENDAR}]}
BY_ITSELF = "write them by themselves: an array, or an object a line"


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("l.csv", b"id,number\n", {}, "no column 'isbn', but 'id', 'number'; name it in isbn_column"),
        ("l.csv", (f"isbn\n{CRIME}\n" * 1_000 + '"x').encode(), {}, "line 2001: it is not valid CSV"),
        ("l.csv", b"isbn\n1\n\xff\n", {"encoding": "utf-8"}, "l.csv, line 3: it is not text in utf-8"),
        (
            "l.csv",
            b"isbn\n1\n",
            {"encoding": "utf-16"},
            "line 1: it is not text in utf-16; give the encoding",
        ),
        ("l.csv", "isbn\n1\n".encode("utf-16") + b"\0", {"encoding": "utf-16"}, "line 3: it is not text in utf-16"),
        ("l.json", json.dumps({"data": {"items": [{"isbn": CRIME}]}}).encode(), {}, BY_ITSELF),
        ("l.json", json.dumps(TWO_LISTS).encode(), {}, BY_ITSELF),
        ("l.json", json.dumps(TWO_LISTS, indent=1).encode(), {}, BY_ITSELF),
        ("l.json", json.dumps({"items": [{"title": "A"}]}).encode(), {}, BY_ITSELF),
        ("l.parquet", parquet(isbn=pa.array([float(CRIME)], pa.float32())), {}, "type float, which holds 7 digits"),
        ("l.txt", CRIME.encode(), {"keep_columns": ["sku"]}, "keep_columns is .+ has one text a line"),
        ("l.csv", f"isbn,sku\n{CRIME},a\n".encode(), {"keep_columns": ["SKU"]}, "no column 'SKU', but .*'sku'"),
        ("l.jsonl", f'{{"isbn": "{CRIME}", "sku": 1}}'.encode(), {"keep_columns": "SKU"}, "no column 'SKU', but"),
        (
            "l.csv",
            f"t,isbn\na,{CRIME}\nb\n".encode(),
            {"on_invalid": "fail"},
            "l.csv, line 3: it has 1 of 2 columns",
        ),
        (
            "l.csv",
            f"isbn\n{CRIME}\n9780140449137\n".encode(),
            {"on_invalid": "fail"},
            "l.csv, line 3: '9780140449137': its check digit",
        ),
    ],
)
def test_list_that_cannot_be_used_is_refused_before_the_first_request(
    tmp_path: Path,
    database: Mocker,
    *,
    name: str,
    content: bytes,
    arguments: dict[str, Any],
    message: str,
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(permanent(ValueError), match=message):
        make(tmp_path / "books.csv", source=str(tmp_path / name), **arguments).execute({})

    assert not database.called
    assert not (tmp_path / "books.csv").exists()


def spark_folder(tmp_path: Path, write: Callable[[Path, str], None], suffix: str) -> Path:
    folder = tmp_path / f"list{suffix}"
    folder.mkdir()
    for number, isbn in enumerate(BOTH):
        write(folder / f"part-0000{number}-0a1b{suffix}", isbn)
    (folder / "_SUCCESS").touch()
    (folder / f".part-00000-0a1b{suffix}.crc").write_bytes(b"crc")
    return folder


def write_part(part: Path, isbn: str) -> None:
    part.write_text(f"isbn,title\n{isbn},A\n")


def write_parquet_part(part: Path, isbn: str) -> None:
    pq.write_table(pa.table({"isbn": [[isbn], []], "title": ["A", "B"]}), part)


class TestFolders:
    @pytest.mark.parametrize(("write", "suffix"), [(write_part, ".csv"), (write_parquet_part, ".snappy.parquet")])
    @pytest.mark.parametrize("form", ["folder", "pattern", "paths", "folder with a suffix"])
    def test_parts_of_a_folder_are_one_list_in_the_order_of_their_names(
        self, tmp_path: Path, write: Callable[[Path, str], None], suffix: str, form: str
    ) -> None:
        folder = spark_folder(tmp_path, write, "" if form == "folder with a suffix" else suffix)
        source: Any = {
            "folder": str(folder),
            "pattern": f"{folder}/part-*",
            "paths": [str(path) for path in sorted(folder.glob("part-*"))],
            "folder with a suffix": f"{folder}{suffix}",
        }[form]
        if form == "folder with a suffix":
            folder.rename(source)
        elif form != "paths" and suffix == ".csv":
            # A partition without rows.
            (folder / "part-00009-0a1b.csv").touch()

        make(tmp_path / "books.jsonl", source=source).execute({})

        rows = [row for row in json_rows(tmp_path / "books.jsonl") if row["status"] != "missing"]
        assert [(row["isbn13"], row["source"]["title"]) for row in rows] == [(isbn, "A") for isbn in BOTH]

    def test_row_that_cannot_be_read_is_a_row_that_names_its_file_and_line(self, tmp_path: Path) -> None:
        for name, text in (("a.csv", f"t,isbn\n1,{CRIME}\n"), ("b.csv", f"t,isbn\n1\n2,{PROGRAMMING}\n")):
            (tmp_path / name).write_text(text)

        make(tmp_path / "out" / "books.jsonl", source=str(tmp_path / "*.csv")).execute({})

        first, bad, last = json_rows(tmp_path / "out" / "books.jsonl")
        assert (first["status"], last["status"]) == ("found", "found")
        assert (bad["input"], bad["isbn13"], bad["status"]) == ("", None, "invalid")
        assert bad["error"] == "b.csv: Line 2: it has 1 of 2 columns, and 'isbn' is not among them."

    @pytest.mark.parametrize(
        ("source", "message"), [("*.csv", "no list, but nothing"), ("", "no list, but 'notes.doc'")]
    )
    def test_folder_without_a_list_is_refused_before_the_first_request(
        self, tmp_path: Path, database: Mocker, source: str, message: str
    ) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "notes.doc").write_text("x")

        with pytest.raises(permanent(ValueError), match=message):
            make(tmp_path / "books.jsonl", source=f"{tmp_path}/in/{source}").execute({})

        assert not database.called
        assert not (tmp_path / "books.jsonl").exists()

    def test_folder_of_more_files_than_a_list_can_have_is_refused_and_hidden_ones_do_not_count(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The folder of a whole disk, for example, which a template gives whose parameter is empty.
        monkeypatch.setattr(source_list, "_MAX_FILES", 5)
        for folder in (tmp_path / "in" / name for name in ("day=1", "day=2", "lost+found")):
            folder.mkdir(parents=True)
            write_part(folder / "part-0.csv", CRIME)
            for number in range(6):
                (folder / f".part-{number}.csv.crc").touch()
        assert make(tmp_path / "books.jsonl", source=f"{tmp_path}/in").execute({})["rows"] == 2
        for number in range(4):
            (tmp_path / "in" / "day=1" / f"{number}.csv").touch()
        database.reset_mock()

        with pytest.raises(permanent(ValueError), match="more than 5 files"):
            make(tmp_path / "books.jsonl", source=f"{tmp_path}/in").execute({})

        assert not database.called

    def test_folder_within_the_list_that_cannot_be_read_ends_the_task(
        self, tmp_path: Path, database: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for day in ("day=1", "day=2"):
            (tmp_path / "in" / day).mkdir(parents=True)
            write_part(tmp_path / "in" / day / "part-0.csv", CRIME)

        def scandir(folder: str) -> Any:
            if folder.endswith("day=2"):
                raise PermissionError(errno.EACCES, "Permission denied", folder)
            return scan(folder)

        scan = os.scandir
        monkeypatch.setattr(os, "scandir", scandir)
        with pytest.raises(PermissionError, match=r"in cannot be read: .*day=2 cannot be read: Permission denied"):
            make(tmp_path / "books.jsonl", source=f"{tmp_path}/in").execute({})

        assert not database.called

    def test_dataset_that_would_become_a_part_of_its_list_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(f"isbn\n{CRIME}\n")
        (tmp_path / "books.csv").write_text("isbn\n")

        with pytest.raises(permanent(ValueError), match="is one of the files of the source"):
            make(tmp_path / "books.csv", source=str(tmp_path)).execute({})


class TestExcel:
    @pytest.mark.parametrize(
        "cells", [BOTH, [int(isbn) for isbn in BOTH], [float(isbn) for isbn in BOTH], [f" {isbn}\xa0" for isbn in BOTH]]
    )
    def test_first_sheet_with_the_column_is_read(self, tmp_path: Path, cells: Sequence[Any]) -> None:
        rows = [
            ["Titel", "ISBN "],
            *([f"Ü {place}", cell] for place, cell in enumerate(cells)),
            [None, None],
            ["x", None],
        ]
        workbook(tmp_path / "list.xlsx", {"Notes": [["see below"]], "Books": rows, "Other": [["ISBN"], ["x"]]})

        make(tmp_path / "books.jsonl", source=str(tmp_path / "list.xlsx")).execute({})

        found = json_rows(tmp_path / "books.jsonl")
        assert [(row["isbn13"], row["status"], row["source"]["Titel"]) for row in found] == [
            (CRIME, "found", "Ü 0"),
            (PROGRAMMING, "found", "Ü 1"),
            (None, "missing", "x"),
        ]

    def test_value_of_a_formula_is_that_which_was_computed_last(self, tmp_path: Path) -> None:
        workbook(tmp_path / "list.xlsx", {"S": [["isbn"], ["=A1"]]}, computed={"=A1": CRIME})

        make(tmp_path / "books.jsonl", source=str(tmp_path / "list.xlsx")).execute({})

        assert [row["isbn13"] for row in json_rows(tmp_path / "books.jsonl")] == [CRIME]

    @pytest.mark.parametrize(
        ("limit", "part"), [("_MAX_HELD", "xl/texts.xml"), ("_MAX_UNPACKED", "xl/worksheets/sheet9.xml")]
    )
    def test_workbook_that_becomes_too_large_once_unpacked_is_refused_before_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, part: str
    ) -> None:
        monkeypatch.setattr(source_tables, limit, 20_000)
        workbook(tmp_path / "list.xlsx", {"S": [["isbn"], [CRIME]]})
        make(tmp_path / "books.jsonl", source=str(tmp_path / "list.xlsx")).execute({})
        with zipfile.ZipFile(tmp_path / "list.xlsx", "a") as book:
            book.writestr(part, b"x" * 20_000)

        with pytest.raises(permanent(ValueError), match=r"list\.xlsx: it has .* MB unpacked, which is too much for"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "list.xlsx")).execute({})

    def test_workbook_that_cannot_be_read_is_refused_in_words(self, tmp_path: Path) -> None:
        old, locked, twice, none = (tmp_path / f"{name}.xlsx" for name in ("old", "locked", "twice", "none"))
        old.write_bytes(b"\xd0\xcf\x11\xe0" + b"\0" * 99)
        locked.write_bytes(b"\xd0\xcf\x11\xe0" + b"\0" * 99 + "EncryptedPackage".encode("utf-16-le"))
        workbook(twice, {"S": [["isbn", "ISBN"], [CRIME, CRIME]]})
        workbook(none, {"S": [["title"], ["x"]]})
        messages = {
            old: "old form of Excel",
            locked: "has a password; save it without",
            twice: "sheet 'S', row 1: there are 2 columns 'isbn'",
            none: "in sheet 'S', there is no column 'isbn', but 'title'",
        }

        for file, message in messages.items():
            column = {"isbn_column": "Isbn"} if file is twice else {}
            with pytest.raises(permanent(ValueError), match=message):
                make(tmp_path / "books.jsonl", source=str(file), **column).execute({})


class TestEncodings:
    def test_line_in_another_encoding_is_a_warning_that_names_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "l.csv").write_bytes(f"isbn,t\n{CRIME},a\n{CRIME},Müller\n".encode("cp1252"))
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)

        make(tmp_path / "books.jsonl", source=str(tmp_path / "l.csv")).execute({})

        assert [row["source"]["t"] for row in json_rows(tmp_path / "books.jsonl")] == ["a", "Müller"]
        (warning,) = [line for line in lines if line.startswith("WARNING")]
        assert f"source {tmp_path}/l.csv, line 3 is not UTF-8, and such lines are read as cp1252" in warning


class TestSeveral:
    CELL = f"{CRIME} ; {CRIME10} ; {CALENDAR}"

    def test_first_book_is_taken_and_the_row_says_how_many_there_are(self, tmp_path: Path) -> None:
        make(tmp_path / "books.jsonl", isbns=[self.CELL, PROGRAMMING]).execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [(row["isbn13"], row["note"]) for row in rows] == [
            (CRIME, f"The first of 2 books in the cell; the others: {CALENDAR}."),
            (PROGRAMMING, None),
        ]

    def test_each_book_of_a_cell_is_a_row_with_the_number_of_its_input_row(self, tmp_path: Path) -> None:
        (tmp_path / "l.csv").write_text(f"n,isbn\n1,{PROGRAMMING}\n2,{self.CELL}\n3,\n4,{CRIME}\n")

        make(tmp_path / "books.jsonl", source=str(tmp_path / "l.csv"), several="rows").execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [(row["input_row"], row["isbn13"], row["input"]) for row in rows] == [
            (1, PROGRAMMING, PROGRAMMING),
            (2, CRIME, self.CELL),
            (2, CALENDAR, self.CELL),
            (3, None, ""),
            (4, CRIME, CRIME),
        ]
        assert [row["source"]["n"] for row in rows] == ["1", "2", "2", "3", "4"]

        make(tmp_path / "books.csv", source=str(tmp_path / "l.csv"), several="rows").execute({})
        assert (tmp_path / "books.csv").read_text().splitlines()[2].startswith(f"2,{self.CELL},{CRIME},found,")


class TestInvalid:
    def test_more_invalid_rows_than_allowed_end_the_task_before_the_first_request(
        self, tmp_path: Path, database: Mocker
    ) -> None:
        isbns = ["x", "9780140449137", CRIME]

        with pytest.raises(permanent(ValueError), match=r"max_invalid allows 1 of 3 rows.*2 hold none: 1x it must"):
            make(tmp_path / "books.jsonl", isbns=isbns, max_invalid="50%").execute({})

        assert not database.called
        assert make(tmp_path / "books.jsonl", isbns=isbns, max_invalid="80%").execute({})["invalid"] == 2

    def test_number_of_json_that_is_too_large_is_invalid_and_not_missing(self, tmp_path: Path) -> None:
        (tmp_path / "list.jsonl").write_text('{"isbn": 1e999}\n')

        summary = make(tmp_path / "books.jsonl", source=str(tmp_path / "list.jsonl")).execute({})

        assert (summary["missing"], summary["invalid"]) == (0, 1)

    def test_empty_cells_are_not_invalid(self, tmp_path: Path) -> None:
        cells = ["", None, '=""', "[]", "nan", "NULL", "N/A", "#N/A", "-", float("nan"), CRIME]

        summary = make(tmp_path / "books.jsonl", isbns=cells, max_invalid=0, on_invalid="fail").execute({})

        assert (summary["missing"], summary["invalid"], summary["found"]) == (10, 0, 1)

    @pytest.mark.parametrize(
        ("cells", "warning"),
        [
            ([*[CRIME] * 9, "x"], "1 of 10 rows hold no ISBN: 1x it must have 10 or 13 digits, not 1 (row 10: 'x')."),
            (["x", "x"], "Of 2 rows, none holds an ISBN (0 empty): 2x it must have 10 or 13 digits, not 1"),
            ([*[CRIME] * 20, "x"], None),
        ],
    )
    def test_many_invalid_rows_are_a_warning_with_the_commonest_reasons(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str], warning: str | None
    ) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)

        make(tmp_path / "books.jsonl", isbns=cells).execute({})

        warned = [line for line in lines if line.startswith("WARNING")]
        assert len(warned) == (warning is not None)
        assert warning is None or warning in warned[0]

    def test_warning_names_the_line_of_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)
        (tmp_path / "list.csv").write_text(f"isbn\n{CRIME}\nx\n")

        make(tmp_path / "books.jsonl", source=str(tmp_path / "list.csv")).execute({})

        assert any("not 1 (line 3: 'x')." in line for line in lines)


class TestQueries:
    @pytest.mark.parametrize(
        ("isbns", "arguments"),
        [
            ([[CRIME], [PROGRAMMING]], {}),
            ([(CRIME,), (PROGRAMMING,)], {}),
            ([{"id": 1, "ISBN": CRIME}, {"id": 2, "ISBN": PROGRAMMING}], {}),
            ([{"a": None, "b": CRIME}, {"a": PROGRAMMING, "b": ""}], {"isbn_column": ["a", "b"]}),
            (f"{CRIME}\n {PROGRAMMING} \n", {}),
            ([f" {CRIME}\n", f"\t{PROGRAMMING}"], {}),
        ],
    )
    def test_rows_of_a_query_are_read(
        self, tmp_path: Path, database: Mocker, isbns: Any, arguments: dict[str, Any]
    ) -> None:
        make(tmp_path / "books.jsonl", isbns=isbns, **arguments).execute({})

        assert sorted(asked(database)) == sorted(BOTH)


@pytest.mark.parametrize("name", ["l.jsonl", "l.parquet"])
def test_number_that_json_does_not_have_is_null(tmp_path: Path, name: str) -> None:
    if name.endswith("jsonl"):
        (tmp_path / name).write_text(f'{{"isbn": "{CRIME}", "price": NaN, "more": [-Infinity]}}\n')
    else:
        table = pa.table({"isbn": [CRIME], "price": [float("nan")], "more": [[float("inf")]]})
        pq.write_table(table, tmp_path / name)

    make(tmp_path / "books.jsonl", source=str(tmp_path / name)).execute({})

    line = (tmp_path / "books.jsonl").read_text()
    assert json.loads(line, parse_constant=pytest.fail)["source"] == {"price": None, "more": [None]}
