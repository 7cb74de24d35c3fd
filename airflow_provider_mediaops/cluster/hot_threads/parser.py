"""
Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, from front to back. Each line belongs to the part that began last (a node, a thread, a group of
snapshots), so that none is left out. Lines that are not understood, missing or cut off are described in the report.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow_provider_mediaops.cluster.hot_threads.grammar import (
    FRAME_LINE,
    HEADER,
    LINES,
    MARGIN,
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

if TYPE_CHECKING:
    import re
    from collections.abc import Hashable

UNKNOWN = "not a line of a hot-threads report"
_OUT_OF_PLACE = {"other": UNKNOWN, "frames": "a stack frame outside a stack", "group": "a stack without a thread"}
# What Elasticsearch on FreeBSD says instead of its threads.
_NO_SUPPORT = "not supported"

# The parts below which stacks stand.
_WITH_STACKS = frozenset({"thread", "group"})
# A text of millions of lines that are each wrong in another way shall not cost many times its size.
_MAX_REMARKS = 10_000
# Nor shall one of millions of headers or threads of which nothing is left. No whole one is as short as this.
_STUMP = 40
_MAX_KNOWN = 1_000
# Frames repeat from stack to stack, and whole groups from thread to thread; each is made once. Bounded, for a text in
# which no two are the same.
_MAX_FRAMES = 5_000
_MAX_GROUPS = 1_000
# Groups are found by their first characters: the group's own line, and more or less of the first frame.
_HEAD = 100
_MAX_ALIKE = 20

ValueT = TypeVar("ValueT")


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
    from airflow_provider_mediaops.cluster.hot_threads.wrapping import CHUNK_REASON, is_chunk, wrappings

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
    if any(is_chunk(one.text) for one in best.unparsed):
        named = (replace(one, reason=CHUNK_REASON) if is_chunk(one.text) else one for one in best.unparsed)
        best = replace(best, unparsed=tuple(named))
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
        """Take down lines; those that continue the last ones are one with them."""
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
    """The group to which the current lines belong."""

    snapshots: int = 1
    total: int | None = None
    elements: int | None = None
    frames: list[str] = field(default_factory=list)
    is_regular: bool = True
    limit: int = sys.maxsize


class _KnownGroups:
    """The groups of one text in which all was understood. The lines of another one that is equal are not looked at."""

    def __init__(self) -> None:
        self._count = 0
        self._groups: dict[str, list[StackGroup]] = {}
        self._frames: dict[str, str] = {}

    def at(self, text: str, start: int) -> StackGroup | None:
        """Return the known group whose lines stand at a place."""
        for known in self._groups.get(text[start : start + _HEAD], ()):
            if text.startswith(known.source, start):
                return known
        return None

    def equal_to(self, source: str) -> StackGroup | None:
        """Return the known group of the same lines."""
        return next((known for known in self._groups.get(source[:_HEAD], ()) if known.source == source), None)

    def keep(self, group: StackGroup) -> None:
        if self._count >= _MAX_GROUPS:
            self._groups.clear()
            self._count = 0
        alike = self._groups.setdefault(group.source[:_HEAD], [])
        if len(alike) == _MAX_ALIKE:
            del alike[0]
        else:
            self._count += 1
        alike.append(group)

    def frames_of(self, lines: str) -> list[str]:
        """Return the frames of lines that hold frames or nothing; equal ones are one object."""
        if len(self._frames) >= _MAX_FRAMES:
            self._frames.clear()
        frames = [frame for frame in map(str.strip, lines.split("\n"), repeat(MARGIN)) if frame]
        return list(map(self._frames.setdefault, frames, frames))


class _Parser:
    """The node, the thread and the group to which the current line of a text belongs, and all that is complete."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._remark = _Remarks()
        # The part to which lines belong from this offset on: `node`, `thread`, `group`, or none before them all.
        self._part, self._start = "", 0
        self._before = ""
        self._nodes: list[HotNode] = []
        self._node: dict[str, Any] = {}
        self._node_name: str | None = None
        self._has_header = False
        # The lines of a header that a sampling line, or a failure, should follow.
        self._unanswered: tuple[int, int] | None = None
        self._awaits_answer = False
        self._threads: list[HotThread] = []
        self._thread: dict[str, Any] = {}
        self._groups: list[StackGroup] = []
        self._group = _OpenGroup()
        # A group whose lines were known; it is opened only if more lines follow.
        self._known_group: StackGroup | None = None
        self._known_groups = _KnownGroups()
        self._known: dict[Hashable, Any] = {}

    def report(self) -> HotThreadsReport:
        text, position, known_at = self._text, 0, self._known_groups.at
        while position < len(text):
            if self._part in _WITH_STACKS and (known := known_at(text, position)):
                self._turn_to("group", position)
                self._known_group = known
                position += len(known.source)
            elif part := LINES.match(text, position):
                position = self._take(part)
        if self._part == "thread":
            self._remark(self._start, line_end(text, self._start), "the text ends before this thread's stack")
        self._turn_to("", len(text))
        self._end_node()
        before = self._before
        if before.strip() and not self._nodes:
            self._nodes, before = [HotNode(source=before)], ""
        return HotThreadsReport(source=before, nodes=tuple(self._nodes), unparsed=self._remark.unparsed(text))

    def _turn_to(self, part: str, begin: int) -> None:
        """End the part to which the lines up to here belong."""
        if self._known_group:
            self._groups.append(self._known_group)
            self._known_group = None
        elif self._part == "group":
            self._end_group(self._text[self._start : begin])
        elif self._part == "thread":
            self._thread["source"] = self._text[self._start : begin]
        elif self._part == "node":
            self._node["source"] = self._text[self._start : begin]
            if self._unanswered:
                self._remark(*self._unanswered, "no 'Hot threads at' line follows this node's header")
            self._awaits_answer = False
        else:
            self._before = self._text[self._start : begin]
        self._part, self._start = part, begin

    def _take(self, part: re.Match[str]) -> int:
        """Read lines of one form, and return the offset of the next ones."""
        form, begin, end = part.lastgroup or "", part.start(), part.end()
        if form == "header":
            return max(end, self._take_header(begin))
        if form == "sampling":
            return max(end, self._take_sampling(begin))
        if form == "thread":
            return max(end, self._take_thread(begin))
        if form == "group" and self._part in _WITH_STACKS:
            self._turn_to("group", begin)
            self._open_group(*read_group(part["group"]))
        elif self._part == "group":
            self._continue_group(part)
        elif form == "other" and self._awaits_answer and _NO_SUPPORT in part[0]:
            return self._take_failure(begin)
        elif form != "blank":
            self._remark(begin, end, _OUT_OF_PLACE[form])
        return end

    def _take_header(self, begin: int) -> int:
        content, end = mend(self._text, begin, is_whole_header)
        header = content.removeprefix(HEADER).strip()
        self._begin_node(begin)
        self._node, reason = read_header(header)
        self._node_name, self._has_header, self._awaits_answer = self._node.get("name"), True, True
        self._unanswered = (begin, end) if header.startswith("{") and header.endswith("}") else None
        if reason:
            self._remark(begin, end, reason)
        return end

    def _take_sampling(self, begin: int) -> int:
        content, end = mend(self._text, begin, is_whole_sampling)
        if self._part != "node":
            # A sampling line below a thread begins a section whose header is missing.
            self._begin_node(begin)
        if "timestamp_text" in self._node:
            self._remark(begin, end, "a second 'Hot threads at' line")
            return end
        sampling, reason = read_sampling(content)
        self._node |= sampling
        self._unanswered, self._awaits_answer = None, False
        if reason:
            self._remark(begin, end, reason)
        return end

    def _take_failure(self, begin: int) -> int:
        line = self._text.rfind("\n", 0, self._text.index(_NO_SUPPORT, begin)) + 1
        end = line_end(self._text, line)
        self._node["failure"] = content_of(self._text[line:end])
        self._unanswered, self._awaits_answer = None, False
        if line > begin:
            self._remark(begin, line, UNKNOWN)
        return end

    def _begin_node(self, begin: int) -> None:
        self._turn_to("node", begin)
        self._end_node()

    def _end_node(self) -> None:
        self._end_thread()
        if self._node or self._threads:
            attributes = self._node.get("attributes", {})
            attributes = self._shared(tuple(attributes.items()), attributes)
            values = {**self._node, "name": self._node_name, "attributes": attributes}
            node = HotNode(**values, threads=tuple(self._threads))
            is_stump = not self._threads and len(node.source) < _STUMP
            self._nodes.append(self._shared(node, node) if is_stump else node)
        self._node, self._node_name, self._has_header, self._threads = {}, None, False, []

    def _take_thread(self, begin: int) -> int:
        content, end = mend(self._text, begin, is_whole_thread)
        self._turn_to("thread", begin)
        self._end_thread()
        thread, reason = read_usage(content, self._node_name)
        if reason:
            self._remark(begin, end, reason)
        name = thread.get("node_name")
        if name and name != self._node_name and not self._has_header:
            # Only the threads' names show to which node a piece without header belongs.
            if self._node_name:
                self._end_node()
            self._node_name = name
        self._thread = thread
        return end

    def _end_thread(self) -> None:
        if self._thread:
            groups = tuple(self._groups)
            if len(groups) == 1:
                # One tuple for each thread would be a large part of a report with short stacks.
                groups = self._shared(id(groups[0]), groups)
            thread = HotThread(**self._thread, groups=groups)
            is_stump = not self._groups and len(thread.source) < _STUMP
            self._threads.append(self._shared(thread, thread) if is_stump else thread)
            self._thread, self._groups = {}, []

    def _open_group(self, snapshots: int, total: int | None, elements: int | None) -> None:
        limit = sys.maxsize if elements is None else elements
        self._group = _OpenGroup(snapshots, total, elements, limit=limit)

    def _continue_group(self, part: re.Match[str]) -> None:
        """Read lines below a group's own."""
        if known := self._known_group:
            # It is another one, which only begins in the same way.
            self._open_group(known.snapshots, known.total, known.elements)
            self._group.frames += known.frames
            self._known_group = None
        group = self._group
        if part.lastgroup == "other":
            self._remark(*part.span(), UNKNOWN)
            group.is_regular = False
            if group.elements is None:
                # Nothing says how long this stack is, so it ends here.
                group.limit = len(group.frames)
        elif part.lastgroup == "frames":
            found, room = self._known_groups.frames_of(part["frames"]), group.limit - len(group.frames)
            if len(found) <= room:
                group.frames += found
            else:
                group.frames += found[:room]
                beyond = next(islice(FRAME_LINE.finditer(self._text, *part.span()), room, None)).start()
                line = self._text.rfind("\n", 0, beyond) + 1
                self._remark(line, part.end(), "a stack frame beyond the end of its stack")
                group.is_regular = False

    def _end_group(self, source: str) -> None:
        group = self._group
        if group.elements is not None and len(group.frames) < group.elements:
            reason = f"{group.elements} stack frames announced, {len(group.frames)} found"
            self._remark(self._start, line_end(self._text, self._start), reason)
            group.is_regular = False
        stack = self._known_groups.equal_to(source) if group.is_regular else None
        if stack is None:
            frames = tuple(group.frames)
            stack = StackGroup(
                source=source, snapshots=group.snapshots, total=group.total, elements=group.elements, frames=frames
            )
            if group.is_regular:
                self._known_groups.keep(stack)
        self._groups.append(stack)

    def _shared(self, key: Hashable, value: ValueT) -> ValueT:
        """Return the value that came with this key before, if there was one, to save memory."""
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        return cast("ValueT", self._known.setdefault(key, value))
