"""docs/faults.md gets the tables of the suite."""

from __future__ import annotations

from pathlib import Path

from scripts.generated_docs import filled
from tests.page_tables import NOTHING

PAGE = filled((Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8"))


def test_the_page_has_each_fault_in_its_table() -> None:
    assert PAGE.count("| connection reset; ") == 1
    assert "| 500, once; " in PAGE or "; 500, once; " in PAGE
    for fault in ("disk full", "store unreachable"):
        assert PAGE.count(f"| {fault} | ") == 3


def test_no_outcome_is_shown_that_no_cell_of_the_suite_has() -> None:
    lines = [[cell.strip() for cell in line.split("|")] for line in PAGE.splitlines()]
    shown = {name: cells[3:6] for cells in lines if len(cells) == 7 for name in cells[1].split("; ")}
    assert shown["a page token that repeats"] == [NOTHING] * 3
    assert shown["500, once"][2] == NOTHING
    assert NOTHING not in shown["500"]
