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
    ended = command("isbn", listed, "--plan", "premium", "--quota", "1", "--output", "json")

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
    costs = [(cost["plan"], cost["bulk"], cost["requests"], cost["days"]) for cost in document["costs"]]
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


def test_the_standard_input_has_a_format() -> None:
    ended = command("isbn", "-", "--format", "csv", stdin=b"isbn\n9780306406157\nx\n")

    assert ended.code == 1
    assert ended.output.startswith("the standard input: csv, ")
    assert "2 rows, 1 ISBN, 0 missing, 1 invalid, 0 repeated; books to look up: 1" in ended.output


def test_the_standard_input_is_read_without_other_files(listed: Path) -> None:
    ended = command("isbn", "-", listed, stdin=b"9780306406157")

    assert (ended.code, ended.output) == (2, "")
    assert "without other files" in ended.messages


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.txt", b"\x00\x01\x02", "line 1: it is not text (it holds NUL bytes).\n"),
        ("isbn_column.csv", b"a,b\n1,2\n", "name it in --column.\n"),
        ("none.txt", None, "cannot be read: No such file or directory\n"),
        ("-", b"\x00", "isbn: source the standard input, line 1: it is not text (it holds NUL bytes).\n"),
    ],
)
def test_source_that_is_no_list_is_named_in_words(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    file = name if name == "-" else tmp_path / name
    if content and name != "-":
        (tmp_path / name).write_bytes(content)

    ended = command("isbn", file, stdin=content or b"")

    assert (ended.code, ended.output) == (1, "")
    assert ended.messages.endswith(said)
    assert name == "-" or str(file) in ended.messages


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


@pytest.mark.parametrize(("option", "value"), [("--limit", "-1"), ("--quota", "0")])
def test_numbers_have_a_range(listed: Path, option: str, value: str) -> None:
    ended = command("isbn", listed, option, value)

    assert (ended.code, ended.output) == (2, "")
    assert option in ended.messages


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
    ("books", "plan", "bulk", "quota", "expected"),
    [
        (0, "default", False, None, (0, 0.0, None)),
        (10, "default", False, None, (10, 10.0, None)),
        (11, "default", True, None, (2, 2.0, None)),
        (1_000_000, "pro", False, None, (1_000_000, 200_000.0, None)),
        # 200 days, the last of which asks for the last 5,000.
        (1_000_000, "default", False, 5_000, (1_000_000, 199 * 86_400 + 5_000.0, 200)),
        (1_000_000, "pro", True, 5_000, (1_000, 199 * 86_400 + 1.0, 200)),
        # One request a second is less than the quota allows.
        (100_000, "default", False, 90_000, (100_000, 100_000.0, 2)),
        (5_000, "default", False, 5_000, (5_000, 5_000.0, 1)),
        (5_001, "default", False, 5_000, (5_001, 86_400 + 1.0, 2)),
    ],
)
def test_the_cost(
    books: int,
    plan: str,
    bulk: bool,  # noqa: FBT001 - a parameter of the test
    quota: int | None,
    expected: tuple[int, float, int | None],
) -> None:
    cost = lookup_cost(books, plan, bulk=bulk, daily_quota=quota)

    assert (cost.requests, cost.seconds, cost.days) == expected
    assert cost.quota == books
