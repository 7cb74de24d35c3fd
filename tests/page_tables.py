"""Tables of the documentation that are written from what tests and benchmarks have found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: A cell that has nothing to say.
NOTHING = "–"  # noqa: RUF001 - a dash


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """
    Return a table in Markdown.

    :param header: the names of the columns.
    :param rows: the cells of each row.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fill(page: str, subject: str, make: Callable[[str], str]) -> str:
    """
    Fill the tables of a page.

    :param page: the page, with a comment such as `<!-- faults: lasting -->` before each table.
    :param subject: the word before the colon.
    :param make: returns the table whose name is after the colon.
    :returns: the page with these tables.
    """
    marked = re.compile(rf"(?P<head><!-- {subject}: (?P<name>[a-z_ ]+) -->\n\n)(?:\|.*\n)*")
    return marked.sub(lambda found: found["head"] + make(found["name"]), page)
