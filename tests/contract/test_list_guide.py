"""The DAGs of docs/guides/enrich_isbns.md, each run on a list of the kind that it is about."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator

from scripts import shown_code
from tests.contract import dag_runs
from tests.unit.workbooks import workbook

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets" / "lists"
# Records of the sandbox; the last one has lost its zeros.
CRIME, PROGRAMMING, CALENDAR, SHORT = "9780140449136", "9780131103627", "9780306406157", "306406152"
#: The list of each DAG, as a text or as the rows of a workbook; and the books that are looked up, row by row.
LISTS: dict[str, tuple[str, str | list[list[Any]], list[str | None]]] = {
    "enrich": ("isbns.txt", f"{CRIME}\n0-306-40615-2\n", [CRIME, CALENDAR]),
    "goodreads": (
        "goodreads_library_export.csv",
        f'Book Id,Title,ISBN,ISBN13,My Rating\n1,"A, B",="",="{CRIME}",4\n2,=1+1,="0306406152",="",0\n3,C,="",="",5\n',
        [CRIME, CALENDAR, None],
    ),
    "library_system": (
        "report.csv",
        f'biblionumber,020$a\n1,"{CRIME} (pbk.) : $9.99 | {PROGRAMMING} (hardback)"\n2,$a {CALENDAR}\n',
        [CRIME, PROGRAMMING, CALENDAR],
    ),
    "excel": ("stock.xlsx", [["Title", "ISBN"], ["A", int(CRIME)], ["B", int(SHORT)]], [CRIME, CALENDAR]),
    "spark": ("day=1/part-00000.csv", f'title,isbn\n"He said \\"hi\\"",{CRIME}\nB,{CALENDAR}\n', [CRIME, CALENDAR]),
    "query": ("unused", "", [CRIME, CALENDAR]),
}


def written(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a dataset."""
    if file.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
        return rows
    text = file.read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines())) if file.suffix == ".csv" else [*map(json.loads, text.splitlines())]


@pytest.mark.usefixtures("airflow_db", "sandbox")
@pytest.mark.parametrize("name", LISTS)
def test_a_dag_of_the_guide_looks_up_the_books_of_its_list(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, content, books = LISTS[name]
    source = tmp_path / file
    source.parent.mkdir(exist_ok=True)
    if isinstance(content, str):
        source.write_text(content, encoding="utf-8")
    else:
        workbook(source, {"Stock": content})
    monkeypatch.setattr(SQLExecuteQueryOperator, "execute", lambda *_, **__: [[CRIME], [CALENDAR]])

    run = dag_runs.run_file(SNIPPETS / f"{name}.py", folder=str(tmp_path))

    rows = written(Path(run.values["enrich"]["path"]))
    assert [row["isbn13"] or None for row in rows] == books
    assert {row["status"] for row in rows if row["isbn13"]} <= {"found", "not_found"}
    assert run.state == "success"


def test_the_guide_shows_all_of_them() -> None:
    page = (ROOT / "docs" / "guides" / "enrich_isbns.md").read_text(encoding="utf-8")

    files = {f"docs/snippets/lists/{name}.py" for name in LISTS}
    assert {f"docs/snippets/lists/{file.name}" for file in SNIPPETS.iterdir() if file.is_file()} == files
    assert files <= set(shown_code.files_of(page))
