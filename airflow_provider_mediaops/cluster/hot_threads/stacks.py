"""The stacks in a hot-threads text: groups of snapshots with their frames."""

from __future__ import annotations

import sys
from itertools import islice, repeat
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.hot_threads.grammar import FRAME_LINE, MARGIN, content_of, read_group
from airflow_provider_mediaops.cluster.hot_threads.model import StackGroup
from airflow_provider_mediaops.cluster.hot_threads.parts import PARTS, UNKNOWN

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.parts import Remark

# Frames repeat from stack to stack, and whole groups from thread to thread; each is made once. Bounded, for a text in
# which no two are the same.
_MAX_FRAMES = 5_000
_MAX_GROUPS = 1_000
# Groups are found by their first characters: the group's own line, and more or less of the first frame.
_HEAD = 100
_MAX_ALIKE = 20

# A text that is longer than any Java stack is read in pieces.
_LONGEST_STACK = 1 << 18


class Stacks:
    """The groups of one text, each distinct one read once."""

    def __init__(self) -> None:
        self._count = 0
        self._known: dict[str, list[tuple[StackGroup]]] = {}
        self._frames: dict[str, str] = {}

    def at(self, text: str, start: int) -> tuple[StackGroup] | None:
        """Return the group whose lines stand at a place, if it was read before without a remark; else None."""
        for known in self._known.get(text[start : start + _HEAD], ()):
            if text.startswith(known[0].source, start):
                return known
        return None

    def read(self, source: str, remark: Remark, *, regular: bool) -> tuple[StackGroup]:
        """Read a group of snapshots; it comes in a tuple, as from :meth:`at`."""
        if regular and (known := self.at(source, 0)) and len(known[0].source) == len(source):
            return known
        line_end = source.find("\n") + 1 or len(source)
        snapshots, total, elements = read_group(content_of(source[:line_end]))
        if regular and len(source) <= _LONGEST_STACK:
            frames = self._shared(source[line_end:])
            regular = elements is None or elements == len(frames)
        if not regular or len(source) > _LONGEST_STACK:
            frames = self._read_lines(source, line_end, elements, remark)
        group = (StackGroup(source=source, snapshots=snapshots, total=total, elements=elements, frames=frames),)
        if regular:
            self._keep(group)
        return group

    def _keep(self, group: tuple[StackGroup]) -> None:
        if self._count >= _MAX_GROUPS:
            self._known.clear()
            self._count = 0
        alike = self._known.setdefault(group[0].source[:_HEAD], [])
        if len(alike) == _MAX_ALIKE:
            del alike[0]
        else:
            self._count += 1
        alike.append(group)

    def _read_lines(self, source: str, start: int, elements: int | None, remark: Remark) -> tuple[str, ...]:
        """Read a stack in which lines are missing, of unknown form, or too many."""
        limit = sys.maxsize if elements is None else elements
        frames: list[str] = []
        for part in PARTS.finditer(source, start):
            if part.lastgroup == "other":
                remark(*part.span(), UNKNOWN)
                if elements is None:
                    # Nothing says how long this stack is, so it ends here.
                    limit = len(frames)
            elif part.lastgroup == "frames":
                found, room = self._shared(part["frames"]), limit - len(frames)
                frames.extend(found[:room])
                if len(found) > room:
                    beyond = next(islice(FRAME_LINE.finditer(source, *part.span()), room, None)).start()
                    line = source.rfind("\n", 0, beyond) + 1
                    remark(line, part.end(), "a stack frame beyond the end of its stack")
        if elements is not None and len(frames) < elements:
            remark(0, start, f"{elements} stack frames announced, {len(frames)} found")
        return tuple(frames)

    def _shared(self, lines: str) -> tuple[str, ...]:
        """Return the frames of lines that hold frames or nothing."""
        if len(self._frames) >= _MAX_FRAMES:
            self._frames.clear()
        frames = [frame for frame in map(str.strip, lines.split("\n"), repeat(MARGIN)) if frame]
        return tuple(map(self._frames.setdefault, frames, frames))
