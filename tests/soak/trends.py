"""Trends of figures that were read again and again: by how much they grow, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, median

_HOUR = 3_600.0
# Readings that follow each other are alike, and would make a trend look surer than it is: those of a block count once.
_BLOCKS = 12
_FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class Trend:
    """The trend of a figure."""

    level: float
    per_hour: float
    error: float

    @property
    def is_sure_to_exceed(self) -> float:
        """The growth in an hour that the real one exceeds almost surely: three errors less than what was seen."""
        return self.per_hour - 3 * self.error

    def __str__(self) -> str:
        return f"{self.level:12,.1f} {self.per_hour:+12,.1f} ± {self.error:,.1f}"


def trend_of(seconds: Sequence[float], values: Sequence[float]) -> Trend:
    """Fit a line to a figure."""
    size = math.ceil(len(values) / _BLOCKS)
    starts = range(0, len(values), size) if size else range(0)
    if len(starts) < _FEWEST_BLOCKS:
        raise ValueError(f"A trend needs {_FEWEST_BLOCKS} readings or more, not {len(values)}.")
    hours = [fmean(seconds[start : start + size]) / _HOUR for start in starts]
    # A single reading may have met the moment of a large reply.
    levels = [median(values[start : start + size]) for start in starts]
    slope, intercept = linear_regression(hours, levels)
    left = sum((level - intercept - slope * hour) ** 2 for hour, level in zip(hours, levels, strict=True))
    middle = fmean(hours)
    spread = sum((hour - middle) ** 2 for hour in hours)
    return Trend(fmean(levels), slope, math.sqrt(left / (len(hours) - 2) / spread))
