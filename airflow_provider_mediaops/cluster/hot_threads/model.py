"""
The values of a hot-threads report, with the text that they were read from.

Each part owns the lines from its own first line to the first line of the next part. The sources of all parts in order
are the whole text, less what it was wrapped in, so :meth:`HotThreadsReport.render` needs no second writer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import ClassVar, Literal

from airflow_provider_mediaops.cluster.hot_threads.grammar import (
    HEADER,
    HEADER_LINE,
    read_bytes,
    read_seconds,
    read_timestamp,
)
from airflow_provider_mediaops.cluster.plain_values import Part, converted

Kind = Literal["cpu", "wait", "block", "mem"]
"""What the threads were sampled for: CPU time, waiting, blocking, or allocated memory."""


class _Part(Part):
    """A part of a report, without its text in JSON."""

    __slots__ = ()
    _left_out: ClassVar[tuple[str, ...]] = ("source", "original", "wrappings")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup(_Part):
    """Snapshots of one thread that share the bottom of their stacks."""

    source: str = field(default="", repr=False)  #: the lines of this group, as they came
    snapshots: int  #: number of snapshots with these frames
    #: number of snapshots taken of the thread; None for a unique snapshot, whose line does not say
    total: int | None = None
    elements: int | None = None  #: number of frames that the group's line announces; None for a unique snapshot
    #: the frames, innermost first, without indentation. If lines are missing there are fewer than `elements`, and
    #: `HotThreadsReport.unparsed` says so
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HotThread(_Part):
    """One thread and its use during the interval."""

    source: str = field(default="", repr=False)  #: the thread's own line, and any text between it and its first group
    name: str | None = None  #: the thread's name as printed; None if the line was cut before it
    node_name: str | None = None  #: the node in the thread's name (`elasticsearch[node][pool][T#1]`), if there is one
    pool: str | None = None  #: the thread pool in the thread's name, or the kind of background thread
    kind: Kind | None = None  #: the kind of sampling; None if the line was not understood
    #: the leading percentage as printed; above 100 and below 0 occur. None if it is no number, or too large.
    #: Elasticsearch from 7.16 on prints CPU and other time together here
    percent: float | None = None
    #: percent of the interval on a processor: `cpu=` if the line gives the split, else `percent` of a report on CPU.
    #: None if unknown, and in reports on waiting, blocking and memory
    cpu_percent: float | None = None
    #: percent of the interval off the processor, neither waiting nor blocked (`other=`)
    other_percent: float | None = None
    idle_percent: float | None = None  #: percent of the interval in which a transport thread was idle (`idle=`)
    time: str | None = None  #: the time of `percent` as printed (`503.3ms`)
    out_of: str | None = None  #: the interval as printed
    memory: str | None = None  #: the memory as printed (`11.4kb`)
    groups: tuple[StackGroup, ...] = ()  #: the stacks, in the order of the text

    _computed: ClassVar[tuple[str, ...]] = ("seconds", "out_of_seconds", "memory_bytes")

    @property
    def seconds(self) -> float | None:
        """Return `time` in seconds."""
        return read_seconds(self.time)

    @property
    def out_of_seconds(self) -> float | None:
        """Return `out_of` in seconds."""
        return read_seconds(self.out_of)

    @property
    def memory_bytes(self) -> int | None:
        """Return `memory` in bytes, rounded."""
        return read_bytes(self.memory)

    @property
    def amount(self) -> float | None:
        """
        Return the amount that the thread used, for sums, weights and rankings.

        :returns: `memory_bytes` in a report on memory; `percent` in one on waiting or blocking; else `cpu_percent`, so
            that other and idle time never count. None if unknown.
        """
        if self.kind == "mem":
            return self.memory_bytes
        return self.cpu_percent if self.kind == "cpu" else self.percent


@dataclass(frozen=True, slots=True, kw_only=True)
class HotNode(_Part):
    """One node's section. A node without threads had nothing hot, unless `failure` says otherwise."""

    source: str = field(default="", repr=False)  #: the lines from the node's header to its first thread
    #: the node's name, which servers omit if it is empty; without a header, that in its threads' names
    name: str | None = None
    node_id: str | None = None  #: the id that stays with the node's data
    ephemeral_id: str | None = None  #: the id that changes with each start
    external_id: str | None = None  #: the id given from outside (Elasticsearch 8 and 9)
    host: str | None = None  #: host name or address
    address: str | None = None  #: transport address, `ip:port` or `[ip]:port`
    roles: str | None = None  #: one letter for each role (`dimr`)
    version: str | None = None  #: the node's version (Elasticsearch 8 and 9)
    index_versions: str | None = None  #: the oldest and newest index version that the node reads, joined by `-`
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)  #: the node's attributes
    timestamp_text: str | None = None  #: when the sampling began, as printed
    interval: str | None = None  #: time between the two readings, as printed
    busiest_threads: int | None = None  #: number of threads asked for
    ignore_idle_threads: bool | None = None  #: whether known idle threads were left out
    failure: str | None = None  #: the sentence in place of the threads, if the node cannot measure them
    threads: tuple[HotThread, ...] = ()  #: the threads, in the order of the text

    _computed: ClassVar[tuple[str, ...]] = ("header", "interval_seconds")

    @property
    def header(self) -> str | None:
        """Return the header as it came, without `:::`; None for text that stood under no header."""
        line = HEADER_LINE.match(self.source)
        return line and line[1].removeprefix(HEADER).strip()

    @property
    def interval_seconds(self) -> float | None:
        """Return `interval` in seconds."""
        return read_seconds(self.interval)

    @property
    def timestamp(self) -> datetime | None:
        """Return when the sampling began, in UTC; None if the text gives no time."""
        return read_timestamp(self.timestamp_text or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed(_Part):
    """Lines that were not understood, or only in part, or that announce lines that do not follow."""

    line: int  #: number of the first line, from 1
    text: str  #: the line, or adjacent lines with the same reason, without blanks at the end
    reason: str  #: the reason, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class HotThreadsReport(_Part):
    """A whole reply of the hot-threads call."""

    #: the lines before the first node: blank ones, a prompt, a `curl` command
    source: str = field(default="", repr=False)
    #: the sections, in the order of the text. Threads under no header are in a node without one, and so is a text
    #: without any header or thread
    nodes: tuple[HotNode, ...] = ()
    #: everything that was not understood, in the order of the text. The lines themselves stay in the `source` of the
    #: part in which they stood
    unparsed: tuple[Unparsed, ...] = ()
    #: in words, all that was taken off before the text could be read: the prefixes of a log, JSON, the signs of a web
    #: page. The sources and the numbers of lines are those of the text without them
    wrappings: tuple[str, ...] = ()
    original: str | None = field(default=None, repr=False)  #: the text with its wrappings; None if it had none

    @classmethod
    def from_dict(cls, value: object) -> HotThreadsReport:
        """
        Read what :meth:`to_dict` returned, or the JSON of a capture: a report without its text.

        :param value: any value.
        :raises ValueError: if it is something else.
        """
        return converted(value, cls)

    @property
    def understood(self) -> bool:
        """Return whether the text holds a node's header, a sampling line or a thread that was understood."""
        return any(node.name or node.node_id or node.timestamp_text or node.threads for node in self.nodes)

    @property
    def read_percent(self) -> float:
        """Return the percentage of the text that was understood, without blanks at the ends of its pieces."""
        size = len(self.plain_text().strip())
        unread = min(size, sum(len(piece.text.strip()) for piece in self.unparsed))
        return 100 * (1 - unread / size) if size else 100.0

    def captures(self) -> tuple[HotThreadsReport, ...]:
        """
        Return the reports of a text that holds several, one after the other: a node comes once in each.

        :returns: the reports, whose texts together are the text without its wrappings; the numbers of lines are those
            of that text. A single one if no node comes twice.
        """
        starts = [0]
        seen: set[tuple[str | None, str | None] | None] = set()
        for number, node in enumerate(self.nodes):
            # Sections that only the threads' names tell apart are pieces of one report.
            identity = (node.node_id, node.name) if node.timestamp_text or node.header else None
            if identity in seen and identity not in (None, (None, None)):
                starts.append(number)
                seen.clear()
            seen.add(identity)
        if len(starts) == 1:
            return (self,)
        parts: list[HotThreadsReport] = []
        left, line = deque(self.unparsed), 1
        for start, end in pairwise([*starts, len(self.nodes)]):
            part = replace(self, source="" if start else self.source, nodes=self.nodes[start:end], original=None)
            line += part.plain_text().count("\n")
            unparsed = []
            while left and (left[0].line < line or end == len(self.nodes)):
                unparsed.append(left.popleft())
            parts.append(replace(part, unparsed=tuple(unparsed)))
        return tuple(parts)

    @property
    def taken(self) -> datetime | None:
        """Return the earliest time that a node prints, in UTC; None if none does."""
        return min((node.timestamp for node in self.nodes if node.timestamp), default=None)

    def render(self) -> str:
        """
        Return the text that was parsed, to the last character.

        :returns: the text with its wrappings; without any, the sources of all parts, joined.
        """
        return self.plain_text() if self.original is None else self.original

    def plain_text(self) -> str:
        """Return the text without its wrappings, which is that of the server as far as it can be known."""
        sources = [self.source]
        for node in self.nodes:
            sources.append(node.source)
            for thread in node.threads:
                sources.append(thread.source)
                sources.extend(group.source for group in thread.groups)
        return "".join(sources)
