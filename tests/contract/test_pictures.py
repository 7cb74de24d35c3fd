"""The pictures of the documentation are small, and each is shown somewhere. `make pictures` makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import pictures

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
NAMES = sorted(file.stem for file in pictures.FOLDER.glob("*.png"))


def test_there_are_pictures() -> None:
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_small_and_shown(name: str) -> None:
    picture = (pictures.FOLDER / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(picture) < pictures.MAX_BYTES
    assert any(f"images/{name}.png)" in page.read_text(encoding="utf-8") for page in PAGES)
