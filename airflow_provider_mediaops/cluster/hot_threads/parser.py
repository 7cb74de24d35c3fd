"""
Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, from front to back, and cut into its parts (nodes, threads, groups of snapshots), so that
each piece belongs to one part and none is left out. Lines that are not understood, missing or cut off are listed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.cluster.hot_threads.grammar import (
    FRAME_LINE,
    HEADER,
    MARGIN,
    PARTS,
    read_group,
    read_sampling,
    read_usage,
)
from airflow_provider_mediaops.cluster.hot_threads.headers import read_header
from airflow_provider_mediaops.cluster.hot_threads.model import (
    HotNode,
    HotThread,
    HotThreadsReport,
    StackGroup,
    Unparsed,
)

if TYPE_CHECKING:
    import re

# A text of millions of lines that are each wrong in another way shall not cost many times its size.
_MAX_REMARKS = 10_000
# Bounded, for a text in which no two are the same.
_MAX_FRAMES, _MAX_GROUPS = 5_000, 1_000
# Groups are found by their first characters: the group's own line, and more or less of the first frame.
_HEAD = 100
# What may stand below the line of a group.
_IN_A_STACK = ("frames", "other", "blank", "failure")
# Of lines where they begin no part and belong to none.
_OUT_OF_PLACE = {"frames": "a stack frame outside a stack", "group": "a stack without a thread"}
_UNKNOWN = "not a line of a hot-threads report"


def parse(text: str) -> HotThreadsReport:
    """
    Read a hot-threads text. Any text gives a report, and nothing is raised.

    :param text: the reply of `/_nodes/hot_threads`, whole, cut off, or as people paste it.
    :returns: the report, with the lines that were not understood in `unparsed`; its `render()` returns `text`. If the
        text stood in a log, in JSON or in a web page, or its lines were broken, `wrappings` says so.
    """
    report = _Parser(text).report()
    return _unwrapped(text, report) if report.unparsed else report


def _unwrapped(text: str, report: HotThreadsReport) -> HotThreadsReport:
    """Return the report of a text without its wrappings, if more of it can be read then."""
    from airflow_provider_mediaops.cluster.hot_threads.wrapping import wrappings

    best, most, plain = report, _amount_read(report), text
    taken_off: tuple[str, ...] = ()
    for name, take_off in wrappings(text):
        if not best.unparsed:
            break
        without = take_off(plain)
        if without == plain:
            continue
        other = _Parser(without).report()
        amount = _amount_read(other)
        if amount < most:
            continue
        # One wrapping may hide another one.
        plain, taken_off = without, (*taken_off, name)
        if amount > most:
            best, most = replace(other, wrappings=taken_off, original=text), amount
    return best


def _amount_read(report: HotThreadsReport) -> int:
    """Return how many frames, names, attributes, figures and times were read."""
    amount = 0
    for node in report.nodes:
        sampling = (node.timestamp_text, node.interval, node.busiest_threads, node.ignore_idle_threads)
        amount += bool(node.name or node.node_id) + len(node.attributes) + len(sampling) - sampling.count(None)
        for thread in node.threads:
            amount += bool(thread.name) + (thread.amount is not None)
            amount += sum(len(group.frames) for group in thread.groups)
    return amount


@dataclass(slots=True)
class _OpenGroup:
    """A group of snapshots whose lines are being read."""

    snapshots: int
    total: int | None
    elements: int | None
    most: int  # frames that belong to it
    frames: list[str] = field(default_factory=list)
    is_regular: bool = True  # whether all of its lines were understood


class _Parser:
    """The part of a text that is being read, the node and the thread that it belongs to, and all that is complete."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._remarks: list[tuple[int, int, str]] = []  # where lines are that were not understood, and why
        self._kind: Literal["before", "node", "thread", "group"] = "before"  # of the part that is being read
        self._line = (0, 0)  # where its first line is
        self._before = ""
        self._nodes: list[HotNode] = []
        self._node: dict[str, Any] = {}
        self._node_name: str | None = None
        self._has_header = False
        self._needs_sampling = False  # whether a sampling line should follow the header, and did not yet
        self._threads: list[HotThread] = []
        self._thread: dict[str, Any] | None = None
        self._groups: list[StackGroup] = []
        self._group: _OpenGroup | None = None
        # Frames repeat from stack to stack, whole groups from thread to thread: each is kept once.
        self._known_frames: dict[str, str] = {}
        self._known_groups: dict[str, list[StackGroup]] = {}
        self._known_count = 0

    def report(self) -> HotThreadsReport:
        part = self._part_at(0)
        while part:
            part = self._read(part)
        self._end_part(len(self._text))
        if self._kind == "thread":
            self._remark(*self._line, "the text ends before this thread's stack")
        self._end_node()
        if self._before.strip() and not self._nodes:
            self._nodes, self._before = [HotNode(source=self._before)], ""
        return HotThreadsReport(source=self._before, nodes=tuple(self._nodes), unparsed=self._unparsed())

    def _part_at(self, position: int) -> re.Match[str] | None:
        return PARTS.match(self._text, position) if position < len(self._text) else None

    def _read(self, part: re.Match[str]) -> re.Match[str] | None:
        """Read lines of one form; return those that follow."""
        form = part.lastgroup
        if form == "group" and self._thread is not None:
            self._begin("group", part)
            if known := self._known_group(part.start()):
                following = self._part_at(part.start() + len(known.source))
                if following is None or following.lastgroup not in _IN_A_STACK:
                    self._groups.append(known)
                    return following
            snapshots, total, elements = read_group(part[form])
            self._group = _OpenGroup(snapshots, total, elements, sys.maxsize if elements is None else elements)
        elif form == "thread":
            self._read_thread(part)
        elif form == "node":
            self._read_header(part)
        elif form == "sampling":
            self._read_sampling(part)
        elif form == "failure" and self._needs_sampling and self._kind == "node":
            self._node["failure"], self._needs_sampling = part[form].rstrip(), False
        elif self._group is not None:
            self._read_stack(part, self._group)
        elif form != "blank":
            self._remark(*part.span(), _OUT_OF_PLACE.get(form or "", _UNKNOWN))
        return self._part_at(part.end())

    def _read_header(self, part: re.Match[str]) -> None:
        self._begin("node", part)
        header = part["node"].removeprefix(HEADER).strip()
        self._node, reason = read_header(header)
        self._node_name, self._has_header = self._node.get("name"), True
        self._needs_sampling = header.startswith("{") and header.endswith("}")
        if reason:
            self._remark(*part.span(), reason)

    def _read_sampling(self, part: re.Match[str]) -> None:
        if self._kind != "node":
            # Below a thread it begins a section whose header is missing.
            self._begin("node", part)
        if "timestamp_text" in self._node:
            reason: str | None = "a second 'Hot threads at' line"
        else:
            sampling, reason = read_sampling(part["sampling"].rstrip())
            self._node |= sampling
            self._needs_sampling = False
        if reason:
            self._remark(*part.span(), reason)

    def _read_thread(self, part: re.Match[str]) -> None:
        self._begin("thread", part)
        thread, reason = read_usage(part["thread"].rstrip(), self._node_name)
        if reason:
            self._remark(*part.span(), reason)
        name = thread.get("node_name")
        if name and name != self._node_name and not self._has_header:
            # Only the threads' names show to which node a piece without header belongs.
            if self._node_name:
                self._end_node()
            self._node_name = name
        self._thread = thread

    def _read_stack(self, part: re.Match[str], group: _OpenGroup) -> None:
        """Read lines below that of a group."""
        if part.lastgroup == "frames":
            found, room = self._frames(part["frames"]), group.most - len(group.frames)
            group.frames += found[:room]
            if len(found) > room:
                group.is_regular = False
                beyond = next(islice(FRAME_LINE.finditer(self._text, *part.span()), room, None)).start()
                line = self._text.rfind("\n", 0, beyond) + 1
                self._remark(line, part.end(), "a stack frame beyond the end of its stack")
        elif part.lastgroup != "blank":
            group.is_regular = False
            self._remark(*part.span(), _UNKNOWN)
            if group.elements is None:
                # Nothing says how long this stack is, so it ends here.
                group.most = len(group.frames)

    def _frames(self, lines: str) -> list[str]:
        """Return the frames of lines that hold frames or nothing."""
        if len(self._known_frames) >= _MAX_FRAMES:
            self._known_frames.clear()
        frames = [frame for line in lines.split("\n") if (frame := line.strip(MARGIN))]
        return list(map(self._known_frames.setdefault, frames, frames))

    def _known_group(self, start: int) -> StackGroup | None:
        """Return the known group whose lines stand at a place."""
        # The last one may be an earlier one and the blank lines below.
        for known in reversed(self._known_groups.get(self._text[start : start + _HEAD], ())):
            if self._text.startswith(known.source, start):
                return known
        return None

    def _begin(self, kind: Literal["node", "thread", "group"], part: re.Match[str]) -> None:
        self._end_part(part.start())
        if kind == "node":
            self._end_node()
        elif kind == "thread":
            self._end_thread()
        self._kind, self._line = kind, part.span()

    def _end_part(self, end: int) -> None:
        source = self._text[self._line[0] : end]
        if self._group is not None:
            self._end_group(self._group, source)
        elif self._kind == "thread" and self._thread is not None:
            self._thread["source"] = source
        elif self._kind == "node":
            self._node["source"] = source
            if self._needs_sampling:
                self._remark(*self._line, "no 'Hot threads at' line follows this node's header")
                self._needs_sampling = False
        elif self._kind == "before":
            self._before = source

    def _end_group(self, group: _OpenGroup, source: str) -> None:
        if group.elements is not None and len(group.frames) < group.elements:
            group.is_regular = False
            self._remark(*self._line, f"{group.elements} stack frames announced, {len(group.frames)} found")
        facts: dict[str, Any] = {"snapshots": group.snapshots, "total": group.total, "elements": group.elements}
        read = StackGroup(source=source, frames=tuple(group.frames), **facts)
        self._groups.append(self._kept(read) if group.is_regular else read)
        self._group = None

    def _kept(self, group: StackGroup) -> StackGroup:
        """Keep a group that was understood as a whole; return the one that has the same lines, if there is one."""
        for known in self._known_groups.get(group.source[:_HEAD], ()):
            if known.source == group.source:
                return known
        if self._known_count == _MAX_GROUPS:
            self._known_groups.clear()
            self._known_count = 0
        self._known_groups.setdefault(group.source[:_HEAD], []).append(group)
        self._known_count += 1
        return group

    def _end_thread(self) -> None:
        if self._thread is not None:
            groups = tuple(self._groups)
            # One tuple for each idle thread would be a large part of a report with short stacks.
            if self._threads and self._threads[-1].groups == groups:
                groups = self._threads[-1].groups
            self._threads.append(HotThread(**self._thread, groups=groups))
            self._thread, self._groups = None, []

    def _end_node(self) -> None:
        self._end_thread()
        if self._node or self._threads:
            self._nodes.append(HotNode(**{**self._node, "name": self._node_name}, threads=tuple(self._threads)))
            self._node, self._node_name, self._has_header, self._threads = {}, None, False, []

    def _remark(self, start: int, end: int, reason: str) -> None:
        """Take down the lines between two places, and why; lines that continue the last ones are one with them."""
        last_start, last_end, last_reason = self._remarks[-1] if self._remarks else (0, -1, "")
        if last_reason == reason and last_end == start:
            self._remarks[-1] = (last_start, end, reason)
        elif len(self._remarks) == _MAX_REMARKS:
            self._remarks[-1] = (last_start, max(last_end, end), "much between here and the end of these lines")
        else:
            self._remarks.append((start, end, reason))

    def _unparsed(self) -> tuple[Unparsed, ...]:
        """Return the lines that were not understood, in the order of the text."""
        unparsed: list[Unparsed] = []
        line, counted = 1, 0
        for start, end, reason in sorted(self._remarks):
            line += self._text.count("\n", counted, start)
            counted = start
            unparsed.append(Unparsed(line=line, text=self._text[start:end].rstrip(), reason=reason))
        return tuple(unparsed)
