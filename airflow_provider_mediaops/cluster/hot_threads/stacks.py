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
_MOST_KNOWN_FRAMES = 5_000
_MOST_KNOWN_GROUPS = 1_000

# What is longer than any stack of Java's is read in pieces.
_LONGEST_STACK = 1 << 18


class Stacks:
    """The groups of one text.

    :ivar known: those that were read without a remark, by their lines.
    """

    def __init__(self) -> None:
        self.known: dict[str, StackGroup] = {}
        self._frames: dict[str, str] = {}

    def read(self, source: str, remark: Remark, *, regular: bool) -> StackGroup:
        """Read a group of snapshots.

        :param source: its lines, from its own up to the next group, thread or node.
        :param remark: takes down what is not understood.
        :param regular: whether nothing but frames follows its own line.
        :returns: the group.
        """
        line_end = source.find("\n") + 1 or len(source)
        snapshots, total, elements = read_group(content_of(source[:line_end]))
        if regular and len(source) <= _LONGEST_STACK:
            frames = self._shared(source[line_end:])
            regular = elements is None or elements == len(frames)
        if not regular or len(source) > _LONGEST_STACK:
            frames = self._read_lines(source, line_end, elements, remark)
        group = StackGroup(source=source, snapshots=snapshots, total=total, elements=elements, frames=frames)
        if regular:
            if len(self.known) >= _MOST_KNOWN_GROUPS:
                self.known.clear()
            self.known[source] = group
        return group

    def _read_lines(self, source: str, start: int, elements: int | None, remark: Remark) -> tuple[str, ...]:
        """Read a stack in which lines are missing, of unknown form, or too many."""
        most = sys.maxsize if elements is None else elements
        frames: list[str] = []
        for part in PARTS.finditer(source, start):
            if part.lastgroup == "other":
                remark(*part.span(), UNKNOWN)
                if elements is None:
                    # Nothing says how long this stack is, so it ends here.
                    most = len(frames)
            elif part.lastgroup == "frames":
                found, room = self._shared(part["frames"]), most - len(frames)
                frames.extend(found[:room])
                if len(found) > room:
                    beyond = next(islice(FRAME_LINE.finditer(source, *part.span()), room, None)).start()
                    line = source.rfind("\n", 0, beyond) + 1
                    remark(line, part.end(), "a stack frame beyond the end of its stack")
        if elements is not None and len(frames) < elements:
            remark(0, start, f"{elements} stack frames announced, {len(frames)} found")
        return tuple(frames)

    def _shared(self, lines: str) -> tuple[str, ...]:
        """The frames in lines that hold nothing else, or are blank."""
        if len(self._frames) >= _MOST_KNOWN_FRAMES:
            self._frames.clear()
        frames = [frame for frame in map(str.strip, lines.split("\n"), repeat(MARGIN)) if frame]
        return tuple(map(self._frames.setdefault, frames, frames))
