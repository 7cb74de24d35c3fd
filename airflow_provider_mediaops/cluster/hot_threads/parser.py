"""
Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, from front to back, and cut into its parts (nodes, threads, groups of snapshots), so that
each piece belongs to one part and none is left out. A piece in the servers' form is taken as it is. For any other, its
reader describes lines that are not understood, missing or cut off, and the report lists them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow_provider_mediaops.cluster.hot_threads.grammar import sampling_of, usage_of
from airflow_provider_mediaops.cluster.hot_threads.headers import header_of
from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport, Unparsed
from airflow_provider_mediaops.cluster.hot_threads.parts import HEADER_LINE, NODE, PARTS, THREAD, read_node, read_thread
from airflow_provider_mediaops.cluster.hot_threads.stacks import Stacks

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import StackGroup

# A text of millions of lines that are each wrong in another way shall not cost many times its size.
_MAX_REMARKS = 10_000
# Nor shall one of millions of headers or threads of which nothing is left. No whole one is as short as this.
_STUMP = 40
_MAX_KNOWN = 1_000

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


def cut(text: str, stacks: Stacks) -> Iterator[tuple[str, str, int, bool, tuple[StackGroup] | None]]:
    """
    Cut a text into its parts: nodes, threads, groups of snapshots.

    Each comes with its kind (`node`, `thread`, `group`, or nothing for the lines before them all), its lines, their
    offset, whether all of them are in the servers' form, and the group if its lines were read before.
    """
    kind, start, regular, known = "", 0, True, None
    position, in_thread = 0, False
    while position < len(text):
        group = stacks.at(text, position) if in_thread else None
        if group:
            yield kind, text[start:position], start, regular, known
            kind, start, regular, known = "group", position, True, group
            position += len(group[0].source)
            continue
        part = PARTS.match(text, position)
        if part is None:
            break
        form, begin, position = part.lastgroup or "", position, part.end()
        if form == "group" and in_thread:
            begins = "group"
        elif form in ("thread", "odd_thread"):
            begins, in_thread = "thread", True
        elif form in ("node", "odd_node") or (form == "sampling" and (in_thread or not kind)):
            # A sampling line below a thread begins a section whose header is missing.
            begins, in_thread = "node", False
        else:
            known = None
            regular = regular and (form == "blank" or (form == "frames" and kind == "group"))
            continue
        yield kind, text[start:begin], start, regular, known
        kind, start, regular, known = begins, begin, form == begins, None
    yield kind, text[start:], start, regular, known


@dataclass(slots=True)
class _Place:
    """Adjacent lines of the text that were not understood, with the reason."""

    start: int
    end: int
    reason: str


class _Remarks:
    """Records the lines of a text that are not understood, while one piece after the other is read."""

    def __init__(self) -> None:
        self.offset = 0
        self._places: list[_Place] = []

    def __call__(self, start: int, end: int, reason: str) -> None:
        """Take down lines of the piece; lines that continue the last ones are one with them."""
        start, end = self.offset + start, self.offset + end
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


class _Parser:
    """The node and the thread to which the current piece of a text belongs, and everything that is complete."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes: list[HotNode] = []
        self._node: dict[str, Any] = {}
        self._node_name: str | None = None
        self._threads: list[HotThread] = []
        self._thread: dict[str, Any] = {}
        self._groups: list[tuple[StackGroup]] = []
        self._stacks = Stacks()
        self._known: dict[Hashable, Any] = {}
        self._remark = _Remarks()

    def report(self) -> HotThreadsReport:
        before, source = "", ""
        for kind, source, start, regular, group in cut(self._text, self._stacks):
            self._remark.offset = start
            if kind == "group":
                self._groups.append(group or self._stacks.read(source, self._remark, regular=regular))
            elif kind == "thread":
                self._begin_thread(source, regular=regular)
            elif kind == "node":
                self._begin_node(source, regular=regular)
            else:
                before = source
                read_node(source, self._remark)
        if kind == "thread":
            self._remark(0, source.find("\n") + 1 or len(source), "the text ends before this thread's stack")
        self._end_node()
        if before.strip() and not self._nodes:
            self._nodes, before = [HotNode(source=before)], ""
        unparsed = self._remark.unparsed(self._text)
        return HotThreadsReport(source=before, nodes=tuple(self._nodes), unparsed=unparsed)

    def _begin_node(self, source: str, *, regular: bool) -> None:
        self._end_node()
        if regular and (match := NODE.match(source)):
            self._node = header_of(match) | sampling_of(match)
        else:
            self._node = read_node(source, self._remark)
        self._node["source"] = source
        attributes = self._node.get("attributes", {})
        self._node["attributes"] = self._shared(tuple(attributes.items()), attributes)
        self._node_name = self._node.get("name")

    def _begin_thread(self, source: str, *, regular: bool) -> None:
        self._end_thread()
        if regular and (match := THREAD.match(source)):
            thread = usage_of(match, self._node_name)
        else:
            thread = read_thread(source, self._node_name, self._remark)
        thread["source"] = source
        name = thread.get("node_name")
        if name and name != self._node_name and not HEADER_LINE.match(self._node.get("source", "")):
            # Only the threads' names show to which node a piece without header belongs.
            if self._node_name:
                self._end_node()
            self._node_name = name
        self._thread = thread

    def _end_thread(self) -> None:
        if self._thread:
            # One tuple for each thread would be a large part of a report with short stacks.
            groups = self._groups[0] if len(self._groups) == 1 else tuple(group for (group,) in self._groups)
            thread = HotThread(**self._thread, groups=groups)
            is_stump = not self._groups and len(thread.source) < _STUMP
            self._threads.append(self._shared(thread, thread) if is_stump else thread)
            self._thread, self._groups = {}, []

    def _end_node(self) -> None:
        self._end_thread()
        if self._node or self._threads:
            node = HotNode(**{**self._node, "name": self._node_name}, threads=tuple(self._threads))
            is_stump = not self._threads and len(node.source) < _STUMP
            self._nodes.append(self._shared(node, node) if is_stump else node)
            self._node, self._node_name, self._threads = {}, None, []

    def _shared(self, key: Hashable, value: ValueT) -> ValueT:
        """Return the value that came with this key before, if there was one, to save memory."""
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        return cast("ValueT", self._known.setdefault(key, value))
