"""
Label hot threads with the kinds of their work, and sum the kinds of a report.

Each stack has one kind: that of the highest rank among all that its frames tell, and among equal ranks that of the
deepest frame. If no frame tells one, the thread's pool does, and the label says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_mediaops.cluster.comparison import method_of
from airflow_provider_mediaops.cluster.folded import NO_NAME, kind_of, node_label, pool_label
from airflow_provider_mediaops.cluster.kinds_of_work.table import OTHER, kinds_of_work
from airflow_provider_mediaops.cluster.text import listed

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.folded import Measure
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread, HotThreadsReport
    from airflow_provider_mediaops.cluster.kinds_of_work.table import KindOfWork

ToldBy = Literal["frame", "pool", "nothing"]
"""The sign that told a kind: a frame of the stack, the name of the thread's pool, or none."""

#: A kind is certain if at least this many snapshots show it.
ENOUGH_SNAPSHOTS = 2

# Few, for they are kept as long as the process lives. The threads of a pool have the same stacks.
_REMEMBERED_FRAMES = 5_000
_REMEMBERED_STACKS = 200
# What is longer was made up, and its beginning counts. So the time is linear in the length of a report.
_LONGEST_FRAME = 500
_NO_INDEX = "Elasticsearch 9.1 and newer name no index in the thread."
_MERGED_SHARD = re.compile(r"\[([^\[\]]{1,255})\]\[([0-9]{1,9})\]: Lucene Merge Thread")


class Label(NamedTuple):
    """The kind of work that one stack shows."""

    kind: KindOfWork
    told_by: ToldBy  # the sign that told it
    method: str = ""  # class and method of the frame that told it; empty if none did


class Work(NamedTuple):
    """A part of a thread's work."""

    label: Label
    share: float  # of the thread's busy snapshots, from 0 to 1
    snapshots: int  # how many show it; 0 if the thread has no stack

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain values."""
        kind, told_by, method = self.label
        return {
            "kind": kind.id,
            "label": kind.label,
            "share_percent": round(100 * self.share, 1),
            "snapshots": self.snapshots,
            "told_by": told_by,
            **({"frame": method} if method else {}),
        }


@dataclass(slots=True)
class HotKind:
    """One kind of work, summed up over threads."""

    kind: KindOfWork
    index: str | None = None  # for a merge, the one that the threads' names say
    shard: int | None = None
    amount: float = 0.0  # in the unit of the measure
    share_percent: float = 0.0  # of the amounts of all kinds
    snapshots: int = 0  # how many show it
    threads: dict[tuple[str, str], None] = field(default_factory=dict)  # the node and the name of each
    # The amounts by the frame that told it.
    methods: dict[str, float] = field(default_factory=dict)
    by_pool: float = 0.0  # the amount that only the pools of threads told

    @property
    def label(self) -> str:
        """Return the kind in words, with what is merged."""
        index = "" if self.index is None else f": {self.index}"
        return f"{self.kind.label}{index}" + ("" if self.shard is None else f", shard {self.shard}")

    @property
    def look(self) -> str:
        """Return what to look at next."""
        is_unnamed = self.kind.id == "merge.segments" and self.index is None
        return f"{self.kind.look} {_NO_INDEX}" if is_unnamed else self.kind.look

    @property
    def method(self) -> str:
        """Return the frame that told most of it; empty if none did."""
        return max(self.methods, key=self.methods.__getitem__, default="")

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes of its threads."""
        return tuple(dict.fromkeys(node for node, _ in self.threads))

    @property
    def caution(self) -> str:
        """Return in words why the kind is uncertain; empty if it is not."""
        if self.kind is OTHER or self.kind.family == "idle":
            return ""
        if self.by_pool > self.amount / 2:
            return "by its thread pool only"
        return "from one snapshot" if self.snapshots < ENOUGH_SNAPSHOTS else ""

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain values."""
        return {
            "kind": self.kind.id,
            "label": self.kind.label,
            "share_percent": round(self.share_percent, 1),
            "threads": len(self.threads),
            "nodes": len(self.nodes),
            **({} if self.index is None else {"index": self.index, "shard": self.shard}),
            **({"frame": self.method} if self.method else {}),
            **({"caution": self.caution} if self.caution else {}),
            "look": self.look,
        }


class KindSums:
    """Sums the kinds of work of one or several reports; no report is kept. The measure says which threads count."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._kinds: dict[tuple[str, str | None, int | None], HotKind] = {}

    def add(self, report: HotThreadsReport) -> None:
        """Add the threads of a report."""
        for node in report.nodes:
            name = node_label(node)
            for thread in node.threads:
                if kind_of(thread) == self._measure.kind:
                    self._add(name, thread)

    def hottest_first(self) -> tuple[HotKind, ...]:
        """Return the kinds with an amount, the highest first."""
        total = sum(each.amount for each in self._kinds.values())
        for each in self._kinds.values():
            each.share_percent = 100 * each.amount / total if total else 0.0
        used = (each for each in self._kinds.values() if each.amount > 0)
        return tuple(sorted(used, key=lambda each: (-each.amount, each.label)))

    def _add(self, node: str, thread: HotThread) -> None:
        amount = self._measure.amount(thread)
        for work in works_of(thread):
            kind, part = work.label.kind, amount * work.share
            index, shard = merged_shard(thread) if kind.family == "merge" else (None, None)
            known = self._kinds.setdefault((kind.id, index, shard), HotKind(kind, index, shard))
            known.amount += part
            known.snapshots += work.snapshots
            known.threads[node, thread.name or NO_NAME] = None
            if work.label.method:
                known.methods[work.label.method] = known.methods.get(work.label.method, 0.0) + part
            if work.label.told_by == "pool":
                known.by_pool += part


def hot_kinds(report: HotThreadsReport, measure: Measure) -> tuple[HotKind, ...]:
    """Return the kinds of work of one report, the hottest first."""
    sums = KindSums(measure)
    sums.add(report)
    return sums.hottest_first()


def hottest_kind(kinds: Sequence[HotKind]) -> HotKind | None:
    """Return the kind with the largest share, the merges of all shards in one; None if there is no kind."""
    parts_of: dict[str, list[HotKind]] = {}
    for each in kinds:
        parts_of.setdefault(each.kind.id, []).append(each)
    parts = max(parts_of.values(), key=lambda parts: sum(each.amount for each in parts), default=[])
    if not parts[1:]:
        return parts[0] if parts else None
    indices = dict.fromkeys(each.index for each in parts if each.index is not None)
    whole = HotKind(parts[0].kind, listed(tuple(indices)) or None)
    for each in parts:
        whole.amount += each.amount
        whole.share_percent += each.share_percent
        whole.snapshots += each.snapshots
        whole.by_pool += each.by_pool
        whole.threads |= each.threads
    return whole


def works_of(thread: HotThread) -> tuple[Work, ...]:
    """
    Return the kinds of work that the stacks of a thread show, the largest share first; the shares add up to 1.

    Snapshots in which it was idle do not count beside busy ones: the servers measure the use before they take stacks.
    """
    pool = pool_label(thread)
    shown: dict[Label, int] = {}
    for group in thread.groups:
        label = label_of(group.frames, pool)
        shown[label] = shown.get(label, 0) + group.snapshots
    if not any(shown.values()):
        return (Work(label_of((), pool), 1.0, 0),)
    busy = {label: number for label, number in shown.items() if label.kind.family != "idle" and number} or shown
    total = sum(busy.values())
    parts = (Work(label, number / total, number) for label, number in busy.items())
    return tuple(sorted(parts, key=lambda work: -work.share))


def label_of(frames: Sequence[str], pool: str = "") -> Label:
    """Return the kind of work that one stack shows: by its frames, innermost first, else by the thread's pool."""
    told = _told_by_frames(tuple(frame[:_LONGEST_FRAME] for frame in frames))
    if told is not None:
        return told
    kind = _kinds_of_pools().get(pool)
    return Label(OTHER, "nothing") if kind is None else Label(kind, "pool")


def is_wait(method: str) -> bool:
    """Return whether a thread waits, and does not work, if the method is on top of its stack."""
    told, _ = _signs_in(method[:_LONGEST_FRAME])
    return any(kind.family == "idle" for kind in told)


def merged_shard(thread: HotThread) -> tuple[str | None, int | None]:
    """Return the index and the shard that a merge thread works for; twice None if its name does not say."""
    match = _MERGED_SHARD.search(thread.name or "")
    return (match[1], int(match[2])) if match else (None, None)


@lru_cache(_REMEMBERED_STACKS)
def _told_by_frames(frames: tuple[str, ...]) -> Label | None:
    """Return the kind of the highest rank, of the deepest frame among equal ones."""
    signs = [_signs_in(frame) for frame in frames]
    excluded = {kind.id for _, excludes in signs for kind in excludes}
    told = [
        (kind, frames[depth])
        for depth, (tells, _) in enumerate(signs)
        for kind in tells
        if kind.id not in excluded and (not kind.within or depth < kind.within)
    ]
    if not told:
        return None
    # Of equal ones, the first.
    kind, frame = max(told, key=lambda pair: pair[0].rank)
    return Label(kind, "frame", method_of(frame))


@lru_cache(_REMEMBERED_FRAMES)
def _signs_in(frame: str) -> tuple[tuple[KindOfWork, ...], tuple[KindOfWork, ...]]:
    """Return the kinds that a frame tells, and those that it excludes."""
    method = method_of(frame)
    names = {name for name, part in _names() if part in method and _pattern_of(name).search(method)}
    if not names:
        return (), ()
    told = tuple(kind for kind in kinds_of_work() if not names.isdisjoint(kind.frames))
    return told, tuple(kind for kind in kinds_of_work() if not names.isdisjoint(kind.unless))


@cache
def _names() -> tuple[tuple[str, str], ...]:
    """Return the names of the table, each with its longest part without an asterisk, which is found quickly."""
    names = dict.fromkeys(name for kind in kinds_of_work() for name in (*kind.frames, *kind.unless))
    return tuple((name, max(name.split("*"), key=len)) for name in names)


@cache
def _pattern_of(name: str) -> re.Pattern[str]:
    end = "" if name.endswith((".", "*")) else r"(?!\w)"
    return re.compile(r"(?<!\w)" + r"\w*".join(map(re.escape, name.split("*"))) + end)


@cache
def _kinds_of_pools() -> dict[str, KindOfWork]:
    return {pool: kind for kind in kinds_of_work() for pool in kind.pools}
