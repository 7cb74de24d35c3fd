"""What a hot-threads text says, as typed values that also hold the text they were read from.

Each part owns the lines from its own first line up to the first line of the next part. The parts in order are
therefore the whole text, which is how `HotThreadsReport.render` gives it back without a second writer.

What the lines of a node or a thread state is read from them when it is first asked for, so that a report costs little
more than its text until somebody looks at all of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from airflow_provider_mediaops.cluster.hot_threads.grammar import read_timestamp
from airflow_provider_mediaops.cluster.hot_threads.parts import read_node, read_thread

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self

Kind = Literal["cpu", "wait", "block", "mem"]
"""What was sampled: time on a processor, waiting or blocked, or memory allocated."""

T = TypeVar("T")

# The text itself is no value of its own in JSON, nor is what a part knows of the one that it stands in.
_NOT_TOLD = {"source", "section"}


class _Part:
    """A model that can be written as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The values of this part and of the parts within, ready for `json.dumps`.

        The text itself (`source`) is left out, and so is `timestamp`, which `timestamp_text` tells exactly.

        :returns: one entry a value, named like the attribute.
        """
        stated = [name for name, value in vars(type(self)).items() if isinstance(value, Stated)]
        held = [item.name for item in fields(self) if item.name not in _NOT_TOLD]  # type: ignore[arg-type]
        return {name: _plain(getattr(self, name)) for name in [*stated, *held]}


def _plain(value: object) -> object:
    """`value` in the types that JSON knows."""
    if isinstance(value, _Part):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value


class _StatingPart(_Part):
    """A part whose first lines state values, which are read once, when the first of them is asked for."""

    __slots__ = ("_values",)
    _values: Mapping[str, Any]

    def stated(self) -> Mapping[str, Any]:
        """What the lines state, by the names of the attributes; what they do not state is not in it."""
        try:
            return self._values
        except AttributeError:
            object.__setattr__(self, "_values", self._read())
            return self._values

    @abstractmethod
    def _read(self) -> Mapping[str, Any]:
        """Read the lines."""

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Frozen and with slots, it can be copied and pickled by its fields only; the values are read again.
        return type(self), tuple(getattr(self, item.name) for item in fields(self))  # type: ignore[arg-type]


class Stated(Generic[T]):
    """An attribute that the lines of a part state.

    :param otherwise: its value where they do not.
    """

    def __init__(self, otherwise: T | None = None) -> None:
        self._otherwise = otherwise

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, part: None, owner: type) -> Stated[T]: ...

    @overload
    def __get__(self, part: _StatingPart, owner: type) -> T: ...

    def __get__(self, part: _StatingPart | None, owner: type) -> Any:
        return self if part is None else part.stated().get(self._name, self._otherwise)


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

    source: str = field(default="", repr=False)
    snapshots: int
    total: int | None = None
    elements: int | None = None
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, init=False)
class HotThread(_StatingPart):
    """One thread and what it used during the interval.

    :param source: the thread's own line, and what stood between it and its first group.
    :param section: the name of the node in whose section it stands, which tells the parts of its name apart.
    :param groups: the stacks, in the order of the text.
    :ivar name: the thread's name as the node printed it, or None where the line was cut before it.
    :ivar node_name: the node that the name speaks of, if it does (`elasticsearch[node][pool][T#1]`).
    :ivar pool: the thread pool, or the kind of background thread, if the name tells.
    :ivar kind: what was sampled, or None where the line was not understood.
    :ivar percent: the leading percentage as printed; above 100 and below 0 occur. None if it is no number.
        Elasticsearch from 7.16 on prints CPU and other time together here.
    :ivar cpu_percent: percent of the interval on a processor: `cpu=` if the line gives the split, else `percent` of a
        report on CPU. None if unknown, and in reports on waiting, blocking and memory.
    :ivar other_percent: percent of the interval off the processor, neither waiting nor blocked (`other=`).
    :ivar idle_percent: percent of the interval in which a transport thread was idle (`idle=`).
    :ivar time: the time as printed (`503.3ms`); `seconds` is the same in seconds.
    :ivar out_of: the interval as printed; `out_of_seconds` is the same in seconds.
    :ivar memory: the memory as printed (`11.4kb`); `memory_bytes` is the same in bytes, rounded.
    """

    __slots__ = ("groups", "section", "source")
    source: str
    section: str | None
    groups: tuple[StackGroup, ...]

    def __init__(self, source: str, section: str | None, groups: tuple[StackGroup, ...]) -> None:
        # Reports are full of threads, and the way of a dataclass into a frozen object takes twice the time.
        _set_source(self, source)
        _set_section(self, section)
        _set_groups(self, groups)

    name = Stated[str | None]()
    node_name = Stated[str | None]()
    pool = Stated[str | None]()
    kind = Stated[Kind | None]()
    percent = Stated[float | None]()
    cpu_percent = Stated[float | None]()
    other_percent = Stated[float | None]()
    idle_percent = Stated[float | None]()
    time = Stated[str | None]()
    seconds = Stated[float | None]()
    out_of = Stated[str | None]()
    out_of_seconds = Stated[float | None]()
    memory = Stated[str | None]()
    memory_bytes = Stated[int | None]()

    @property
    def amount(self) -> float | None:
        """Return what the thread used, for sums, weights and rankings.

        :returns: `memory_bytes` in a report on memory; `percent` in one on waiting or blocking, and of a line that was
            cut before its kind; else `cpu_percent`, so that other and idle time never count. None if unknown.
        """
        if self.kind == "mem":
            return self.memory_bytes
        if self.kind == "cpu" or self.cpu_percent is not None:
            return self.cpu_percent
        return self.percent

    def _read(self) -> Mapping[str, Any]:
        return read_thread(self.source, self.section)


_set_source, _set_section, _set_groups = (vars(HotThread)[name].__set__ for name in ("source", "section", "groups"))


@dataclass(frozen=True)
class HotNode(_StatingPart):
    """One node's section. A node without threads had nothing hot, unless `failure` says otherwise.

    :param source: the lines from the node's header up to its first thread.
    :param threads: the threads, in the order of the text.
    :ivar header: the header as it came, without `:::`, or None for text that stood under no header.
    :ivar name: the node's name; left out by the server when empty.
    :ivar node_id: the id that stays with the node's data.
    :ivar ephemeral_id: the id that changes with each start.
    :ivar external_id: the id given from outside (Elasticsearch 8 and 9).
    :ivar host: host name or address.
    :ivar address: transport address, `ip:port` or `[ip]:port`.
    :ivar roles: one letter a role (`dimr`).
    :ivar version: the node's version (Elasticsearch 8 and 9).
    :ivar index_versions: the oldest and newest index version it reads, joined by `-`.
    :ivar attributes: the node's attributes.
    :ivar timestamp_text: when the sampling began, as printed.
    :ivar interval: time between the two readings, as printed; `interval_seconds` is the same in seconds.
    :ivar busiest_threads: how many threads were asked for.
    :ivar ignore_idle_threads: whether known idle threads were left out.
    :ivar failure: the sentence that stands in place of the threads where the node cannot measure them.
    """

    __slots__ = ("source", "threads")
    source: str
    threads: tuple[HotThread, ...]

    header = Stated[str | None]()
    name = Stated[str | None]()
    node_id = Stated[str | None]()
    ephemeral_id = Stated[str | None]()
    external_id = Stated[str | None]()
    host = Stated[str | None]()
    address = Stated[str | None]()
    roles = Stated[str | None]()
    version = Stated[str | None]()
    index_versions = Stated[str | None]()
    attributes = Stated[Mapping[str, str]](MappingProxyType({}))
    timestamp_text = Stated[str | None]()
    interval = Stated[str | None]()
    interval_seconds = Stated[float | None]()
    busiest_threads = Stated[int | None]()
    ignore_idle_threads = Stated[bool | None]()
    failure = Stated[str | None]()

    @property
    def timestamp(self) -> datetime | None:
        """When the sampling began, in UTC; None where it is not stated as a time."""
        return read_timestamp(self.timestamp_text or "")

    def _read(self) -> Mapping[str, Any]:
        return read_node(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed(_Part):
    """Lines that were not understood, or not wholly, or that announce what does not follow.

    :param line: number of the first line, from 1.
    :param text: the line, or adjacent lines with the same reason, without what is blank at its end.
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

    source: str = field(default="", repr=False)
    nodes: tuple[HotNode, ...] = ()
    unparsed: tuple[Unparsed, ...] = ()

    @property
    def understood(self) -> bool:
        """Whether anything of the text was understood as part of a report: a header, a sampling line, or a thread."""
        return any(node.name or node.node_id or node.timestamp_text or node.threads for node in self.nodes)

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
