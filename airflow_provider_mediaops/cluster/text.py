"""Make text of a cluster fit to be shown: without invisible characters, and bounded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.cluster.folded import visible

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.folded import Measure

# The names of indices and methods are shorter.
_LONGEST_NAME = 300

_UNSURE = re.compile(r"[^ -~]+")
_UNSURE_IN_TEXT = re.compile(r"[^\n\t -~]+")


# Below, a digit after the point is worth its place.
_FEW_MS = 10.0
_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1_000.0, 60_000.0, 3_600_000.0

# A line between two reports, such as the date, makes no figure doubtful.
_NEARLY_ALL_PERCENT = 95.0


class Excerpt(NamedTuple):
    """The beginning of a text: whole lines of it, as far as there was room."""

    text: str
    left_out: int


def readable(name: str, longest: int = _LONGEST_NAME) -> str:
    r"""Make one line of a name or a frame that may hold anything; invisible characters become `\n` and the like."""
    shown = _UNSURE.sub(_seen, name[: longest + 1])
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def excerpt(text: str, most: int) -> Excerpt:
    """Take the first lines of a long text, as :func:`readable` writes names, but with their ends."""
    if len(text) > most:
        # A line longer than all the room is cut wherever the room ends.
        cut = text.rfind("\n", 0, most) + 1 or most
        return Excerpt(excerpt(text[:cut], most).text, len(text) - cut)
    return Excerpt(_UNSURE_IN_TEXT.sub(_seen, text.replace("\r\n", "\n")), 0)


def _seen(match: re.Match[str]) -> str:
    return "".join(map(visible, match[0]))


def figure(amount: float, measure: Measure) -> str:
    """Write an amount with its unit: `96.1 %`, `1.2 MB`, `0.4 threads`."""
    if measure.unit == "percent":
        return f"{amount:.1f} %"
    if measure.unit == "threads":
        return f"{amount:.1f} threads"
    # The servers count in steps of 1024, too.
    for unit in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1024:  # noqa: PLR2004
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"


def difference(amount: float, measure: Measure) -> str:
    """Write by how much something grew, with a sign; of percentages, in percentage points."""
    written = figure(abs(amount), measure)
    is_zero = written == figure(0.0, measure)
    if measure.unit == "percent":
        # Of two percentages: 20 % to 30 % is a half more.
        written = f"{abs(amount):.1f} points"
    return f"{'±' if is_zero else '+' if amount > 0 else '−'}{written}"  # noqa: RUF001 - the sign, not a hyphen


def share_in_words(percent: float) -> str:
    """Write a share of a text, such as `62 %`; a small one is not called none, nor a large one all."""
    if 0 < percent < 1:
        return "less than 1 %"
    return "more than 99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004


def in_what_was_read(percent: float) -> str:
    """Say how much of a text the figures are about, in percent; empty if that is nearly all."""
    return "" if percent >= _NEARLY_ALL_PERCENT else f" in what was read, {share_in_words(percent)} of the text"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Join names as a sentence does, `a, b and 3 more`; none is an empty text."""
    words = [readable(name) for name in names[:most]]
    if len(names) > most:
        words.append(f"{len(names) - most} more")
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def duration(milliseconds: float | None) -> str:
    """Write a duration: `1.4 ms`, `464 ms`, `4.2 s`, `12.5 min`, `30.1 h`."""
    if milliseconds is None:
        return "unknown"
    if milliseconds < _SECOND_MS:
        return f"{milliseconds:.{int(0 < milliseconds < _FEW_MS)}f} ms"
    for unit, length, most in (("s", _SECOND_MS, _MINUTE_MS), ("min", _MINUTE_MS, _HOUR_MS)):
        if milliseconds < most:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds / _HOUR_MS:,.1f} h"
