"""The pictures of the documentation: each small, with its words, and shown somewhere. The browser suite makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import pictures

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
PNG = b"\x89PNG\r\n\x1a\n"
NAMES = sorted(file.stem for file in pictures.FOLDER.glob("*.png"))


def test_each_picture_has_its_words() -> None:
    assert NAMES
    assert sorted(file.stem for file in pictures.FOLDER.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_small_and_shown(name: str) -> None:
    picture = (pictures.FOLDER / f"{name}.png").read_bytes()
    assert picture.startswith(PNG)
    assert len(picture) < pictures.MAX_BYTES
    assert any(f"images/{name}.png)" in page.read_text(encoding="utf-8") for page in PAGES)


class TestWords:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(pictures, "FOLDER", tmp_path)
        monkeypatch.setattr(pictures, "IS_WRITING", True)
        pictures.keep("form", PNG, "Add Connection\nPort 9200 (of the cluster), *")
        monkeypatch.setattr(pictures, "IS_WRITING", False)
        return tmp_path

    def test_those_without_digits_are_kept(self, folder: Path) -> None:
        assert (folder / "form.txt").read_text() == "Add Connection Port cluster of the\n"
        assert (folder / "form.png").read_bytes() == PNG

    @pytest.mark.parametrize("text", ["Connection (Port) Add of the cluster", "Add Connection Port 443 of the cluster"])
    @pytest.mark.usefixtures("folder")
    def test_their_order_and_what_has_digits_may_change(self, text: str) -> None:
        pictures.keep("form", b"other pixels", text)

    @pytest.mark.parametrize("text", ["Add Connection Port cluster of", "Add a Connection Port of the cluster", ""])
    @pytest.mark.usefixtures("folder")
    def test_another_word_makes_a_picture_out_of_date(self, text: str) -> None:
        with pytest.raises(AssertionError, match="make pictures"):
            pictures.keep("form", PNG, text)

    @pytest.mark.usefixtures("folder")
    def test_a_picture_that_is_too_large_is_not_kept(self) -> None:
        with pytest.raises(AssertionError, match="150,001 bytes"):
            pictures.keep("form", bytes(150_001), "Add Connection Port cluster of the")
