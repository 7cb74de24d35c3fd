"""Tables of the documentation that are made of what tests and benchmarks have found."""

from __future__ import annotations

from collections.abc import Iterable

#: A cell that has nothing to say.
NOTHING = "–"  # noqa: RUF001 - a dash


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
