"""
Write reports as folded stacks: one line for each stack with a weight, the form that flame-graph tools read.

Files and page use the same weights:

- The *amount* of a thread is its CPU in percent, without other and idle time; in a report on waiting or blocking, the
  percentage of the interval; for memory, its bytes. If no thread of a kind has an amount above zero (OpenSearch prints
  0.0 % for every `wait` and `block`), nothing was measured, and each thread counts 1.
- The weight of a stack is its thread's amount times the number of snapshots with this stack. A thread without any
  stack weighs as if one had been seen in all snapshots. Written weights are whole numbers, and never rounded to zero.
- A thread that used nothing, among others that used something, weighs nothing and has no line. A thread whose amount
  is unknown counts 1, as one percent does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport, Kind

Unit = Literal["percent", "bytes", "threads"]
"""The unit of an amount: percent of the interval, bytes allocated, or a number of threads."""

NO_NAME = "(no name)"
NO_STACK = "(no stack)"

_THREAD_NUMBER = re.compile(r"[-_ #]{0,3}[0-9]{1,9}$")
_HIDDEN_CLASS = re.compile(r"/0x[0-9a-f]{1,16}")
_LAMBDA = re.compile(r"\$\$Lambda\$[0-9]{1,9}")
# Frames repeat within a report and from one to the next.
_REMEMBERED_FRAMES = 20_000


@dataclass(frozen=True, slots=True)
class Measure:
    """The meaning of the amounts of threads, and their unit."""

    kind: Kind
    unit: Unit

    def amount(self, thread: HotThread) -> float:
        """Return how much a thread used, in this unit and never below zero; 1 if it is unknown."""
        amount = thread.amount
        return 1.0 if self.unit == "threads" or amount is None else max(0.0, amount)


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack of one thread."""

    node: str
    pool: str  # of a thread in none, its name without its number
    thread: str
    frames: tuple[str, ...]  # as they came, outermost first
    weight: float  # the thread's amount times the snapshots that have this stack
    part: float  # of the thread's amount


def kind_of(thread: HotThread) -> Kind:
    """Return the kind of sample of a thread; `cpu`, the servers' default, if its line was not understood."""
    return thread.kind or "cpu"


def node_label(node: HotNode) -> str:
    """Return the label of a node: its name, else its id, else its header."""
    return node.name or node.node_id or node.header or "(no node)"


def pool_label(thread: HotThread) -> str:
    """Return the label under which a thread is summed with others: its pool, else its name without its number."""
    return thread.pool or _THREAD_NUMBER.sub("", thread.name or "") or NO_NAME


def measures(reports: Iterable[HotThreadsReport]) -> tuple[Measure, ...]:
    """Return a measure for each kind of thread in the reports, that of the most threads first; no report is kept."""
    threads: Counter[Kind] = Counter()
    measured: set[Kind] = set()
    for report in reports:
        for thread in (thread for node in report.nodes for thread in node.threads):
            threads[kind_of(thread)] += 1
            if (thread.amount or 0) > 0:
                measured.add(kind_of(thread))
    return tuple(
        Measure(kind, "threads" if kind not in measured else "bytes" if kind == "mem" else "percent")
        for kind, _ in threads.most_common()
    ) or (Measure("cpu", "percent"),)


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


def short_method(method: str) -> str:
    """Return the class and method without the package."""
    return ".".join(method.rsplit(".", 2)[-2:])


def stacks(report: HotThreadsReport, measure: Measure) -> Iterator[Stack]:
    """Yield the stacks of one kind, in the order of the text."""
    totals = (group.total for section in report.nodes for thread in section.threads for group in thread.groups)
    usual = max((total or 0 for total in totals), default=0) or 1
    for section in report.nodes:
        label = node_label(section)
        for thread in section.threads:
            if kind_of(thread) == measure.kind:
                yield from _stacks_of(thread, label, measure.amount(thread), usual)


def _stacks_of(thread: HotThread, node: str, amount: float, usual: int) -> Iterator[Stack]:
    pool, name = pool_label(thread), thread.name or NO_NAME
    seen = sum(group.snapshots for group in thread.groups)
    if not seen:
        yield Stack(node, pool, name, (), amount * usual, amount)
        return
    # A unique snapshot does not say of how many.
    taken = max(seen, *(group.total or 0 for group in thread.groups))
    for group in thread.groups:
        weight = amount * group.snapshots
        yield Stack(node, pool, name, group.frames[::-1], weight, weight / taken)


def folded(reports: Iterable[HotThreadsReport], kinds: Sequence[Measure], *, kinds_first: bool = False) -> str:
    """
    Write reports, whose kinds :func:`measures` gives, as `flamegraph.pl`, inferno, speedscope and others read them.

    A line is `node;pool;thread;outermost frame;...;innermost frame weight`. :func:`on_one_line` describes how a frame
    is written. Equal stacks make one line, in the place of the first. Amounts of several kinds (`cpu`, `mem`) do not
    add up: if there are several, each line begins with its kind.
    """
    from airflow_provider_mediaops.cluster.kinds_of_work import label_of

    weights: dict[tuple[str, ...], float] = {}
    for report in reports:
        for measure in kinds:
            root = (measure.kind,) if len(kinds) > 1 else ()
            for stack in stacks(report, measure):
                work = (label_of(stack.frames[::-1], stack.pool).kind.label,) if kinds_first else ()
                path = (*root, *work, stack.node, stack.pool, stack.thread, *stack.frames)
                weights[path] = weights.get(path, 0.0) + stack.weight
    written = {part: on_one_line(part) for path in weights for part in path}
    return "".join(
        f"{';'.join([written[part] for part in path])} {max(1, round(weight))}\n"
        for path, weight in weights.items()
        if weight > 0
    )


def on_one_line(text: str) -> str:
    r"""
    Escape a name or a frame so that it can stand between semicolons.

    A semicolon becomes `\x3b`, a backslash two. Invisible characters (line ends, controls, marks that turn the
    direction of writing) are written as in a text of Python, and so is each byte that is not UTF-8: 0xff is `\udcff`.
    """
    return "".join(map(visible, text.replace("\\", r"\\"))).replace(";", r"\x3b")


def visible(sign: str) -> str:
    r"""Return one character in a visible form: itself, or as in a text of Python, such as `\n` or `\u2028`."""
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
