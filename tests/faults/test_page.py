"""docs/faults.md shows the tables of the suite."""

from __future__ import annotations

from tests.faults.page import PAGE, with_tables
from tests.page_tables import NOTHING


def test_the_page_is_that_of_the_suite() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "python -m tests.faults.page"
    assert page.count("| connection reset; ") == 1


def test_no_outcome_is_shown_that_no_cell_of_the_suite_has() -> None:
    lines = [[cell.strip() for cell in line.split("|")] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    shown = {name: cells[3:6] for cells in lines if len(cells) == 7 for name in cells[1].split("; ")}
    assert shown["a page token that repeats"] == [NOTHING] * 3
    assert shown["500, once"][2] == NOTHING
    assert NOTHING not in shown["500"]
