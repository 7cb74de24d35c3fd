"""The built documentation: no page scrolls sideways, wide or narrow, and every picture is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.limits import MOST_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = Path(__file__).parents[2] / "docs"
WIDE, NARROW = 1400, 400
# What is wider than the screen: the page itself, and each table that has to be moved to read it.
SIDEWAYS = """() => ({
    page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    tables: [...document.querySelectorAll(".table-wrapper")]
        .filter((table) => table.scrollWidth > table.clientWidth + 1).map((table) => table.innerText.slice(0, 60)),
    pictures: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src),
})"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="Sphinx is not installed")
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", DOCS, folder], check=True, timeout=900)
    return folder


def test_no_page_scrolls_sideways(chromium: Browser, built: Path) -> None:
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > len(list(DOCS.glob("guides/*.md")))
    with chromium.new_page() as page:
        page.set_default_timeout(MOST_SECONDS * 1000)
        for file in pages:
            page.goto(file.as_uri())
            for width in (WIDE, NARROW):
                page.set_viewport_size({"width": width, "height": 900})
                found = page.evaluate(SIDEWAYS)
                assert found == {"page": 0, "tables": [], "pictures": []}, (file.name, width)
