"""The pictures of the documentation, which `make pictures` writes."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 150_000
TERMINAL_COLUMNS = 110
#: Whether this run of the suite makes them; no other collects what draws them.
IS_WRITING = bool(os.environ.get("WRITE_PICTURES"))


def keep(name: str, picture: bytes) -> None:
    """
    Write a picture.

    :param name: the name of its file in `docs/images`.
    """
    assert len(picture) < MAX_BYTES, f"{name}.png has {len(picture):,} bytes: show less"
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.png").write_bytes(picture)


def stacked(page: Page, pictures: Sequence[bytes]) -> bytes:
    """Put pictures below each other."""
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(each).decode()}">' for each in pictures)
    style = "display: inline-flex; flex-direction: column; align-items: center; gap: 8px"
    page.set_content(f'<body style="margin: 0"><div id="all" style="{style}">{images}</div></body>')
    return page.locator("#all").screenshot()


def of_terminal(page: Page, printed: str, *, title: str) -> bytes:
    """Draw a terminal."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=TERMINAL_COLUMNS, file=nowhere, force_terminal=True, legacy_windows=False)
        console.print(Text.from_ansi(printed), soft_wrap=False)
        drawn = console.export_svg(title=title, theme=MONOKAI)
    page.route("**/*", lambda route: route.abort())  # it would ask for a font: the machine's own will do
    page.set_content(f'<body style="margin: 0">{drawn}</body>')
    return page.locator("svg").first.screenshot()
