"""The pictures of the documentation are small, and each is shown somewhere. `make pictures` makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import pictures

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def test_each_picture_is_small_and_shown() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = sorted(pictures.FOLDER.glob("*.png"))
    assert len(files) >= 10
    assert [file.name for file in files if f"images/{file.name})" not in shown] == []
    assert [file.name for file in files if file.stat().st_size >= pictures.MAX_BYTES] == []
