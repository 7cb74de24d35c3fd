"""The stacks of a text, each kept once: frames repeat from stack to stack, whole groups from thread to thread."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.hot_threads.grammar import MARGIN

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import StackGroup

# Bounded, for a text in which no two are the same.
_MAX_FRAMES = 5_000
_MAX_GROUPS = 1_000
# Groups are found by their first characters: the group's own line, and more or less of the first frame.
_HEAD = 100
_MAX_ALIKE = 20


class KnownStacks:
    """The groups and frames that were read before in a text."""

    def __init__(self) -> None:
        self._count = 0
        self._groups: dict[str, list[tuple[StackGroup]]] = {}
        self._frames: dict[str, str] = {}

    def at(self, text: str, start: int) -> tuple[StackGroup] | None:
        """Return the known group whose lines stand at a place; it comes in a tuple, as a thread with one group has."""
        # The last one may be an earlier one and the blank lines below.
        for known in reversed(self._groups.get(text[start : start + _HEAD], ())):
            if text.startswith(known[0].source, start):
                return known
        return None

    def kept(self, group: tuple[StackGroup]) -> tuple[StackGroup]:
        """Keep a group that was understood as a whole; return the one that has the same lines, if there is one."""
        source = group[0].source
        for known in self._groups.get(source[:_HEAD], ()):
            if known[0].source == source:
                return known
        if self._count >= _MAX_GROUPS:
            self._groups.clear()
            self._count = 0
        alike = self._groups.setdefault(source[:_HEAD], [])
        if len(alike) == _MAX_ALIKE:
            del alike[0]
        else:
            self._count += 1
        alike.append(group)
        return group

    def frames(self, lines: str) -> list[str]:
        """Return the frames of lines that hold frames or nothing."""
        if len(self._frames) >= _MAX_FRAMES:
            self._frames.clear()
        frames = [frame for frame in map(str.strip, lines.split("\n"), repeat(MARGIN)) if frame]
        return list(map(self._frames.setdefault, frames, frames))
