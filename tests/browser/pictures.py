"""
The pictures of the documentation: `make pictures` writes them, and each run of the suite compares what they show.

A file of words is beside each picture. A picture is out of date if the page or the terminal shows other words now;
how many pixels differ does not matter. Words with digits change from run to run, and are left out.
"""

from __future__ import annotations

import base64
import os
import re
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.browser.limits import MOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from playwright.sync_api import Page

FOLDER = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 150_000
TERMINAL_COLUMNS = 110
IS_WRITING = bool(os.environ.get("WRITE_PICTURES"))
_TEXT_WIDTH = 110


def words(text: str) -> list[str]:
    """Return the different words of a text in alphabetical order, without those that have digits."""
    found = {word.strip(".,:;()[]{}\"'…│┃") for word in text.split()}
    return sorted(word for word in found if re.search(r"[^\W_]", word) and not re.search(r"\d", word))


def keep(name: str, picture: bytes, text: str) -> None:
    """
    Write a picture with its words, if pictures are made in this run. If not, make sure that it shows these words.

    :param name: the name of its files in `docs/images`.
    :param picture: the picture as PNG.
    :param text: all that can be read in it.
    """
    assert len(picture) < MAX_BYTES, f"{name}.png has {len(picture):,} bytes: show less"
    shown, file = words(text), FOLDER / f"{name}.txt"
    if IS_WRITING:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.png").write_bytes(picture)
        lines = textwrap.wrap(" ".join(shown), _TEXT_WIDTH, break_long_words=False, break_on_hyphens=False)
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return
    assert shown == _words_before(name), (
        f"docs/images/{name}.png is out of date: run `make pictures`, look at it, and commit it"
    )


def awaited(page: Page, name: str, read: Callable[[], str]) -> str:
    """
    Wait until a page of Airflow's shows the words of a picture: what it shows first, it completes by further requests.

    :param page: the page.
    :param name: the name of the picture.
    :param read: reads all that the picture is to show.
    :returns: the text, whatever it is in the end.
    """
    deadline = time.monotonic() + MOST_SECONDS
    while not IS_WRITING and words(read()) != _words_before(name) and time.monotonic() < deadline:
        page.wait_for_timeout(200)
    return read()


def _words_before(name: str) -> list[str]:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split()


def stacked(page: Page, pictures: Sequence[bytes]) -> bytes:
    """
    Put pictures below each other.

    :param page: an empty page, to draw on.
    :param pictures: pictures as PNG.
    """
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(each).decode()}">' for each in pictures)
    style = "display: inline-flex; flex-direction: column; align-items: center; gap: 8px"
    page.set_content(f'<body style="margin: 0"><div id="all" style="{style}">{images}</div></body>')
    return page.locator("#all").screenshot()


def of_terminal(page: Page, printed: str, *, title: str) -> tuple[bytes, str]:
    """
    Draw a terminal.

    :param page: an empty page, to draw on.
    :param printed: what was printed, with its colors as ANSI escape codes.
    :param title: the title of the window.
    :returns: the picture as PNG, and the text in it.
    """
    text = Text.from_ansi(printed)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=TERMINAL_COLUMNS, file=nowhere, force_terminal=True, legacy_windows=False)
        console.print(text, soft_wrap=False)
        drawn = console.export_svg(title=title, theme=MONOKAI)
    page.route("**/*", lambda route: route.abort())  # it would ask for a font: the machine's own will do
    page.set_content(f'<body style="margin: 0">{drawn}</body>')
    return page.locator("svg").first.screenshot(), text.plain
