"""Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, line by line. A line that starts a part (a node's header, a thread's line, a group's
line) cuts the text there, so that each piece belongs to one part and none is left out. What a line says is
read by `hot_threads_lines` and `hot_threads_node`. Whatever is not understood, missing or cut off is listed
in the report.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from airflow_provider_mediaops.cluster.hot_threads_cursor import Cursor
from airflow_provider_mediaops.cluster.hot_threads_lines import (
    HEADER,
    SAMPLING,
    Group,
    Sampling,
    Usage,
    is_whole_sampling,
    is_whole_thread,
    read_frame,
    read_group,
    read_sampling,
    read_usage,
    starts_thread,
)
from airflow_provider_mediaops.cluster.hot_threads_node import NodeHeader, is_whole_header, read_header
from airflow_provider_mediaops.cluster.hot_threads_report import (
    HotNode,
    HotThread,
    HotThreadsReport,
    StackGroup,
    Unparsed,
)


def parse(text: str) -> HotThreadsReport:
    """Read a hot-threads text; whatever it is, a report comes back and nothing is raised.

    :param text: the reply of `/_nodes/hot_threads`, whole, cut off, or as people paste it.
    :returns: what was understood, with what was not in `unparsed`; its `render()` gives `text` back.
    """
    return _Parser(text).report()


@dataclass(slots=True)
class _Place:
    """Adjacent lines of the text, by the number of the first and by where they start and end."""

    line: int
    start: int
    end: int
    reason: str = ""


@dataclass(slots=True)
class _OpenGroup:
    place: _Place
    stated: Group
    most: int
    frames: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _OpenThread:
    place: _Place
    usage: Usage
    source: str = ""
    groups: list[StackGroup] = field(default_factory=list)


@dataclass(slots=True)
class _OpenNode:
    place: _Place
    header: NodeHeader
    sampling: Sampling = field(default_factory=Sampling)
    failure: str | None = None
    source: str = ""
    threads: list[HotThread] = field(default_factory=list)


class _Parser:
    """One pass over a text, with the node, the thread and the group that the current line belongs to."""

    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text)
        self._cut_at = 0
        self._source = ""
        self._nodes: list[HotNode] = []
        self._node: _OpenNode | None = None
        self._thread: _OpenThread | None = None
        self._group: _OpenGroup | None = None
        self._remarks: list[_Place] = []

    def report(self) -> HotThreadsReport:
        while self._cursor.advance():
            if self._cursor.content:
                self._read_line()
        if self._thread and not self._thread.groups and not self._group:
            self._remark("the text ends before this thread's stack", self._thread.place)
        self._end_node()
        text = self._cursor.text
        unparsed = [
            Unparsed(line=place.line, text=text[place.start : place.end].rstrip("\r\n"), reason=place.reason)
            for place in sorted(self._remarks, key=lambda place: place.line)
        ]
        return HotThreadsReport(source=self._source, nodes=tuple(self._nodes), unparsed=tuple(unparsed))

    def _read_line(self) -> None:
        content = self._cursor.content
        if content.startswith(HEADER) and content[len(HEADER) :].lstrip()[:1] in ("", "{", "["):
            self._begin_node()
        elif content.startswith(SAMPLING):
            self._take_sampling()
        elif (group := read_group(content)) is not None:
            self._begin_group(group)
        elif starts_thread(content):
            self._begin_thread()
        elif (frame := read_frame(content)) is not None:
            self._take_frame(frame)
        elif (
            "not supported" in content and (node := self._node) and node.header and not (node.sampling or self._thread)
        ):
            node.failure = content
        else:
            self._take_unknown("not a line of a hot-threads report")

    def _begin_node(self) -> None:
        self._cursor.mend(is_whole_header)
        self._end_node()
        header, reason = read_header(self._cursor.content.removeprefix(HEADER).strip())
        self._node = _OpenNode(self._place(), header)
        if reason:
            self._remark(reason, self._node.place)

    def _node_here(self) -> _OpenNode:
        """The open node; text under no header opens one without a name."""
        if self._node is None:
            self._end_node()
            self._node = _OpenNode(self._place(), {})
        return self._node

    def _take_sampling(self) -> None:
        self._cursor.mend(is_whole_sampling)
        if self._thread:
            # A section whose header is missing.
            self._end_node()
        node = self._node_here()
        if node.sampling:
            self._take_unknown("a second 'Hot threads at' line")
            return
        node.sampling, reason = read_sampling(self._cursor.content)
        if reason:
            self._remark(reason, self._place())

    def _begin_thread(self) -> None:
        self._cursor.mend(is_whole_thread)
        node = self._node_here()
        self._end_thread()
        usage, reason = read_usage(self._cursor.content, node.header.get("name"))
        self._thread = _OpenThread(self._place(), usage)
        if reason:
            self._remark(reason, self._thread.place)

    def _begin_group(self, group: Group) -> None:
        if not self._thread:
            self._take_unknown("a stack without a thread")
            return
        self._cut()
        most = sys.maxsize if group.elements is None else group.elements
        self._group = _OpenGroup(self._place(), group, most)
        self._cursor.take_frames(self._group.frames, most)

    def _take_frame(self, frame: str) -> None:
        group = self._group
        if group is None:
            self._take_unknown("a stack frame outside a stack")
        elif len(group.frames) >= group.most:
            self._take_unknown("a stack frame beyond the end of its stack")
        else:
            group.frames.append(frame)
            self._cursor.take_frames(group.frames, group.most)

    def _take_unknown(self, reason: str) -> None:
        self._node_here()
        if self._group and self._group.stated.elements is None:
            # Nothing says how long this stack is, so it ends here.
            self._group.most = len(self._group.frames)
        self._remark(reason, self._place())

    def _place(self) -> _Place:
        return _Place(self._cursor.line, self._cursor.start, self._cursor.end)

    def _remark(self, reason: str, place: _Place) -> None:
        last = self._remarks[-1] if self._remarks else None
        if last and last.reason == reason and last.end == place.start:
            last.end = place.end
        else:
            self._remarks.append(_Place(place.line, place.start, place.end, reason))

    def _cut(self) -> None:
        """Give the text between the last cut and the current line to the innermost part; end an open group."""
        source = self._cursor.text[self._cut_at : self._cursor.start]
        self._cut_at = self._cursor.start
        if self._thread and self._group:
            self._thread.groups.append(self._close_group(self._group, source))
            self._group = None
        elif self._thread:
            self._thread.source += source
        elif self._node:
            self._node.source += source
        else:
            self._source += source

    def _close_group(self, group: _OpenGroup, source: str) -> StackGroup:
        snapshots, total, elements = group.stated
        if elements is not None and len(group.frames) < elements:
            self._remark(f"{elements} stack frames announced, {len(group.frames)} found", group.place)
        return StackGroup(
            source=source, snapshots=snapshots, total=total, elements=elements, frames=tuple(group.frames)
        )

    def _end_thread(self) -> None:
        self._cut()
        if self._node and (thread := self._thread):
            self._node.threads.append(HotThread(source=thread.source, groups=tuple(thread.groups), **thread.usage))
            self._thread = None

    def _end_node(self) -> None:
        self._end_thread()
        node = self._node
        if node is None:
            return
        header = node.header.get("header", "")
        if header.endswith("}") and header.startswith("{") and not (node.sampling or node.failure):
            self._remark("no 'Hot threads at' line follows this node's header", node.place)
        self._nodes.append(
            HotNode(
                source=node.source,
                failure=node.failure,
                threads=tuple(node.threads),
                **node.header,
                **node.sampling,
            )
        )
        self._node = None
