"""The stacks that the page draws, as JSON: bounded, each name once, and harmless inside HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.folded import method_of, stacks
from airflow_provider_mediaops.cluster.text import readable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.folded import Measure
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

# About how many characters of JSON the stacks of all captures may take, and how many frames a stack.
_ROOM = 1_000_000
_DEEPEST = 400
# The length of a number in the JSON: up to five digits and a comma.
_NUMBER = 6

# Within a script element only these could end it, or be taken for the beginning of something else; the last two end
# a line in some readers of JavaScript.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


@dataclass(slots=True)
class Room:
    """The room that is left for stacks in the JSON, in which each name is once, and stands for its position."""

    names: dict[str, int]
    left: int

    def place(self, path: Sequence[str], more: int = 0) -> list[int] | None:
        """Return the positions of the names of a stack, with so much beside them; None if there is no room for it."""
        size = more + sum(_NUMBER if name in self.names else _NUMBER + len(name) for name in path)
        if size > self.left:
            return None
        self.left -= size
        return self.positions(path)

    def positions(self, path: Sequence[str]) -> list[int]:
        """Return the positions of names, room or not."""
        return [self.names.setdefault(name, len(self.names)) for name in path]


class FlameStacks:
    """
    Collect the stacks of the flame graph, report by report; no report is kept.

    Frames are named by their methods, so that the lines and run numbers within a method do not split it. The number of
    reports is known before: they share the room evenly. The measure says which threads count.
    """

    def __init__(self, measure: Measure, reports: int) -> None:
        self._measure = measure
        self._room = _ROOM // reports
        self._names: dict[str, int] = {}
        self._kept: list[list[list[float]]] = []
        #: How many different stacks are drawn.
        self.drawn = 0
        #: How many there was no room for; the smallest ones.
        self.left_out = 0
        #: The highest part, from 0 to 1, that those make up of a report.
        self.left_out_part = 0.0

    def add(self, report: HotThreadsReport) -> None:
        """Add the heaviest stacks of the next report, as far as there is room."""
        room = Room(self._names, self._room)
        parts = _parts(report, self._measure)
        rows: list[list[float]] = []
        for path, part in parts:
            positions = room.place(path)
            if positions is None:
                break
            rows.append([round(part, 3), *positions])
        self._kept.append(rows)
        self.drawn += len(rows)
        if len(rows) < len(parts):
            self.left_out += len(parts) - len(rows)
            left_out_part = sum(part for _, part in parts[len(rows) :]) / sum(part for _, part in parts)
            self.left_out_part = max(self.left_out_part, left_out_part)

    def json(self, labels: Sequence[str]) -> str:
        """
        Return the stacks for the page's script.

        It has ``names``, and for each report its ``stacks``; a stack is a list of its part of the thread's amount and
        of positions in ``names``: node, pool, thread, then its frames from the outermost on.
        """
        facts = {"labels": labels, "unit": self._measure.unit, "names": list(self._names), "stacks": self._kept}
        return harmless_json(facts)


def _parts(report: HotThreadsReport, measure: Measure) -> list[tuple[tuple[str, ...], float]]:
    """Return the different stacks of a report, the heaviest first."""
    parts: dict[tuple[str, ...], float] = {}
    for stack in stacks(report, measure):
        if stack.part > 0:
            methods = [readable(method_of(frame)) for frame in stack.frames]
            if len(methods) > _DEEPEST:
                methods[_DEEPEST // 2 : -_DEEPEST // 2] = [f"… {len(methods) - _DEEPEST} frames left out …"]
            path = (readable(stack.node), readable(stack.pool), readable(stack.thread), *methods)
            parts[path] = parts.get(path, 0.0) + stack.part
    return sorted(parts.items(), key=lambda item: -item[1])


def harmless_json(value: object) -> str:
    """Write JSON that can stand within a script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
