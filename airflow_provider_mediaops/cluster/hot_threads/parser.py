"""Read the hot-threads text of every Elasticsearch and OpenSearch version into a typed report.

The text is read once, from front to back, and cut where a part begins (a node, a thread, a group of snapshots), so
that each piece belongs to one part and none is left out. A piece that looks as servers write it is taken as it is; of
any other, its reader says what is not understood, missing or cut off, and the report lists it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport, Unparsed
from airflow_provider_mediaops.cluster.hot_threads.parts import cut, read_node, read_thread
from airflow_provider_mediaops.cluster.hot_threads.stacks import Stacks

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import StackGroup

# A text of millions of lines that are each wrong in another way shall not cost many times its size.
_MOST_REMARKS = 10_000
# Nor shall one of millions of headers or threads of which nothing is left. No whole one is as short as this.
_STUMP = 40
_MOST_STUMPS = 1_000

PartT = TypeVar("PartT", HotNode, HotThread)


def parse(text: str) -> HotThreadsReport:
    """Read a hot-threads text; whatever it is, a report comes back and nothing is raised.

    :param text: the reply of `/_nodes/hot_threads`, whole, cut off, or as people paste it.
    :returns: what was understood, with what was not in `unparsed`; its `render()` gives `text` back.
    """
    return _Parser(text).report()


@dataclass(slots=True)
class _Place:
    """Adjacent lines of the text, by where they start and end, and what is wrong with them."""

    start: int
    end: int
    reason: str


class _Remarks:
    """Takes down what is not understood in a text, of which one piece after the other is read.

    :ivar offset: where the piece begins in the text.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._places: list[_Place] = []

    def __call__(self, start: int, end: int, reason: str) -> None:
        """Take down lines, by where they stand in the piece; those that go on from the last are one with it."""
        start, end = self.offset + start, self.offset + end
        last = self._places[-1] if self._places else None
        if last and last.reason == reason and last.end == start:
            last.end = end
        elif last and len(self._places) == _MOST_REMARKS:
            last.end = max(last.end, end)
            last.reason = "much between here and the end of these lines"
        else:
            self._places.append(_Place(start, end, reason))

    def unparsed(self, text: str) -> tuple[Unparsed, ...]:
        """Give the lines, in the order of the text."""
        unparsed: list[Unparsed] = []
        line, counted = 1, 0
        for place in sorted(self._places, key=lambda place: place.start):
            line += text.count("\n", counted, place.start)
            counted = place.start
            unparsed.append(Unparsed(line=line, text=text[place.start : place.end].rstrip(), reason=place.reason))
        return tuple(unparsed)


class _Parser:
    """The node and the thread that the current piece of a text belongs to, and all that is complete."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._source = ""
        self._nodes: list[HotNode] = []
        self._node: str | None = None
        self._section: str | None = None
        self._threads: list[HotThread] = []
        self._thread: str | None = None
        self._groups: list[StackGroup] = []
        self._stacks = Stacks()
        self._stumps: dict[HotNode | HotThread, HotNode | HotThread] = {}
        self._remark = _Remarks()

    def report(self) -> HotThreadsReport:
        text, remark, known = self._text, self._remark, self._stacks.known
        for kind, source, start, first in cut(text):
            remark.offset = start
            if kind == "group":
                self._groups.append(known.get(source) or self._stacks.read(source, remark, regular=first is not None))
            elif kind == "thread":
                self._end_thread()
                self._thread = source
                if first is None:
                    read_thread(source, self._section, remark)
            elif kind == "node":
                self._end_node()
                self._node = source
                if first is None:
                    self._section = read_node(source, remark).get("name")
                else:
                    self._section = first["name_in_braces"] or first["name_in_brackets"]
            else:
                self._source = source
        if kind == "thread":
            remark(0, source.find("\n") + 1 or len(source), "the text ends before this thread's stack")
        self._end_node()
        return HotThreadsReport(source=self._source, nodes=tuple(self._nodes), unparsed=remark.unparsed(text))

    def _end_thread(self) -> None:
        if self._thread is not None:
            thread = HotThread(self._thread, self._section, tuple(self._groups))
            self._threads.append(thread if self._groups else self._shared(thread))
            self._thread = None
            self._groups = []

    def _end_node(self) -> None:
        self._end_thread()
        if self._node is not None or self._threads:
            node = HotNode(self._node or "", tuple(self._threads))
            self._nodes.append(node if self._threads else self._shared(node))
            self._threads = []

    def _shared(self, part: PartT) -> PartT:
        """A part without parts; if it is a stump that was there before, the same object."""
        if len(part.source) >= _STUMP:
            return part
        if len(self._stumps) >= _MOST_STUMPS:
            self._stumps.clear()
        return cast("PartT", self._stumps.setdefault(part, part))
