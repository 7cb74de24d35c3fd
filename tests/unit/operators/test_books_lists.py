"""Lists as shops, catalogues, library systems and data frames export them: each row that holds an ISBN is asked for."""

from __future__ import annotations

import errno
import gzip
import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, asked
from tests.unit.log_lines import log_lines
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.enrichment import json_rows, make
from tests.unit.permanent import permanent
from tests.unit.workbooks import workbook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import requests_mock

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
# Name of the file, content, further arguments, the books that are asked for, and the number of rows without text.
EXPORTS: dict[str, tuple[str, str | bytes, dict[str, Any], list[str], int]] = {
    "Goodreads": (
        "l.csv",
        f'Book Id,ISBN,ISBN13\n1,="{CRIME10}",="{CRIME}"\n2,="",="{PROGRAMMING}"\n3,="",=""\n',
        {},
        BOTH,
        1,
    ),
    "Goodreads by ISBN13": (
        "l.csv",
        f'ISBN,ISBN13\n="",="{CRIME}"\n="",="{PROGRAMMING}"\n',
        {"isbn_column": "isbn 13"},
        BOTH,
        0,
    ),
    "LibraryThing": (
        "l.tsv",
        f"Book Id\tTitle\tISBN\n1\tCafé\t[{CRIME10}]\n2\tB\t[]\n3\tC\t[{PROGRAMMING10}]\n".encode("cp1252"),
        {},
        BOTH,
        1,
    ),
    "StoryGraph": ("l.csv", f"Title,ISBN/UID\nA,{CRIME}\nB,\nC,{PROGRAMMING}\n", {}, BOTH, 1),
    "Calibre": (
        "l.csv",
        f'\ufeffauthors,isbn,identifiers\nA,{CRIME},"x:1"\nB,,"amazon:B00,isbn:{PROGRAMMING}"\n',
        {"isbn_column": ["isbn", "identifiers"]},
        BOTH,
        0,
    ),
    "Zotero": ("l.csv", f'"Key","ISBN"\n"K1","{CRIME} {CALENDAR}"\n"K2",""\n"K3","0-13-110362-8"\n', {}, BOTH, 1),
    "BookWyrm": (
        "l.csv",
        f"title,isbn_10,isbn_13\nA,{CRIME10},{CRIME}\nB,{PROGRAMMING10},\n",
        {"isbn_column": ["isbn_13", "isbn_10"]},
        BOTH,
        0,
    ),
    "Koha": ("l.csv", MARC, {}, BOTH, 0),
    "Open Library": (
        "l.jsonl",
        f'{{"isbn_13": ["{CRIME}"], "isbn_10": ["{CRIME10}"]}}\n{{"isbn_10": ["{PROGRAMMING10}"]}}\n{{"key": 1}}\n',
        {},
        BOTH,
        1,
    ),
    "Open Library's dump": (
        "l.txt.gz",
        gzip.compress(
            "".join(
                f'/type/edition\t/books/OL{n}M\t3\t2020-01-01T00:00:00\t{{"isbn_13": ["{isbn}"]}}\n'
                for n, isbn in enumerate(BOTH)
            ).encode()
        ),
        {},
        BOTH,
        0,
    ),
    "Crossref": (
        "l.json",
        json.dumps([{"ISBN": [f"http://id.example/isbn/{CRIME}"]}, {"ISBN": [PROGRAMMING10]}]),
        {},
        BOTH,
        0,
    ),
    "Book-Crossing": (
        "l.csv",
        f'"ISBN";"Book-Title"\n"{CRIME10}";"A &amp; B"\n"{PROGRAMMING10}";"Ü"\n'.encode("latin-1"),
        {},
        BOTH,
        0,
    ),
    "Excel, German": ("l.csv", GERMAN.encode("cp1252"), {}, BOTH, 0),
    "Excel, Polish": ("l.csv", POLISH.encode("cp1250"), {"encoding": "cp1250"}, BOTH, 0),
    "Excel, Japanese": ("l.csv", JAPANESE.encode("shift_jis"), {"encoding": "shift_jis"}, BOTH, 0),
    "Excel, French": ("l.csv", FRENCH.encode("utf-8-sig"), {}, BOTH, 0),
    "Excel, Unicode text": (
        "l.txt",
        "\ufeffTitle\tISBN\nÜ\t{}\nB\t{}\n".format(*BOTH).encode("utf-16-le"),
        {},
        BOTH,
        0,
    ),
    "pandas": ("l.csv", f",isbn,title\n0,{CRIME}.0,A\n1,,B\n2,nan,C\n3,{PROGRAMMING}.0,D\n", {}, BOTH, 2),
    "pandas, JSON": (
        "l.json",
        json.dumps([{"isbn": float(CRIME)}, {"isbn": None}, {"isbn": int(PROGRAMMING)}], indent=1),
        {},
        BOTH,
        1,
    ),
    "Spark": ("l.csv", SPARK, {}, BOTH, 0),
    "Spark, doubles": ("l.csv", "isbn\n9.780140449136E12\n9.780131103627E12\n", {}, BOTH, 0),
    "Google Books": (
        "l.json",
        json.dumps([{"isbn": [{"type": "ISBN_13", "identifier": isbn}]} for isbn in BOTH]),
        {},
        BOTH,
        0,
    ),
    "an object with the list in it": (
        "l.json",
        json.dumps({"kind": "volumes", "total": 3, "items": [{"isbn": isbn, "tags": ["a"]} for isbn in [*BOTH, None]]}),
        {},
        BOTH,
        1,
    ),
    "an object with the list in it, over lines": (
        "l.json",
        json.dumps({"links": ["x"], "items": [{"isbn": isbn} for isbn in BOTH]}, indent=1),
        {},
        BOTH,
        0,
    ),
    "an object a page with a list in it": (
        "l.jsonl",
        "".join(json.dumps({"page": 1, "items": [{"isbn": isbn}]}) + "\n" for isbn in BOTH),
        {},
        BOTH,
        0,
    ),
    "a pipe": ("l.csv", f"a|isbn\n1|{CRIME}\n2|{PROGRAMMING}\n", {}, BOTH, 0),
    "an apostrophe": ("l.csv", f"isbn\n'{CRIME}\n\u2019{PROGRAMMING10}\n", {}, BOTH, 0),
    "thousands": ("l.csv", 'isbn\n"9,780,140,449,136"\n"9.780.131.103.627"\n', {}, BOTH, 0),
    "lost zeros": ("l.csv", "isbn\n140449132\n131103628.0\n", {"repair_zeros": True}, BOTH, 0),
}


@pytest.mark.parametrize("export", EXPORTS)
def test_every_row_of_an_export_that_holds_an_isbn_is_asked_for_and_nothing_else(
    tmp_path: Path, database: requests_mock.Mocker, export: str
) -> None:
    name, content, arguments, books, missing = EXPORTS[export]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    summary = make(tmp_path / "books.jsonl", source=str(tmp_path / name), **arguments).execute({})

    assert sorted(asked(database)) == sorted(books)
    assert (summary["missing"], summary["invalid"]) == (missing, 0)
    assert summary["rows"] == summary["found"] + missing


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
    @pytest.mark.parametrize(
        ("write", "suffix"), [(write_part, ".csv"), (write_part, ""), (write_parquet_part, ".snappy.parquet")]
    )
    @pytest.mark.parametrize("form", ["folder", "pattern", "paths"])
    def test_parts_of_a_folder_are_one_list_in_the_order_of_their_names(
        self, tmp_path: Path, write: Callable[[Path, str], None], suffix: str, form: str
    ) -> None:
        if not suffix:
            (tmp_path / "job.csv").mkdir()
            folder = spark_folder(tmp_path / "job.csv", write, suffix).rename(tmp_path / "list.csv")
        else:
            folder = spark_folder(tmp_path, write, suffix)
            if suffix == ".csv":
                # A partition without rows.
                (folder / "part-00009-0a1b.csv").touch()
        source: Any = {
            "folder": str(folder),
            "pattern": f"{folder}/part-*",
            "paths": [str(path) for path in sorted(folder.glob("part-*"))],
        }[form]
        if form == "paths" and suffix in ("", ".csv"):
            source = [path for path in source if "00009" not in path]
        if form == "paths" and not suffix:
            source = [str(folder)]

        make(tmp_path / "books.jsonl", source=source).execute({})

        rows = [row for row in json_rows(tmp_path / "books.jsonl") if row["status"] != "missing"]
        assert [(row["isbn13"], row["source"]["title"]) for row in rows] == [(isbn, "A") for isbn in BOTH]

    def test_row_that_cannot_be_read_names_its_file_and_line(self, tmp_path: Path) -> None:
        for name, text in (("a.csv", f"t,isbn\n1,{CRIME}\n"), ("b.csv", "t,isbn\n1\n")):
            (tmp_path / name).write_text(text)

        make(tmp_path / "out" / "books.jsonl", source=str(tmp_path / "*.csv")).execute({})

        rows = json_rows(tmp_path / "out" / "books.jsonl")
        assert rows[1]["error"] == "b.csv: Line 2: it has 1 of 2 columns, and 'isbn' is not among them."

    @pytest.mark.parametrize(
        ("source", "message"), [("*.csv", "no list, but nothing"), ("", "no list, but 'notes.doc'")]
    )
    def test_folder_without_a_list_is_refused_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker, source: str, message: str
    ) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "notes.doc").write_text("x")

        with pytest.raises(permanent(ValueError), match=message):
            make(tmp_path / "books.jsonl", source=f"{tmp_path}/in/{source}").execute({})

        assert not database.called
        assert not (tmp_path / "books.jsonl").exists()

    def test_folder_of_more_files_than_a_list_can_have_is_refused_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        # The folder of a whole disk, for example, which a template gives whose parameter is empty.
        for day in range(4):
            (tmp_path / "in" / f"day={day}").mkdir(parents=True)
            for number in range(3_000):
                (tmp_path / "in" / f"day={day}" / f"{number}.csv").touch()
        with pytest.raises(permanent(ValueError), match="more than 10,000 files"):
            make(tmp_path / "books.jsonl", source=f"{tmp_path}/in").execute({})

        assert not database.called
        assert not (tmp_path / "books.jsonl").exists()

    def test_hidden_files_of_a_folder_do_not_count_and_none_of_its_parts_is_left_out(
        self, tmp_path: Path, database: requests_mock.Mocker
    ) -> None:
        for day in range(4):
            (tmp_path / "in" / f"day={day}").mkdir(parents=True)
            write_part(tmp_path / "in" / f"day={day}" / "part-0.csv", CRIME)
            for number in range(3_000):
                (tmp_path / "in" / f"day={day}" / f".part-{number}.csv.crc").touch()
        (tmp_path / "in" / "lost+found").mkdir()
        (tmp_path / "in" / "lost+found" / "part-0.csv").touch()

        assert make(tmp_path / "books.jsonl", source=f"{tmp_path}/in").execute({})["rows"] == 4

    def test_folder_within_the_list_that_cannot_be_read_ends_the_task(
        self, tmp_path: Path, database: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
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
        with pytest.raises(PermissionError, match=r"in cannot be read: Permission denied: '.*day=2'"):
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

    @pytest.mark.parametrize(
        ("part", "begin", "unit", "megabytes"),
        [
            ("worksheets/sheet1.xml", "<worksheet><sheetData>", "<row></row>", 40),
            ("sharedStrings.xml", "<sst>", "<si><t>a</t></si>", 40),
        ],
        ids=["rows", "texts"],
    )
    def test_workbook_that_becomes_far_larger_once_unpacked_is_refused_before_it_is_read(
        self, tmp_path: Path, part: str, begin: str, unit: str, megabytes: int
    ) -> None:
        file = tmp_path / "bomb.xlsx"
        workbook(file, {"S": [["isbn"], [CRIME]]})
        with zipfile.ZipFile(file) as book:
            parts = {name: book.read(name) for name in book.namelist() if name != f"xl/{part}"}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
            for name, data in parts.items():
                book.writestr(name, data)
            with book.open(f"xl/{part}", "w") as bomb:
                bomb.write(begin.encode())
                for _ in range(megabytes):
                    bomb.write(unit.encode() * (2**20 // len(unit)))

        with pytest.raises(permanent(ValueError), match=f"bomb.xlsx: its part xl/{part} has .* MB.*; save it as .csv"):
            make(tmp_path / "books.jsonl", source=str(file)).execute({})


@pytest.mark.parametrize(
    "value",
    [
        {"data": {"items": [{"isbn": CRIME}]}},
        {"new": [{"isbn": CRIME}], "old": [{"isbn": CALENDAR}]},
        {"items": [{"title": "A"}]},
    ],
    ids=["nested", "two lists", "no column"],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_object_in_which_no_list_can_be_found_is_refused_with_advice(
    tmp_path: Path, value: dict[str, Any], indent: int | None
) -> None:
    (tmp_path / "list.json").write_text(json.dumps(value, indent=indent))

    with pytest.raises(permanent(ValueError), match="write it by itself: an array, or an object a line"):
        make(tmp_path / "books.jsonl", source=str(tmp_path / "list.json")).execute({})


class TestEncodings:
    def test_line_in_another_encoding_is_a_warning_that_names_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "l.csv").write_bytes(f"isbn,t\n{CRIME},a\n{CRIME},Müller\n".encode("cp1252"))
        lines = log_lines(monkeypatch, EnrichIsbnsOperator)

        make(tmp_path / "books.jsonl", source=str(tmp_path / "l.csv")).execute({})

        assert [row["source"]["t"] for row in json_rows(tmp_path / "books.jsonl")] == ["a", "Müller"]
        (warning,) = [line for line in lines if line.startswith("WARNING")]
        assert f"source {tmp_path}/l.csv, line 3 is no UTF-8, and such lines are read as cp1252" in warning

    @pytest.mark.parametrize(
        ("encoding", "content"), [("utf-8", b"isbn\n1\n\xff\n"), ("utf-16", "isbn\n1\n".encode("utf-16") + b"\0")]
    )
    def test_given_encoding_that_does_not_fit_is_an_error_that_names_the_line(
        self, tmp_path: Path, database: requests_mock.Mocker, encoding: str, content: bytes
    ) -> None:
        (tmp_path / "l.csv").write_bytes(content)

        with pytest.raises(permanent(ValueError), match=f"l.csv, line 3: it is no text in {encoding}"):
            make(tmp_path / "books.jsonl", source=str(tmp_path / "l.csv"), encoding=encoding).execute({})
        assert not database.called

    @pytest.mark.parametrize(
        "wrong",
        [{"delimiter": ""}, {"delimiter": "ab"}, {"delimiter": '"'}, {"encoding": "utf-9"}, {"encoding": "hex"}],
    )
    def test_delimiter_and_encoding_are_checked_when_the_dag_is_parsed(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            make("/out/books.jsonl", source="/in/l.csv", **wrong)


class TestSeveral:
    CELL = f"{CRIME} ; {CRIME10} ; {CALENDAR}"

    def test_first_book_is_taken_and_the_row_says_how_many_there_are(self, tmp_path: Path) -> None:
        make(tmp_path / "books.jsonl", isbns=[self.CELL, PROGRAMMING]).execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert [(row["isbn13"], row["note"]) for row in rows] == [
            (CRIME, f"The first of 2 books in the cell; the others: {CALENDAR}."),
            (PROGRAMMING, None),
        ]

    @pytest.mark.parametrize("keep", [True, False])
    def test_each_book_of_a_cell_is_a_row_with_the_number_of_its_input_row(self, tmp_path: Path, *, keep: bool) -> None:
        (tmp_path / "l.csv").write_text(f"n,isbn\n1,{PROGRAMMING}\n2,{self.CELL}\n3,\n4,{CRIME}\n")

        summary = make(
            tmp_path / "books.jsonl", source=str(tmp_path / "l.csv"), several="rows", keep_columns=keep
        ).execute({})

        rows = json_rows(tmp_path / "books.jsonl")
        assert summary["rows"] == 5
        assert [(row["input_row"], row["isbn13"], row["input"]) for row in rows] == [
            (1, PROGRAMMING, PROGRAMMING),
            (2, CRIME, self.CELL),
            (2, CALENDAR, self.CELL),
            (3, None, ""),
            (4, CRIME, CRIME),
        ]
        assert [row["source"]["n"] for row in rows if keep] == (["1", "2", "2", "3", "4"] if keep else [])


class TestInvalid:
    @pytest.mark.parametrize(("bound", "fails"), [(0, True), ("50%", True), (2, False), ("80%", False), ("all", False)])
    def test_more_invalid_rows_than_allowed_end_the_task_before_the_first_request(
        self, tmp_path: Path, database: requests_mock.Mocker, bound: object, *, fails: bool
    ) -> None:
        operator = make(tmp_path / "books.jsonl", isbns=["x", "9780140449137", CRIME], max_invalid=bound)

        if not fails:
            assert operator.execute({})["invalid"] == 2
            return
        with pytest.raises(
            permanent(ValueError), match=r"max_invalid allows \d of 3 rows.*2 hold none: 1x it must have"
        ):
            operator.execute({})
        assert not database.called
        assert not (tmp_path / "books.jsonl").exists()

    def test_empty_cells_are_not_invalid(self, tmp_path: Path) -> None:
        cells = ["", None, '=""', "[]", "nan", "NULL", "N/A", "#N/A", "-", float("nan"), CRIME]

        summary = make(tmp_path / "books.jsonl", isbns=cells, max_invalid=0, on_invalid="fail").execute({})

        assert (summary["missing"], summary["invalid"], summary["found"]) == (10, 0, 1)

    @pytest.mark.parametrize(
        ("cells", "warning"),
        [
            ([*[CRIME] * 9, "x"], "1 of 10 rows hold no ISBN: 1x it must have 10 or 13 digits, not 1 (row 10: 'x')."),
            (["x", "x"], "Of 2 rows, none holds an ISBN, and 0 are empty: 2x it must have 10 or 13 digits, not 1"),
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
        self, tmp_path: Path, database: requests_mock.Mocker, isbns: Any, arguments: dict[str, Any]
    ) -> None:
        make(tmp_path / "books.jsonl", isbns=isbns, **arguments).execute({})

        assert sorted(asked(database)) == sorted(BOTH)

    @pytest.mark.parametrize(
        ("row", "message"), [([1, 2], "has 2 values: select one"), ({"id": 1}, "there is no column")]
    )
    def test_row_of_which_the_column_is_not_known_is_refused(self, tmp_path: Path, row: Any, message: str) -> None:
        with pytest.raises(InvalidArgumentError, match=f"Row 2 of isbns:? ?{message}"):
            make(tmp_path / "books.jsonl", isbns=[CRIME, row])


def test_float_that_cannot_hold_an_isbn_is_refused(tmp_path: Path, database: requests_mock.Mocker) -> None:
    pq.write_table(pa.table({"isbn": pa.array([float(CRIME)], pa.float32())}), tmp_path / "l.parquet")

    with pytest.raises(permanent(ValueError), match="type float, which holds 7 digits of the 13"):
        make(tmp_path / "books.jsonl", source=str(tmp_path / "l.parquet")).execute({})
    assert not database.called


@pytest.mark.parametrize("name", ["l.jsonl", "l.parquet"])
def test_number_that_json_does_not_have_is_null(tmp_path: Path, name: str) -> None:
    if name.endswith("jsonl"):
        (tmp_path / name).write_text(f'{{"isbn": "{CRIME}", "price": NaN, "more": [1e999]}}\n')
    else:
        table = pa.table({"isbn": [CRIME], "price": [float("nan")], "more": [[float("inf")]]})
        pq.write_table(table, tmp_path / name)

    make(tmp_path / "books.jsonl", source=str(tmp_path / name)).execute({})

    line = (tmp_path / "books.jsonl").read_text()
    assert json.loads(line, parse_constant=pytest.fail)["source"] == {"price": None, "more": [None]}
