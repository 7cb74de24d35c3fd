"""The outputs that the documentation shows of commands that read files are real ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts import shown_code
from tests.unit.cli.commands import command

ROOT = Path(__file__).parents[3]
SNIPPETS = ROOT / "docs" / "snippets" / "command_line"
REPORT = ROOT / "tests" / "data" / "hot_threads" / "opensearch-3.8.0-cpu.txt"


@pytest.mark.parametrize(("name", "code"), [("hot_threads", 0), ("isbn", 1)])
def test_files_are_shown_as_they_are_read(
    name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(REPORT, tmp_path / "hot_threads.txt")
    shutil.copy(SNIPPETS / "orders.txt", tmp_path / "orders.txt")
    monkeypatch.chdir(tmp_path)
    typed, _, shown = (SNIPPETS / f"{name}.txt").read_text(encoding="utf-8").partition("\n")

    ended = command(*typed.removeprefix("$ airflow mediaops ").split())

    # A column is as wide as its longest path, which is another in a test.
    printed, shown = (re.sub(r" {2,}", "  ", text) for text in (ended.output, shown))
    assert (ended.code, printed, ended.messages) == (code, shown, "")


def test_the_page_shows_all_of_them() -> None:
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")

    assert set(shown_code.files_of(page)) == {f"docs/snippets/command_line/{path.name}" for path in SNIPPETS.iterdir()}
