"""What a hot-threads text says, as typed values that also hold the text they were read from.

Each part owns the lines from its own first line up to the first line of the next part. The parts in order are
therefore the whole text, which is how `HotThreadsReport.render` gives it back without a second writer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Kind = Literal["cpu", "wait", "block", "mem"]
"""What was sampled: time on a processor, waiting or blocked, or memory allocated."""


def _plain(value: object) -> object:
    """`value` in the types that JSON knows."""
    if isinstance(value, _Part):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return dict(value)
    return value


@dataclass(frozen=True, slots=True)
class _Part:
    """A model that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """The values of this part and of the parts within, ready for `json.dumps`.

        The text itself (`source`) is left out, and so is `timestamp`, which `timestamp_text` tells exactly.

        :returns: one entry a field, named like the field.
        """
        names = [item.name for item in fields(self) if item.metadata.get("json", True)]
        return {name: _plain(getattr(self, name)) for name in names}


def _source() -> Any:
    return field(default="", repr=False, metadata={"json": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup(_Part):
    """Snapshots of one thread that share the bottom of their stacks.

    :param source: the lines of this group, as they came.
    :param snapshots: in how many snapshots these frames were seen.
    :param total: of how many, or None for a unique snapshot, whose line does not say.
    :param elements: how many frames the line announces, or None for a unique snapshot.
    :param frames: the frames, innermost first, without indentation. Fewer than `elements` when lines are
        missing, which `HotThreadsReport.unparsed` then tells.
    """

    source: str = _source()
    snapshots: int
    total: int | None = None
    elements: int | None = None
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HotThread(_Part):
    """One thread and what it used during the interval.

    :param source: the thread's own line, and what stood between it and its first group.
    :param name: the thread's name as the node printed it, or None where the line was cut before it.
    :param node_name: the node that the name speaks of, if it does (`elasticsearch[node][pool][T#1]`).
    :param pool: the thread pool, or the kind of background thread, if the name tells.
    :param kind: what was sampled, or None where the line was not understood.
    :param share: percent of the interval; above 100 and below 0 do occur. None where no number was given.
    :param cpu_share: percent on a processor (Elasticsearch from 7.16).
    :param other_share: percent neither on a processor nor waiting (Elasticsearch from 7.16).
    :param idle_share: the same for transport threads, where newer versions call it idle.
    :param time: the time as printed (`503.3ms`); `seconds` is the same in seconds.
    :param out_of: the interval as printed; `out_of_seconds` is the same in seconds.
    :param memory: the memory as printed (`11.4kb`); `memory_bytes` is the same in bytes, rounded.
    :param groups: the stacks, in the order of the text.
    """

    source: str = _source()
    name: str | None = None
    node_name: str | None = None
    pool: str | None = None
    kind: Kind | None = None
    share: float | None = None
    cpu_share: float | None = None
    other_share: float | None = None
    idle_share: float | None = None
    time: str | None = None
    seconds: float | None = None
    out_of: str | None = None
    out_of_seconds: float | None = None
    memory: str | None = None
    memory_bytes: int | None = None
    groups: tuple[StackGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HotNode(_Part):
    """One node's section. A node without threads had nothing hot, unless `failure` says otherwise.

    :param source: the lines from the node's header up to its first thread.
    :param header: the header as it came, without `:::`, or None for text that stood under no header.
    :param name: the node's name; left out by the server when empty.
    :param node_id: the id that stays with the node's data.
    :param ephemeral_id: the id that changes with each start.
    :param external_id: the id given from outside (Elasticsearch 8 and 9).
    :param host: host name or address.
    :param address: transport address, `ip:port` or `[ip]:port`.
    :param roles: one letter a role (`dimr`).
    :param version: the node's version (Elasticsearch 8 and 9).
    :param index_versions: the oldest and newest index version it reads, joined by `-`.
    :param attributes: the node's attributes.
    :param timestamp_text: when the sampling began, as printed; `timestamp` is the same in UTC, if it is a time.
    :param interval: time between the two readings, as printed; `interval_seconds` is the same in seconds.
    :param busiest_threads: how many threads were asked for.
    :param ignore_idle_threads: whether known idle threads were left out.
    :param failure: the sentence that stands in place of the threads where the node cannot measure them.
    :param threads: the threads, in the order of the text.
    """

    source: str = _source()
    header: str | None = None
    name: str | None = None
    node_id: str | None = None
    ephemeral_id: str | None = None
    external_id: str | None = None
    host: str | None = None
    address: str | None = None
    roles: str | None = None
    version: str | None = None
    index_versions: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    timestamp_text: str | None = None
    timestamp: datetime | None = field(default=None, metadata={"json": False})
    interval: str | None = None
    interval_seconds: float | None = None
    busiest_threads: int | None = None
    ignore_idle_threads: bool | None = None
    failure: str | None = None
    threads: tuple[HotThread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed(_Part):
    """Lines that were not understood, or not wholly, or that announce what does not follow.

    :param line: number of the first line, from 1.
    :param text: the line as it came, or adjacent lines with the same reason, without the last line's end.
    :param reason: what is wrong, in words.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HotThreadsReport(_Part):
    """A whole reply of the hot-threads call.

    :param source: blank lines before the first node; all of the text where nothing else is in it.
    :param nodes: the sections, in the order of the text; text under no node's header makes a node without one.
    :param unparsed: everything that was not understood, in the order of the text. The lines themselves stay
        in the `source` of the part in which they stood.
    """

    source: str = _source()
    nodes: tuple[HotNode, ...] = ()
    unparsed: tuple[Unparsed, ...] = ()

    def render(self) -> str:
        """The text again, to the last character.

        :returns: the sources of all parts, one after the other.
        """
        sources = [self.source]
        for node in self.nodes:
            sources.append(node.source)
            for thread in node.threads:
                sources.append(thread.source)
                sources.extend(group.source for group in thread.groups)
        return "".join(sources)
