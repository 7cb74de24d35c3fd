"""The command `isbn`: what is wrong on which line, what is there twice, and what it costs."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.list_check import check_list, lookup_cost
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.unit.cli.commands import command


def parquet(columns: dict[str, list[str]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


GOOD = ["978-0-14-044913-6", "0-306-40615-2", "9780306406157"]


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    file = tmp_path / "list.txt"
    file.write_text("978-0-14-044913-6\n\n0-306-40615-2\nno ISBN\n9780140449137\n978-0-306-40615-7\n0306406152\n")
    return file


def test_a_program_gets_all_that_is_found(listed: Path) -> None:
    ended = command("isbn", listed, "--plan", "premium", "--output", "json")

    assert ended.code == 1
    document = ended.document
    assert [(each["rows"], each["example"], each["place"]) for each in document["reasons"]] == [
        (1, "no ISBN", "line 4"),
        (1, "9780140449137", "line 5"),
    ]
    (file,) = document["files"]
    assert (file["file"], file["format"], file["encoding"], file["rows"]) == (str(listed), "txt", "utf-8", 6)
    counts = {name: document[name] for name in ("rows", "isbns", "missing", "invalid", "books", "repeated")}
    assert counts == {"rows": 6, "isbns": 4, "missing": 0, "invalid": 2, "books": 2, "repeated": 1}
    invalid = [(each["line"], each["text"]) for each in document["first_invalid"]]
    assert invalid == [(4, "no ISBN"), (5, "9780140449137")]
    assert document["first_repeated"] == [{"isbn13": "9780306406157", "times": 3}]
    costs = [(cost["plan"], cost["bulk"], cost["requests"], cost["quota"]) for cost in document["costs"]]
    assert costs == [("premium", False, 2, 2), ("premium", True, 1, 2)]


def test_cells_that_hold_more_books_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("9780306406157\n9780306406157 9780140449136\n9780306406157 9780140449136\n")

    output = command("isbn", file).output
    assert "3 rows, 3 ISBNs (2 of them with a note)" in output
    assert "2 rows with a note: of several books in a cell, the first is read (--several rows reads all)" in output


def test_a_good_list_is_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("\n".join(GOOD))

    ended = command("isbn", file)

    assert ended.code == 0
    plans = [row[0] for row in ended.row("default", "premium", "pro")]
    assert plans == ["default", "default", "premium", "premium", "pro", "pro"]


@pytest.mark.parametrize(
    ("name", "content", "more", "line"),
    [
        # The header of a CSV is a line.
        ("list.csv", b"ean,title\n9780306406157,A\nx,B\n", ["--column", "ean"], 3),
        ("list.jsonl", b'{"isbn": "9780306406157"}\n{"isbn": "x"}\n', [], 2),
        ("list.parquet", parquet({"isbn": ["9780306406157", "x"]}), [], 2),
    ],
)
def test_formats_with_columns(tmp_path: Path, name: str, content: bytes, more: list[str], line: int) -> None:
    file = tmp_path / name
    file.write_bytes(content)

    found = command("isbn", file, *more, "--output", "json").document

    assert command("isbn", file, *more).output.startswith(f"{file}: {name.split('.')[1]}, column")
    assert (found["rows"], found["books"]) == (2, 1)
    assert [(each["line"], each["text"]) for each in found["first_invalid"]] == [(line, "x")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.txt", b"\x00\x01\x02", "line 1: it is not text (it holds NUL bytes).\n"),
        ("isbn_column.csv", b"a,b\n1,2\n", "name it in --column.\n"),
        ("none.txt", None, "cannot be read: No such file or directory\n"),
    ],
)
def test_source_that_is_no_list_is_named_in_words(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    file = tmp_path / name
    if content:
        file.write_bytes(content)

    ended = command("isbn", file)

    assert (ended.code, ended.output) == (1, "")
    assert ended.messages.endswith(said)
    assert str(file) in ended.messages


def test_each_file_of_a_folder_that_is_no_list_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    contents = {
        "a.csv": b"isbn,t\n9780306406157,A\n",
        "b.csv": b"%PDF-1",
        "c.csv": b"a,b\n1,2\n",
        "d.txt": b"9780140449136",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    ended = command("isbn", tmp_path)

    assert ended.code == 1
    assert f"source {tmp_path}/b.csv, line 1: it is not text but a PDF." in ended.output
    assert (
        f"source {tmp_path}/c.csv, line 1: there is no column 'isbn', but 'a', 'b'; name it in --column."
        in ended.output
    )
    assert "2 rows, 2 ISBNs, 0 missing, 0 invalid" in ended.output


def test_an_empty_list_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(b"\n\n")

    ended = command("isbn", file)

    assert (ended.code, ended.output) == (1, f"{file}: txt, encoding utf-8; 0 rows\nThe list holds no rows.\n")


@pytest.mark.parametrize("limit", ["-1", "99999999999999999999"])
def test_a_limit_has_a_range(listed: Path, limit: str) -> None:
    ended = command("isbn", listed, "--limit", limit)

    assert (ended.code, ended.output) == (2, "")
    assert "--limit" in ended.messages


@pytest.mark.parametrize("name", ["isbn", "hot-threads"])
def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "list.txt").write_text("9780140449136\n")
    monkeypatch.chdir(tmp_path)
    ended = command(name, "")
    assert (ended.code, ended.output) == (2, "")
    assert "FILE is the path of a file; not ''." in ended.messages


def test_a_long_list_of_mistakes_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("".join(f"{word}\n" for word in ["q"] * 5 + GOOD[:2] * 2))

    ended = command("isbn", file, "--limit", "1")

    # Once as the commonest reason.
    assert ended.output.count("does not belong in one") == 2
    assert "4 more; --limit lists them, too" in ended.output
    assert "1 more; --limit lists them, too" in ended.output


@pytest.mark.long
def test_memory_does_not_grow_with_the_list() -> None:
    def peak(rows: int) -> int:
        isbns = sample_isbns(rows)
        tracemalloc.start()
        try:
            check = check_list(map(IsbnRow.of, isbns), 20)
            assert (check.figures.rows, check.books, check.figures.invalid) == (rows, rows, 0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # A set of 40,000 numbers takes 4 MB more than one of 10,000.
    peak(100)
    assert peak(40_000) < peak(10_000) + 500_000


@pytest.mark.parametrize(
    ("books", "plan", "bulk", "requests", "seconds"),
    [
        (0, "default", False, 0, 0.0),
        (10, "default", False, 10, 10.0),
        (11, "default", True, 2, 2.0),
        (1_000_000, "pro", False, 1_000_000, 200_000.0),
    ],
)
def test_the_cost(books: int, plan: str, bulk: bool, requests: int, seconds: float) -> None:  # noqa: FBT001
    cost = lookup_cost(books, plan, bulk=bulk)

    assert (cost.requests, cost.seconds, cost.quota) == (requests, seconds, books)
