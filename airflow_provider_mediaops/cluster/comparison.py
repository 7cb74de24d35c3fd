"""Sum the CPU of threads over pools and nodes, and compare reports taken one after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.folded import NO_NAME, kind_of, measures, node_label, pool_label, stacks

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.folded import Measure
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread, HotThreadsReport

NO_STACK = "(no stack)"

_HIDDEN_CLASS = re.compile(r"/0x[0-9a-f]{1,16}")
_LAMBDA = re.compile(r"\$\$Lambda\$[0-9]{1,9}")
# Frames repeat within a report and from one to the next.
_REMEMBERED_FRAMES = 20_000


@dataclass(frozen=True, slots=True)
class Heat:
    """How hot something was: a pool, a method, a node or a thread."""

    name: str
    # In each report, in the unit of the comparison's measure; None for a report that does not show it, which only means
    # that it was not among the busiest threads there.
    amounts: tuple[float | None, ...]
    threads: int  # over all reports
    nodes: tuple[str, ...]  # on which it was seen, in the order of the text

    @property
    def peak(self) -> float:
        """Return the highest amount."""
        return max(amount or 0.0 for amount in self.amounts)

    @property
    def difference(self) -> float:
        """Return the last amount less the first; an amount that is not shown counts as zero."""
        return (self.amounts[-1] or 0.0) - (self.amounts[0] or 0.0)

    @property
    def is_new(self) -> bool:
        """Return whether the last report shows it and the first does not."""
        return self.amounts[0] is None and self.amounts[-1] is not None

    @property
    def is_gone(self) -> bool:
        """Return whether the first report shows it and the last does not."""
        return self.amounts[0] is not None and self.amounts[-1] is None


@dataclass(frozen=True, slots=True)
class HotOne:
    """One thread."""

    heat: Heat  # its only node is the thread's
    method: str  # in which its most frequent stack ends, in the report in which it was hottest
    other_percent: float | None  # time off the processor in that report; None if the server prints no split
    idle_percent: float | None  # in that report; None if the server prints none


@dataclass(frozen=True, slots=True)
class Comparison:
    """One report, or several taken one after the other, added up and side by side, hottest first."""

    measure: Measure  # the meaning of the amounts; if there are several kinds, that of the most threads
    pools: tuple[Heat, ...]  # over all nodes
    methods: tuple[Heat, ...]  # by the method in which the stacks end, over all nodes and pools
    nodes: tuple[Heat, ...]  # those with nothing hot included
    threads: tuple[HotOne, ...]
    without_figure: int  # threads whose amount is unknown and counts 1
    left_out: int  # threads of another kind, whose amounts do not add up with these


def compare(reports: Sequence[HotThreadsReport]) -> Comparison:
    """Sum up the amounts of pools, methods, nodes and threads of one or more reports, for each report."""
    sums = ComparisonSums(measures(reports)[0], len(reports))
    for report in reports:
        sums.add(report)
    return sums.comparison()


class ComparisonSums:
    """
    The sums of a comparison, to which as many reports as were announced are added; none is kept.

    The measure says which threads count, and what their amounts mean.
    """

    def __init__(self, measure: Measure, reports: int) -> None:
        self._measure = measure
        self._added = 0
        self._pools, self._methods, self._nodes, self._ones = (_Sums(reports) for _ in range(4))
        # What is kept of a thread: its amount, method, and the other and idle percent.
        self._hottest: dict[tuple[str, str], tuple[float, str, float | None, float | None]] = {}
        self._without_figure = self._left_out = 0

    def add(self, report: HotThreadsReport) -> None:
        """Add the next report."""
        number = self._added
        self._added += 1
        for section in report.nodes:
            node = node_label(section)
            self._nodes.add(number, node, 0.0, node)
            for thread in section.threads:
                self._add_thread(number, node, thread)
        for stack in stacks(report, self._measure):
            method = method_of(stack.frames[-1]) if stack.frames else NO_STACK
            self._methods.add(number, method, stack.part, stack.node, stack.thread)

    def _add_thread(self, number: int, node: str, thread: HotThread) -> None:
        if kind_of(thread) != self._measure.kind:
            self._left_out += 1
            return
        self._without_figure += self._measure.unit != "threads" and thread.amount is None
        key, amount = (node, thread.name or NO_NAME), self._measure.amount(thread)
        self._nodes.add(number, node, amount, *key)
        self._pools.add(number, pool_label(thread), amount, *key)
        self._ones.add(number, key, amount, *key)
        if key not in self._hottest or amount > self._hottest[key][0]:
            self._hottest[key] = amount, top_method(thread), thread.other_percent, thread.idle_percent

    def comparison(self) -> Comparison:
        """Return the sums, hottest first."""
        ones = self._ones.hottest_first()
        return Comparison(
            measure=self._measure,
            pools=self._pools.hottest_first(),
            methods=self._methods.hottest_first(),
            nodes=self._nodes.hottest_first(),
            threads=tuple(HotOne(heat, *self._hottest[heat.nodes[0], heat.name][1:]) for heat in ones),
            without_figure=self._without_figure,
            left_out=self._left_out,
        )


def top_method(thread: HotThread) -> str:
    """Return the method in which a thread's most frequent stack ends, such as `org.x.Y$Z.run`, or :data:`NO_STACK`."""
    group = max(thread.groups, key=lambda group: group.snapshots, default=None)
    return method_of(group.frames[0]) if group and group.frames else NO_STACK


@lru_cache(_REMEMBERED_FRAMES)
def method_of(frame: str) -> str:
    """
    Return the class and method of a frame, the same on each node and in each run.

    Without module, place and the numbers of a run: `org.x.Y$$Lambda.get` for
    `app//org.x.Y$$Lambda$5664/0x0000000801.get(Unknown Source)`.
    """
    # Only a hidden class has a slash after the module.
    method = _LAMBDA.sub("$$Lambda", _HIDDEN_CLASS.sub("", frame.partition("(")[0]))
    return method.rpartition("/")[2] or frame


class _Sums:
    """Amounts by name and report, with the threads in them."""

    def __init__(self, reports: int) -> None:
        self._reports = reports
        self._amounts: dict[str | tuple[str, str], list[float | None]] = {}
        self._threads: dict[str | tuple[str, str], dict[tuple[str, str], None]] = {}

    def add(self, report: int, key: str | tuple[str, str], amount: float, node: str, thread: str = "") -> None:
        amounts = self._amounts.setdefault(key, [None] * self._reports)
        amounts[report] = (amounts[report] or 0.0) + amount
        self._threads.setdefault(key, {})[node, thread] = None

    def hottest_first(self) -> tuple[Heat, ...]:
        heats = [
            Heat(
                name=key if isinstance(key, str) else key[1],
                amounts=tuple(amounts),
                threads=sum(bool(thread) for _, thread in self._threads[key]),
                nodes=tuple(dict.fromkeys(node for node, _ in self._threads[key])),
            )
            for key, amounts in self._amounts.items()
        ]
        return tuple(sorted(heats, key=lambda heat: -heat.peak))
