"""
Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, from front to back, and cut into its parts (nodes, threads, groups of snapshots), so that
each piece belongs to one part and none is left out. The reader of a piece describes lines that are not understood,
missing or cut off, and the report lists them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.cluster.hot_threads.grammar import (
    FRAME_LINE,
    HEADER,
    PARTS,
    content_of,
    is_whole_sampling,
    is_whole_thread,
    line_end,
    mend,
    read_group,
    read_sampling,
    read_usage,
)
from airflow_provider_mediaops.cluster.hot_threads.headers import is_whole_header, read_header
from airflow_provider_mediaops.cluster.hot_threads.model import (
    HotNode,
    HotThread,
    HotThreadsReport,
    StackGroup,
    Unparsed,
)
from airflow_provider_mediaops.cluster.hot_threads.stacks import KnownStacks

if TYPE_CHECKING:
    import re

# A text of millions of lines that are each wrong in another way shall not cost many times its size.
_MAX_REMARKS = 10_000
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
    """Return how many frames, names, figures and times were read."""
    threads = [thread for node in report.nodes for thread in node.threads]
    return (
        sum(bool(node.name or node.node_id) + bool(node.timestamp_text) for node in report.nodes)
        + sum(bool(thread.name) + (thread.amount is not None) for thread in threads)
        + sum(len(group.frames) for thread in threads for group in thread.groups)
    )


@dataclass(slots=True)
class _Place:
    """Adjacent lines of the text that were not understood, with the reason."""

    start: int
    end: int
    reason: str


class _Remarks:
    """Records the lines of a text that are not understood."""

    def __init__(self) -> None:
        self._places: list[_Place] = []

    def __call__(self, start: int, end: int, reason: str) -> None:
        """Take down the lines between two places, and why; lines that continue the last ones are one with them."""
        last = self._places[-1] if self._places else None
        if last and last.reason == reason and last.end == start:
            last.end = end
        elif last and len(self._places) == _MAX_REMARKS:
            last.end = max(last.end, end)
            last.reason = "much between here and the end of these lines"
        else:
            self._places.append(_Place(start, end, reason))

    def unparsed(self, text: str) -> tuple[Unparsed, ...]:
        """Return the lines, in the order of the text."""
        unparsed: list[Unparsed] = []
        line, counted = 1, 0
        for place in sorted(self._places, key=lambda place: place.start):
            line += text.count("\n", counted, place.start)
            counted = place.start
            unparsed.append(Unparsed(line=line, text=text[place.start : place.end].rstrip(), reason=place.reason))
        return tuple(unparsed)


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
        self._stacks = KnownStacks()
        self._remark = _Remarks()
        self._kind: Literal["before", "node", "thread", "group"] = "before"  # of the part that is being read
        self._start = 0  # of this part
        self._before = ""
        self._nodes: list[HotNode] = []
        self._node: dict[str, Any] = {}
        self._attributes: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}  # those of most nodes are equal
        self._node_name: str | None = None
        self._has_header = False
        self._header_end: int | None = None  # of a header that needs a sampling line and has none yet
        self._threads: list[HotThread] = []
        self._thread: dict[str, Any] | None = None
        self._groups: list[tuple[StackGroup]] = []
        self._group: _OpenGroup | tuple[StackGroup] | None = None

    def report(self) -> HotThreadsReport:
        text, position = self._text, 0
        while position < len(text):
            known = self._stacks.at(text, position) if self._thread is not None else None
            if known:
                self._begin("group", position)
                self._group = known
                position += len(known[0].source)
            elif part := PARTS.match(text, position):
                position = self._read(part)
        self._end_part(len(text))
        if self._kind == "thread":
            self._remark(self._start, line_end(text, self._start), "the text ends before this thread's stack")
        self._end_node()
        if self._before.strip() and not self._nodes:
            self._nodes, self._before = [HotNode(source=self._before)], ""
        unparsed = self._remark.unparsed(text)
        return HotThreadsReport(source=self._before, nodes=tuple(self._nodes), unparsed=unparsed)

    def _read(self, part: re.Match[str]) -> int:
        """Read lines; return where those that were read end."""
        form, start, end = part.lastgroup, part.start(), part.end()
        if form == "thread":
            return max(end, self._read_thread(start))
        if form == "node":
            return max(end, self._read_header(start))
        if form == "sampling":
            return max(end, self._read_sampling(start))
        if form == "group" and self._thread is not None:
            self._begin("group", start)
            snapshots, total, elements = read_group(content_of(part[0]))
            self._group = _OpenGroup(snapshots, total, elements, sys.maxsize if elements is None else elements)
        elif form == "failure" and self._header_end and self._kind == "node":
            self._node["failure"], self._header_end = content_of(part[0]), None
        elif self._group is not None:
            self._read_stack(part, self._group)
        elif form != "blank":
            self._remark(start, end, _OUT_OF_PLACE.get(form or "", _UNKNOWN))
        return end

    def _read_header(self, start: int) -> int:
        self._begin("node", start)
        content, end = mend(self._text, start, is_whole_header)
        header = content.removeprefix(HEADER).strip()
        self._node, reason = read_header(header)
        attributes = self._node.get("attributes", {})
        self._node["attributes"] = self._attributes.setdefault(tuple(attributes.items()), attributes)
        self._node_name, self._has_header = self._node.get("name"), True
        if header.startswith("{") and header.endswith("}"):
            self._header_end = end
        if reason:
            self._remark(start, end, reason)
        return end

    def _read_sampling(self, start: int) -> int:
        if self._kind != "node":
            # Below a thread it begins a section whose header is missing.
            self._begin("node", start)
        content, end = mend(self._text, start, is_whole_sampling)
        if "timestamp_text" in self._node:
            reason: str | None = "a second 'Hot threads at' line"
        else:
            sampling, reason = read_sampling(content)
            self._node |= sampling
            self._header_end = None
        if reason:
            self._remark(start, end, reason)
        return end

    def _read_thread(self, start: int) -> int:
        self._begin("thread", start)
        content, end = mend(self._text, start, is_whole_thread)
        thread, reason = read_usage(content, self._node_name)
        if reason:
            self._remark(start, end, reason)
        name = thread.get("node_name")
        if name and name != self._node_name and not self._has_header:
            # Only the threads' names show to which node a piece without header belongs.
            if self._node_name:
                self._end_node()
            self._node_name = name
        self._thread = thread
        return end

    def _read_stack(self, part: re.Match[str], group: _OpenGroup | tuple[StackGroup]) -> None:
        """Read lines below that of a group."""
        if isinstance(group, tuple):
            # More lines belong to it than to the known one.
            (known,) = group
            most = sys.maxsize if known.elements is None else known.elements
            group = _OpenGroup(known.snapshots, known.total, known.elements, most, list(known.frames))
            self._group = group
        if part.lastgroup == "frames":
            found, room = self._stacks.frames(part["frames"]), group.most - len(group.frames)
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

    def _begin(self, kind: Literal["node", "thread", "group"], start: int) -> None:
        self._end_part(start)
        if kind == "node":
            self._end_node()
        elif kind == "thread":
            self._end_thread()
        self._kind, self._start = kind, start

    def _end_part(self, end: int) -> None:
        if self._group is not None:
            self._groups.append(self._group if isinstance(self._group, tuple) else self._read_group(self._group, end))
            self._group = None
            return
        source = self._text[self._start : end]
        if self._thread is not None:
            self._thread["source"] = source
        elif self._kind == "node":
            self._node["source"] = source
            if self._header_end is not None:
                self._remark(self._start, self._header_end, "no 'Hot threads at' line follows this node's header")
                self._header_end = None
        else:
            self._before = source

    def _read_group(self, group: _OpenGroup, end: int) -> tuple[StackGroup]:
        if group.elements is not None and len(group.frames) < group.elements:
            group.is_regular = False
            found = f"{group.elements} stack frames announced, {len(group.frames)} found"
            self._remark(self._start, line_end(self._text, self._start), found)
        source, frames = self._text[self._start : end], tuple(group.frames)
        facts: dict[str, Any] = {"snapshots": group.snapshots, "total": group.total, "elements": group.elements}
        read = (StackGroup(source=source, frames=frames, **facts),)
        return self._stacks.kept(read) if group.is_regular else read

    def _end_thread(self) -> None:
        if self._thread is not None:
            # One tuple for each thread would be a large part of a report with short stacks.
            groups = self._groups[0] if len(self._groups) == 1 else tuple(group for (group,) in self._groups)
            self._threads.append(HotThread(**self._thread, groups=groups))
            self._thread, self._groups = None, []

    def _end_node(self) -> None:
        self._end_thread()
        if self._node or self._threads:
            self._nodes.append(HotNode(**{**self._node, "name": self._node_name}, threads=tuple(self._threads)))
            self._node, self._node_name, self._has_header, self._threads = {}, None, False, []
