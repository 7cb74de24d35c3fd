"""The summary of hot-threads reports for people, in the words and tables of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timezone
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from airflow_provider_mediaops.cli.terminal import Line, TextTable
from airflow_provider_mediaops.cluster.capture.model import reports_of
from airflow_provider_mediaops.cluster.comparison import Comparison, columns_of
from airflow_provider_mediaops.cluster.folded import measures, node_label, short_method
from airflow_provider_mediaops.cluster.kinds_of_work import is_wait
from airflow_provider_mediaops.cluster.text import (
    difference,
    figure,
    in_what_was_read,
    readable,
    share_in_words,
)
from airflow_provider_mediaops.progress import counted

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.terminal import Part
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.comparison import Heat, HotKind
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

T = TypeVar("T")

_Cell: TypeAlias = "str | int | tuple[str, str]"
"""A text, a number, or a figure with a note."""

_MOST_WARNINGS = 5
_MOST_ROWS = 15
_SPLIT = (
    "(other …) and (idle …) are the share of the interval in which a thread was off the processor; no figure, sum or "
    "ranking contains them."
)
_SEEN = "Seen: the number of threads, each of which counts 1, for the cluster gave a figure for none of them."


class ReportFacts(NamedTuple):
    """When and where a report was taken, and what of it was not understood."""

    time: str  # when it was taken, as 20:00:00; empty if it does not say
    title: str
    lines: tuple[Line, ...]
    read_percent: float


def facts_of(name: str, capture: Capture, first_line: int) -> ReportFacts:
    """Return the facts of a report that begins at a line of its file."""
    report = capture.report
    words = [counted(len(report.nodes), "node"), counted(sum(len(node.threads) for node in report.nodes), "thread")]
    taken = report.taken and report.taken.astimezone(timezone.utc)
    if taken:
        words.append(f"taken {taken:%Y-%m-%d %H:%M:%S} UTC")
    if interval := next((node.interval for node in report.nodes if node.interval), None):
        words.append(f"over {interval}")
    lines = (*(Line(f"  {remark}") for remark in capture.remarks), *_warnings(report, first_line))
    return ReportFacts(f"{taken:%H:%M:%S}" if taken else "", f"{name}: {', '.join(words)}", lines, report.read_percent)


def _warnings(report: HotThreadsReport, first_line: int) -> Iterator[Line]:
    failed = [node for node in report.nodes if node.failure]
    for node in failed[:_MOST_WARNINGS]:
        yield Line(f"  {node_label(node)}: {node.failure}", "warning")
    if report.unparsed:
        shown = report.unparsed[:_MOST_WARNINGS]
        pieces = "; ".join(f"line {first_line + piece.line - 1}, {piece.reason}" for piece in shown)
        share = share_in_words(100 - report.read_percent)
        yield Line(
            f"  {counted(len(report.unparsed), 'piece')} not understood, {share} of the text: {pieces}", "warning"
        )


def summary_of(facts: Sequence[ReportFacts], captures: Sequence[Capture]) -> list[Part]:
    """Compare reports, one after the other; none is kept."""
    found = Comparison(measures(reports_of(captures))[0], len(captures))
    for report in reports_of(captures):
        found.add(report)
    are_several = len(facts) > 1
    parts: list[Part] = []
    for number, fact in enumerate(facts, 1):
        parts += [Line(f"{number}: {fact.title}" if are_several else fact.title, "title"), *fact.lines]
    parts.append(_headline(found))
    if kind := found.hottest_kind:
        part = in_what_was_read(min(fact.read_percent for fact in facts))
        parts.append(Line(f"Hottest kind of work{part}: {readable(kind.label)}. Next: {kind.look}"))
    if found.left_out:
        what = "of another kind of sampling, which do not add up with these; compare reports of one type"
        parts.append(Line(f"Left out: {counted(found.left_out, 'thread')} {what}.", "warning"))
    if found.without_figure:
        parts.append(Line(f"Counted as 1: {counted(found.without_figure, 'thread')} whose use is unknown.", "warning"))
    labels = [f"{number} · {fact.time}" if fact.time else str(number) for number, fact in enumerate(facts, 1)]
    parts += _tables(found, labels)
    if any(one.other_percent is not None or one.idle_percent is not None for one in found.threads[:_MOST_ROWS]):
        parts += [Line(""), Line(_SPLIT)]
    if found.measure.unit == "threads":
        parts += [Line(""), Line(_SEEN)]
    return parts


def _headline(found: Comparison) -> Line:
    if not found.threads or not found.threads[0].peak:
        return Line("No thread was hot.", "good")
    pool, thread = found.pools[0], found.threads[0]
    where = f"{counted(pool.threads, 'thread')} on {counted(len(pool.nodes), 'node')}"
    return Line(
        f"Hottest pool: {readable(pool.name)}, {figure(pool.peak, found.measure)} in {where}. "
        f"Hottest thread: {readable(thread.name)}, {figure(thread.peak, found.measure)}."
    )


def _tables(found: Comparison, labels: Sequence[str]) -> Iterator[Part]:
    """Yield the tables of the page, with fewer words."""

    def used(heat: Heat) -> tuple[str, str]:
        times = (("other", heat.other_percent), ("idle", heat.idle_percent))
        notes = ", ".join(f"{name} {percent:.1f} %" for name, percent in times if percent is not None)
        return figure(heat.peak, found.measure), notes

    def change(heat: Heat) -> tuple[str, str]:
        return difference(heat.difference, found.measure), heat.trend

    def amount(number: int, heat: Heat) -> tuple[str, str]:
        amount = heat.amounts[number]
        return "–" if amount is None else figure(amount, found.measure), ""  # noqa: RUF001 - a dash

    kinds: dict[str, Callable[[HotKind], _Cell]] = {
        "Kind of work": lambda kind: readable(kind.label) + (f" ({kind.caution})" if kind.caution else ""),
        "Share of report": lambda kind: (f"{kind.share_percent:.1f} %", ""),
        "Threads": lambda kind: kind.threads,
        "Nodes": lambda kind: _nodes(kind.nodes),
        "Told by": lambda kind: _method(kind.told_by),
    }
    yield from _table("By kind of work", found.kinds, kinds)
    for first, heats in found.changes().items() if len(labels) > 1 else ():
        amounts = {labels[number]: partial(amount, number) for number in columns_of(len(labels))}
        yield from _table(f"Changes: {first.lower()}s", heats, {first: _NAMES[first], **amounts, "Change": change})
    threads: dict[str, Callable[[Heat], _Cell]] = {"Threads": lambda heat: heat.threads}
    nodes: dict[str, Callable[[Heat], _Cell]] = {"Nodes": lambda heat: _nodes(heat.nodes)}
    ends: dict[str, Callable[[Heat], _Cell]] = {
        "Node": lambda heat: readable(heat.nodes[0]),
        "Top frame": lambda heat: _method(heat.method),
    }
    yield from _table("By thread", found.threads, {"Thread": _name, found.heading: used, **ends})
    for first, heats in (("Thread pool", found.pools), ("Top frame", found.methods)):
        columns = {first: _NAMES[first], found.heading: used, **threads, **nodes}
        yield from _table(f"By {first.lower()}, across nodes", heats, columns)
    yield from _table("By node", found.nodes, {"Node": _name, f"{found.heading}, its threads": used, **threads})


def _table(title: str, entries: Sequence[T], columns: Mapping[str, Callable[[T], _Cell]]) -> Iterator[Part]:
    """Yield a table with a row for each of the first entries."""
    if not entries:
        return
    cells = [_written([cell_of(entry) for entry in entries[:_MOST_ROWS]]) for cell_of in columns.values()]
    yield Line("")
    yield TextTable(list(columns), list(zip(*cells, strict=True)), title)
    if beyond := len(entries[_MOST_ROWS:]):
        yield Line(f"and {beyond:,} more")


def _written(cells: Sequence[_Cell]) -> list[str | int]:
    """Write the figures of a column one below the other, with their notes behind them."""
    width = max((len(cell[0]) for cell in cells if isinstance(cell, tuple)), default=0)
    return [
        f"{cell[0].rjust(width)}{f' ({cell[1]})' if cell[1] else ''}" if isinstance(cell, tuple) else cell
        for cell in cells
    ]


def _nodes(nodes: Sequence[str]) -> str:
    return counted(len(nodes), "node") if len(nodes) > 1 else readable(nodes[0])


def _name(heat: Heat) -> str:
    return readable(heat.name)


def _thread(heat: Heat) -> str:
    """Return the name of a thread with its node, which most names contain."""
    node = heat.nodes[0]
    return readable(heat.name if node in heat.name else f"{node} · {heat.name}")


def _method(method: str) -> str:
    """Return a method with the initials of its package, as log files have it, for a terminal is narrow."""
    short = short_method(method)
    initials = "".join(f"{part[0]}." for part in method.removesuffix(short).split(".") if part)
    return readable(f"{initials}{short}") + (" (a wait)" if is_wait(method) else "")


# The first cell of a row, by the heading of its column.
_NAMES: dict[str, Callable[[Heat], _Cell]] = {
    "Thread pool": _name,
    "Top frame": lambda heat: _method(heat.name),
    "Thread": _thread,
}
