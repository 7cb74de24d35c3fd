"""Sum up reports that were taken one after the other, and compare them: by pool, method, node, thread, kind of work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.folded import (
    NO_NAME,
    NO_STACK,
    kind_of,
    measures,
    method_of,
    node_label,
    pool_label,
    stacks,
)
from airflow_provider_mediaops.cluster.kinds_of_work import OTHER, is_wait, merged_shard, works_of
from airflow_provider_mediaops.cluster.text import figure, listed

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.folded import Measure
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread, HotThreadsReport
    from airflow_provider_mediaops.cluster.kinds_of_work import KindOfWork

#: A kind of work is certain if at least this many snapshots show it.
ENOUGH_SNAPSHOTS = 2

_NO_INDEX = "Elasticsearch 9.1 and newer name no index in the thread."
_USED = {"cpu": "CPU", "wait": "Waiting", "block": "Blocked", "mem": "Allocated"}
# A table with a column for each of fifty captures cannot be read.
_MOST_COLUMNS = 5


@dataclass(slots=True)
class Heat:
    """How hot something was: a pool, a method, a node or a thread."""

    name: str
    # In each report, in the unit of the measure; None for a report that does not show it, which only means that it was
    # not among the busiest threads there.
    amounts: list[float | None]
    # The node and the name of each thread; an empty name for a node without threads.
    seen: dict[tuple[str, str], None] = field(default_factory=dict)
    # Of a thread, in the report in which it was hottest: the method in which its most frequent stack ends, and the time
    # off the processor and the idle time in percent; None if the server prints none.
    method: str = NO_STACK
    other_percent: float | None = None
    idle_percent: float | None = None

    @property
    def peak(self) -> float:
        """Return the highest amount."""
        return max(amount or 0.0 for amount in self.amounts)

    @property
    def threads(self) -> int:
        """Return the number of threads over all reports."""
        return sum(bool(name) for _, name in self.seen)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes on which it was seen, in the order of the text."""
        return tuple(dict.fromkeys(node for node, _ in self.seen))

    @property
    def difference(self) -> float:
        """Return the last amount less the first; an amount that is not shown counts as zero."""
        return (self.amounts[-1] or 0.0) - (self.amounts[0] or 0.0)

    @property
    def trend(self) -> str:
        """Return ``new`` if the last report shows it and the first does not, ``gone`` the other way round."""
        if (self.amounts[0] is None) == (self.amounts[-1] is None):
            return ""
        return "gone" if self.amounts[-1] is None else "new"


@dataclass(slots=True)
class HotKind(Heat):
    """One kind of work, summed up over threads."""

    kind: KindOfWork = OTHER
    index: str | None = None  # for a merge, the one that the threads' names say
    shard: int | None = None
    share_percent: float = 0.0  # of the amounts of all kinds
    snapshots: int = 0  # how many show it
    # The amounts by the frame that told it.
    methods: dict[str, float] = field(default_factory=dict)
    by_pool: float = 0.0  # the amount that only the pools of threads told

    @property
    def amount(self) -> float:
        """Return the amount in all reports."""
        return sum(amount or 0.0 for amount in self.amounts)

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
    def told_by(self) -> str:
        """Return the frame that told most of it; empty if none did."""
        return max(self.methods, key=self.methods.__getitem__, default="")

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
            "threads": self.threads,
            "nodes": len(self.nodes),
            **({} if self.index is None else {"index": self.index, "shard": self.shard}),
            **({"frame": self.told_by} if self.told_by else {}),
            **({"caution": self.caution} if self.caution else {}),
            "look": self.look,
        }


class Comparison:
    """
    One report, or several taken one after the other, added up and side by side, hottest first.

    As many reports as were announced are added, and none is kept. The measure says which threads count, and what their
    amounts mean. The sums are read once all reports are there.
    """

    def __init__(self, measure: Measure, reports: int) -> None:
        self.measure = measure
        #: How many threads have an unknown amount, and count 1.
        self.without_figure = 0
        #: How many are of another kind, whose amounts do not add up with these.
        self.left_out = 0
        self._reports, self._added = reports, 0
        self._kinds: dict[tuple[str, str | None, int | None], HotKind] = {}
        self._pools: dict[str, Heat] = {}
        self._methods: dict[str, Heat] = {}
        self._nodes: dict[str, Heat] = {}
        self._threads: dict[tuple[str, str], Heat] = {}

    def add(self, report: HotThreadsReport) -> None:
        """Add the next report."""
        for section in report.nodes:
            node = node_label(section)
            self._add_to(self._nodes.setdefault(node, self._heat(node)), 0.0, (node, ""))
            for thread in section.threads:
                if kind_of(thread) == self.measure.kind:
                    self._add_thread(node, thread)
                else:
                    self.left_out += 1
        for stack in stacks(report, self.measure):
            method = method_of(stack.frames[-1]) if stack.frames else NO_STACK
            self._add_to(self._methods.setdefault(method, self._heat(method)), stack.part, (stack.node, stack.thread))
        self._added += 1

    def _add_thread(self, node: str, thread: HotThread) -> None:
        self.without_figure += self.measure.unit != "threads" and thread.amount is None
        key, amount, pool = (node, thread.name or NO_NAME), self.measure.amount(thread), pool_label(thread)
        self._add_to(self._nodes[node], amount, key)
        self._add_to(self._pools.setdefault(pool, self._heat(pool)), amount, key)
        one = self._threads.setdefault(key, self._heat(key[1]))
        if not one.seen or amount > one.peak:
            one.method = top_method(thread)
            one.other_percent, one.idle_percent = thread.other_percent, thread.idle_percent
        self._add_to(one, amount, key)
        for (kind, method), share, snapshots in works_of(thread):
            index, shard = merged_shard(thread) if kind.family == "merge" else (None, None)
            new = HotKind(kind.label, [None] * self._reports, kind=kind, index=index, shard=shard)
            found, part = self._kinds.setdefault((kind.id, index, shard), new), amount * share
            self._add_to(found, part, key)
            found.snapshots += snapshots
            if method:
                found.methods[method] = found.methods.get(method, 0.0) + part
            elif kind is not OTHER:
                found.by_pool += part

    def _heat(self, name: str) -> Heat:
        return Heat(name, [None] * self._reports)

    def _add_to(self, heat: Heat, amount: float, seen: tuple[str, str]) -> None:
        """Add an amount in the report at hand."""
        heat.amounts[self._added] = (heat.amounts[self._added] or 0.0) + amount
        heat.seen[seen] = None

    @cached_property
    def pools(self) -> list[Heat]:
        """The thread pools, over all nodes."""
        return _hottest_first(self._pools.values())

    @cached_property
    def methods(self) -> list[Heat]:
        """The methods in which the stacks end, over all nodes and pools."""
        return _hottest_first(self._methods.values())

    @property
    def method_at_work(self) -> Heat | None:
        """The hottest method that is no wait; None if nothing was hot in any."""
        return next((method for method in self.methods if method.peak and not is_wait(method.name)), None)

    @cached_property
    def nodes(self) -> list[Heat]:
        """The nodes, those with nothing hot included."""
        return _hottest_first(self._nodes.values())

    @cached_property
    def threads(self) -> list[Heat]:
        """The threads; those of one name on two nodes are two."""
        return _hottest_first(self._threads.values())

    @cached_property
    def kinds(self) -> list[HotKind]:
        """The kinds of work with an amount."""
        total = sum(each.amount for each in self._kinds.values())
        used = [each for each in self._kinds.values() if each.amount > 0]
        for each in used:
            each.share_percent = 100 * each.amount / total
        return sorted(used, key=lambda each: (-each.amount, each.label))

    @property
    def hottest_kind(self) -> HotKind | None:
        """The kind of work with the largest share, the merges of all shards in one; None if there is none."""
        parts_of: dict[str, list[HotKind]] = {}
        for each in self.kinds:
            parts_of.setdefault(each.kind.id, []).append(each)
        parts = max(parts_of.values(), key=lambda parts: sum(each.amount for each in parts), default=[])
        if not parts[1:]:
            return parts[0] if parts else None
        indices = dict.fromkeys(each.index for each in parts if each.index is not None)
        amounts: list[float | None] = [
            sum(each.amounts[number] or 0.0 for each in parts) for number in range(self._reports)
        ]
        whole = HotKind(parts[0].name, amounts, kind=parts[0].kind, index=listed(tuple(indices)) or None)
        for each in parts:
            whole.seen |= each.seen
            whole.share_percent += each.share_percent
            whole.snapshots += each.snapshots
            whole.by_pool += each.by_pool
        return whole

    @property
    def heading(self) -> str:
        """The heading of the amounts of threads."""
        used = "Seen" if self.measure.unit == "threads" else _USED[self.measure.kind]
        return used if self._reports == 1 else f"{used}, highest"

    def changes(self) -> dict[str, list[Heat]]:
        """Return the pools, top frames and threads that changed from the first report to the last, by what they are."""
        found = {"Thread pool": self.pools, "Top frame": self.methods, "Thread": self.threads}
        nothing = figure(0.0, self.measure)
        return {
            first: sorted(changed, key=lambda heat: -abs(heat.difference))
            for first, heats in found.items()
            if (changed := [heat for heat in heats if figure(abs(heat.difference), self.measure) != nothing])
        }


def compare(reports: Sequence[HotThreadsReport]) -> Comparison:
    """Sum up one or more reports, and compare them."""
    found = Comparison(measures(reports)[0], len(reports))
    for report in reports:
        found.add(report)
    return found


def columns_of(captures: int) -> list[int]:
    """Choose the captures that get a column: the first, the last, and some between, evenly spread."""
    if captures <= _MOST_COLUMNS:
        return list(range(captures))
    return [round(step * (captures - 1) / (_MOST_COLUMNS - 1)) for step in range(_MOST_COLUMNS)]


def top_method(thread: HotThread) -> str:
    """Return the method in which a thread's most frequent stack ends, such as `org.x.Y$Z.run`, or :data:`NO_STACK`."""
    group = max(thread.groups, key=lambda group: group.snapshots, default=None)
    return method_of(group.frames[0]) if group and group.frames else NO_STACK


def _hottest_first(heats: Iterable[Heat]) -> list[Heat]:
    return sorted(heats, key=lambda heat: -heat.peak)
