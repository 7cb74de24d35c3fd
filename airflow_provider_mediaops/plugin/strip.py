"""Draw a capture in a strip a few pixels high: its flame graph without names, and without what all stacks share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.comparison import method_of
from airflow_provider_mediaops.cluster.folded import measures, stacks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

_MOST_LEVELS = 6
_MOST_BARS = 150
# In percent of the strip.
_NARROWEST = 0.4
# The libraries and their colors are those of the page's flame graph (flame.js).
_LIBRARIES = (
    ("jdk", re.compile(r"(java|javax|jdk|sun|com\.sun)\.")),
    ("lucene", re.compile(r"org\.apache\.lucene\.")),
    ("server", re.compile(r"org\.(elasticsearch|opensearch)\.")),
    ("netty", re.compile(r"io\.netty\.")),
)


@dataclass(frozen=True, slots=True)
class StripBar:
    """
    A bar of the strip.

    :param level: its level, from 0 for the callers.
    :param left: where it begins, in percent of the strip.
    :param width: its width, in percent of the strip.
    :param kind: whose code it is: ``jdk``, ``lucene``, ``server``, ``netty`` or ``other``; ``place`` for a pool.
    """

    level: int
    left: float
    width: float
    kind: str


@dataclass(slots=True)
class _Branch:
    amount: float = 0.0
    below: dict[str, _Branch] = field(default_factory=dict)


def strip_of(report: HotThreadsReport) -> tuple[StripBar, ...]:
    """
    Return the strip of a report.

    :param report: the report.
    :returns: its bars, level by level within each caller; none if nothing was hot.
    """
    measure = measures([report])[0]
    root = _Branch()
    for stack in stacks(report, measure):
        if stack.part > 0:
            branch = root
            branch.amount += stack.part
            for name in (stack.pool, *map(method_of, stack.frames)):
                branch = branch.below.setdefault(name, _Branch())
                branch.amount += stack.part
    if not root.amount:
        return ()
    bars = sorted(_bars(root, root.amount), key=lambda bar: (bar.level, -bar.width))
    return tuple(bars[:_MOST_BARS])


def _bars(root: _Branch, whole: float) -> Iterator[StripBar]:
    # What is left to draw: a branch, where it begins, its level, and whether its bars are pools.
    rest = [(root, 0.0, 0, True)]
    while rest:
        branch, left, level, is_pool = rest.pop()
        for name, child in sorted(branch.below.items(), key=lambda item: -item[1].amount):
            width = 100 * child.amount / whole
            if width >= _NARROWEST:
                yield StripBar(level, round(left, 2), round(width, 2), "place" if is_pool else _kind(name))
                if level + 1 < _MOST_LEVELS:
                    rest.append((_fork(child), left, level + 1, False))
            left += width


def _fork(branch: _Branch) -> _Branch:
    """Return the first branch on the way down at which stacks part, or one before the last frame."""
    while len(branch.below) == 1:
        (only,) = branch.below.values()
        if not only.below or only.amount < branch.amount:
            break
        branch = only
    return branch


def _kind(method: str) -> str:
    return next((kind for kind, pattern in _LIBRARIES if pattern.match(method)), "other")
