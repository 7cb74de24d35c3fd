"""
Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, from front to back, and cut into its parts (nodes, threads, groups of snapshots), so that
each piece belongs to one part and none is left out. Lines that are not understood, missing or cut off are listed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

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
_BEGIN_A_NODE = ("node", "sampling", "thread")
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


class _Parser:
    """Reads a text from front to back: its nodes, the threads of each, and their groups of snapshots."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: re.Match[str] | None = None  # the lines of one form that are read next; None at the end
        self._start = 0  # where they begin
        self._remarks: list[tuple[int, int, str]] = []  # where lines are that were not understood, and why
        # Frames repeat from stack to stack, whole groups from thread to thread: each is kept once.
        self._known_frames: dict[str, str] = {}
        self._known_groups: dict[str, list[StackGroup]] = {}
        self._known_count = 0
        self._last_groups: tuple[StackGroup, ...] = ()

    def report(self) -> HotThreadsReport:
        self._go_to(0)
        self._pass_over(until=_BEGIN_A_NODE)
        before = self._text[: self._start]
        nodes = []
        while self._next:
            nodes.append(self._read_node(self._next))
        if before.strip() and not nodes:
            nodes, before = [HotNode(source=before)], ""
        return HotThreadsReport(source=before, nodes=tuple(nodes), unparsed=self._unparsed())

    def _go_to(self, position: int) -> None:
        self._start = position
        self._next = PARTS.match(self._text, position) if position < len(self._text) else None

    def _pass_over(self, *, until: tuple[str, ...]) -> None:
        """Go on to lines of certain forms; those before them are out of place."""
        while (part := self._next) and part.lastgroup not in until:
            self._remark_place(part)
            self._go_to(part.end())

    def _remark_place(self, part: re.Match[str]) -> None:
        if part.lastgroup != "blank":
            self._remark(*part.span(), _OUT_OF_PLACE.get(part.lastgroup or "", _UNKNOWN))

    def _read_node(self, first: re.Match[str]) -> HotNode:
        """Read a node's header, the line on its sampling, and its threads; a piece of a report may lack the former."""
        has_header = first.lastgroup == "node"
        values, needs_sampling = self._read_header(first) if has_header else ({}, False)
        while (part := self._next) and part.lastgroup not in ("node", "thread"):
            if part.lastgroup == "sampling":
                self._read_sampling(part, values)
                needs_sampling = False
            elif part.lastgroup == "failure" and needs_sampling:
                values["failure"], needs_sampling = part["failure"].rstrip(), False
            else:
                self._remark_place(part)
            self._go_to(part.end())
        values["source"] = self._text[first.start() : self._start]
        if needs_sampling:
            self._remark(*first.span(), "no 'Hot threads at' line follows this node's header")
        name, threads = values.get("name"), []
        while (part := self._next) and part.lastgroup == "thread":
            thread, reason = read_usage(part["thread"].rstrip(), name)
            origin = thread.get("node_name")
            if origin and origin != name and not has_header:
                # Only the threads' names show to which node a piece without header belongs.
                if name:
                    break
                name = origin
            if reason:
                self._remark(*part.span(), reason)
            threads.append(self._read_thread(part, thread))
        return HotNode(**{**values, "name": name}, threads=tuple(threads))

    def _read_header(self, part: re.Match[str]) -> tuple[dict[str, Any], bool]:
        """Return the values of a header, and whether a line on the sampling should follow."""
        header = part["node"].removeprefix(HEADER).strip()
        values, reason = read_header(header)
        if reason:
            self._remark(*part.span(), reason)
        self._go_to(part.end())
        return values, header.startswith("{") and header.endswith("}")

    def _read_sampling(self, part: re.Match[str], values: dict[str, Any]) -> None:
        if "timestamp_text" in values:
            reason: str | None = "a second 'Hot threads at' line"
        else:
            sampling, reason = read_sampling(part["sampling"].rstrip())
            values |= sampling
        if reason:
            self._remark(*part.span(), reason)

    def _read_thread(self, part: re.Match[str], values: dict[str, Any]) -> HotThread:
        """Read the groups of a thread whose own line was read."""
        self._go_to(part.end())
        self._pass_over(until=(*_BEGIN_A_NODE, "group"))
        source = self._text[part.start() : self._start]
        found = []
        while self._next and self._next.lastgroup == "group":
            found.append(self._read_group(self._next))
        if not self._next and not found:
            self._remark(*part.span(), "the text ends before this thread's stack")
        # One tuple for each idle thread would be a large part of a report with short stacks.
        groups = tuple(found)
        if groups != self._last_groups:
            self._last_groups = groups
        return HotThread(source=source, **values, groups=self._last_groups)

    def _read_group(self, part: re.Match[str]) -> StackGroup:
        if known := self._known_group(part.start()):
            self._go_to(part.start() + len(known.source))
            if not self._next or self._next.lastgroup not in _IN_A_STACK:
                return known
        self._go_to(part.end())
        snapshots, total, elements = read_group(part["group"])
        most = sys.maxsize if elements is None else elements
        frames: list[str] = []
        is_regular = True
        while (below := self._next) and below.lastgroup in _IN_A_STACK:
            if below.lastgroup == "frames":
                found, room = self._frames(below["frames"]), most - len(frames)
                frames += found[:room]
                if len(found) > room:
                    is_regular = False
                    beyond = next(islice(FRAME_LINE.finditer(self._text, *below.span()), room, None)).start()
                    line = self._text.rfind("\n", 0, beyond) + 1
                    self._remark(line, below.end(), "a stack frame beyond the end of its stack")
            elif below.lastgroup != "blank":
                is_regular = False
                self._remark(*below.span(), _UNKNOWN)
                if elements is None:
                    # Nothing says how long this stack is, so it ends here.
                    most = len(frames)
            self._go_to(below.end())
        if elements is not None and len(frames) < elements:
            is_regular = False
            self._remark(*part.span(), f"{elements} stack frames announced, {len(frames)} found")
        source = self._text[part.start() : self._start]
        group = StackGroup(source=source, snapshots=snapshots, total=total, elements=elements, frames=tuple(frames))
        return self._kept(group) if is_regular else group

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
