"""The summary of hot-threads reports for people, in the words and tables of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timezone
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.cli.terminal import Figure, Line, TextTable
from airflow_provider_mediaops.cluster.capture.model import reports_of
from airflow_provider_mediaops.cluster.comparison import Comparison, columns_of
from airflow_provider_mediaops.cluster.folded import measures, node_label, short_method
from airflow_provider_mediaops.cluster.kinds_of_work import is_wait
from airflow_provider_mediaops.cluster.text import difference, figure, in_what_was_read, readable, share_in_words
from airflow_provider_mediaops.progress import counted

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.terminal import Part
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.comparison import Heat, HotKind
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

T = TypeVar("T")

_MOST_WARNINGS = 5
_MOST_ROWS = 15
_TIME_OFF = (
    "\nOther and idle are the share of the interval in which a thread was off the processor; no figure, sum or ranking "
    "contains them."
)
_SEEN = "\nSeen: the number of threads, each of which counts 1, for the cluster gave a figure for none of them."


def summary_of(read: Sequence[tuple[Capture, int]]) -> list[Part]:
    """Compare reports, each with the number of its first line in its file; only one is in memory at a time."""
    captures = [capture for capture, _ in read]
    found = Comparison(measures(reports_of(captures))[0], len(captures))
    parts: list[Part] = []
    labels: list[str] = []
    read_percent = 100.0
    for number, ((capture, first_line), report) in enumerate(zip(read, reports_of(captures), strict=True), 1):
        found.add(report)
        read_percent = min(read_percent, report.read_percent)
        labels.append(f"{number} · {report.taken.astimezone(timezone.utc):%H:%M:%S}" if report.taken else str(number))
        title = f"{capture.path}: {_facts(report)}"
        parts.append(Line(f"{number}: {title}" if len(read) > 1 else title, "title"))
        parts += (Line(f"  {remark}") for remark in capture.remarks)
        parts += _warnings(report, first_line)
    return [*parts, *_headlines(found, read_percent), *_tables(found, labels), *_explanations(found)]


def _facts(report: HotThreadsReport) -> str:
    words = [counted(len(report.nodes), "node"), counted(sum(len(node.threads) for node in report.nodes), "thread")]
    if report.taken:
        words.append(f"taken {report.taken.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC")
    if interval := next((node.interval for node in report.nodes if node.interval), None):
        words.append(f"over {interval}")
    return ", ".join(words)


def _warnings(report: HotThreadsReport, first_line: int) -> Iterator[Line]:
    failed = [node for node in report.nodes if node.failure]
    for node in failed[:_MOST_WARNINGS]:
        yield Line(f"  {node_label(node)}: {node.failure}", "warning")
    if report.unparsed:
        shown = report.unparsed[:_MOST_WARNINGS]
        pieces = "; ".join(f"line {first_line + piece.line - 1}, {piece.reason}" for piece in shown)
        share = share_in_words(100 - report.read_percent)
        number = counted(len(report.unparsed), "piece")
        yield Line(f"  {number} not understood, {share} of the text: {pieces}", "warning")


def _headlines(found: Comparison, read_percent: float) -> Iterator[Line]:
    """Yield what was hottest, and what the figures do not contain."""
    if found.threads and found.threads[0].peak:
        pool, thread = found.pools[0], found.threads[0]
        where = f"{counted(pool.threads, 'thread')} on {counted(len(pool.nodes), 'node')}"
        yield Line(
            f"Hottest pool: {readable(pool.name)}, {figure(pool.peak, found.measure)} in {where}. "
            f"Hottest thread: {readable(thread.name)}, {figure(thread.peak, found.measure)}."
        )
    else:
        yield Line("No thread was hot.", "good")
    if kind := found.hottest_kind:
        part = in_what_was_read(read_percent)
        yield Line(f"Hottest kind of work{part}: {readable(kind.label)}. Next: {kind.look}")
    if found.left_out:
        what = "of another kind of sampling, which do not add up with these; compare reports of one type"
        yield Line(f"Left out: {counted(found.left_out, 'thread')} {what}.", "warning")
    if found.without_figure:
        yield Line(f"Counted as 1: {counted(found.without_figure, 'thread')} whose use is unknown.", "warning")


def _tables(found: Comparison, labels: Sequence[str]) -> Iterator[Part]:
    """Yield the tables of the page, with fewer words; a column without a heading has notes."""

    def used(amount: float | None) -> Figure | None:
        return None if amount is None else Figure(figure(amount, found.measure))

    def kind_row(kind: HotKind) -> Sequence[object]:
        label = readable(kind.label) + (f" ({kind.caution})" if kind.caution else "")
        return label, Figure(f"{kind.share_percent:.1f} %"), kind.threads, _nodes(kind), _method(kind.told_by)

    def change_row(first: str, heat: Heat) -> Sequence[object]:
        amounts = (used(heat.amounts[number]) for number in shown)
        return _name(first, heat), *amounts, Figure(difference(heat.difference, found.measure)), heat.trend

    def thread_row(heat: Heat) -> Sequence[object]:
        node, method = readable(heat.nodes[0]), _method(heat.method)
        return readable(heat.name), used(heat.peak), node, method, _time_off(heat)

    def total_row(first: str, heat: Heat) -> Sequence[object]:
        return _name(first, heat), used(heat.peak), heat.threads, _nodes(heat)

    columns: Sequence[str] = ("Kind of work", "Share of report", "Threads", "Nodes", "Told by")
    yield from _table("By kind of work", columns, found.kinds, kind_row)
    shown = columns_of(len(labels))
    for first, heats in found.changes().items() if len(labels) > 1 else ():
        columns = (first, *(labels[number] for number in shown), "Change", "")
        yield from _table(f"Changes: {first.lower()}s", columns, heats, partial(change_row, first))
    yield from _table("By thread", ("Thread", found.heading, "Node", "Top frame", ""), found.threads, thread_row)
    for first, heats in (("Thread pool", found.pools), ("Top frame", found.methods)):
        columns = (first, found.heading, "Threads", "Nodes")
        yield from _table(f"By {first.lower()}, across nodes", columns, heats, partial(total_row, first))
    columns = ("Node", f"{found.heading}, its threads", "Threads")
    yield from _table("By node", columns, found.nodes, lambda heat: total_row("Node", heat)[:3])


def _table(
    title: str, columns: Sequence[str], entries: Sequence[T], row_of: Callable[[T], Sequence[object]]
) -> Iterator[Part]:
    """Yield a table with a row for each of the first entries."""
    if entries:
        yield TextTable(columns, [row_of(entry) for entry in entries[:_MOST_ROWS]], title)
    if beyond := len(entries[_MOST_ROWS:]):
        yield Line(f"and {beyond:,} more")


def _explanations(found: Comparison) -> Iterator[Line]:
    if any(map(_time_off, found.threads[:_MOST_ROWS])):
        yield Line(_TIME_OFF)
    if found.measure.unit == "threads":
        yield Line(_SEEN)


def _time_off(thread: Heat) -> str:
    times = (("other", thread.other_percent), ("idle", thread.idle_percent))
    return ", ".join(f"{name} {percent:.1f} %" for name, percent in times if percent is not None)


def _name(first: str, heat: Heat) -> str:
    """Return the first cell of a row below this heading."""
    if first == "Top frame":
        return _method(heat.name)
    if first == "Thread" and heat.nodes[0] not in heat.name:
        return readable(f"{heat.nodes[0]} · {heat.name}")
    return readable(heat.name)


def _nodes(heat: Heat) -> str:
    return counted(len(heat.nodes), "node") if len(heat.nodes) > 1 else readable(heat.nodes[0])


def _method(method: str) -> str:
    """Return a method with the initials of its package, as log files have it, for a terminal is narrow."""
    short = short_method(method)
    initials = "".join(f"{part[0]}." for part in method.removesuffix(short).split(".") if part)
    return readable(f"{initials}{short}") + (" (a wait)" if is_wait(method) else "")
