"""The sections and tables of a page in Markdown."""

from __future__ import annotations

import re

_CELL = re.compile(r"(?<!\\)\|")


def sections(page: str) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of the first table, by the names of its columns."""
    lines = re.search(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    if lines is None:
        return []
    header, _, *rows = ([cell.strip() for cell in _CELL.split(line)[1:-1]] for line in lines[0].splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]
