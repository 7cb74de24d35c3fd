"""Ratios beside the recorded ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRIES = 3
#: So much worse than the recorded ratio is a failure.
MOST_WORSE = 1.25


def compared(
    measures: Mapping[str, Callable[[], float]], recorded: Mapping[str, float]
) -> dict[str, tuple[float, bool]]:
    """
    Measure each ratio, again if it is too much worse than the recorded one.

    :returns: each ratio, the best that was measured, and whether it is good.
    """
    found = {}
    for name, measure in measures.items():
        most = recorded[name] * MOST_WORSE
        best = measure()
        for _ in range(TRIES - 1):
            if best > most:
                best = min(best, measure())
        found[name] = best, best <= most
    return found
