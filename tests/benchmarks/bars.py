"""Draw recorded figures as bars, each beside its peer and its limit, in SVG that follows the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from tests.benchmarks.results import with_unit

if TYPE_CHECKING:
    from tests.benchmarks.results import Row

_WIDTH, _BARS, _LINE, _BAR = 500, 180, 17, 11
_STYLE = "width:100%;max-width:40rem;font-size:12px"


def bars(rows: Iterable[Row]) -> str:
    """Return a picture: for each figure a bar as long as its share of the largest of figure, peer and limit."""
    parts, y = [], 0
    for row in rows:
        if row.peer_figure is None and row.limit is None:
            continue
        largest = max(filter(None, (row.ours, row.peer_figure, row.bound)))
        parts.append(_text(0, y + _LINE, row.what, bold=True))
        y += _LINE + 5
        top = y
        for name, figure, opacity in (("this provider", row.ours, 1), (row.peer, row.peer_figure, 0.35)):
            if name is None or figure is None:
                continue
            length = max(1.0, _BARS * figure / largest)
            parts.append(
                f'<rect y="{y}" width="{length:.1f}" height="{_BAR}" fill="currentColor" opacity="{opacity}"/>'
            )
            parts.append(_text(_BARS + 8, y + _BAR - 1, f"{with_unit(figure, row.unit)}: {name}"))
            y += _LINE
        if row.bound is not None:
            x = _BARS * row.bound / largest
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 3}" y2="{y - 2}" stroke="#d33" stroke-width="2"/>'
            )
        y += 4
    inner = "\n".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH} {y}" style="{_STYLE}" role="img" aria-label="Bars">\n{inner}\n</svg>\n'


def _text(x: int, y: int, words: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="currentColor"{weight}>{escape(words)}</text>'
