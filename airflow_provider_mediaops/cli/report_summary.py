"""The summary of hot-threads reports for people, in the words and tables of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timezone
from typing import TYPE_CHECKING

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
    from airflow_provider_mediaops.cluster.comparison import Heat
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

_MOST_WARNINGS = 5
_MOST_ROWS = 15


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
    return [*parts, *_headlines(found, read_percent), *_tables(found, labels)]


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
    if found.measure.unit == "threads":
        yield Line("Seen: the number of threads, each of which counts 1; the cluster gave a figure for none of them.")


def _tables(found: Comparison, labels: Sequence[str]) -> Iterator[Part]:
    """Yield the tables of the page, with fewer words."""

    def used(amount: float | None) -> Figure | None:
        return None if amount is None else Figure(figure(amount, found.measure))

    rows: list[Sequence[object]] = []
    for kind in found.kinds:
        label = readable(kind.label) + (f" ({kind.caution})" if kind.caution else "")
        share = Figure(f"{kind.share_percent:.1f} %")
        rows.append((label, share, kind.threads, _nodes(kind), _method(kind.told_by)))
    yield from _table("By kind of work", ("Kind of work", "Share of report", "Threads", "Nodes", "Told by"), rows)
    if len(labels) > 1:
        shown = columns_of(len(labels))
        for what, heats in found.changes().items():
            rows = []
            for heat in heats:
                change = Figure(difference(heat.difference, found.measure))
                rows.append((_name(what, heat), *(used(heat.amounts[at]) for at in shown), change, heat.trend))
            # How it has changed is said in a word, in a column without a heading.
            yield from _table(f"Changes: {what.lower()}s", (what, *(labels[at] for at in shown), "Change", ""), rows)
    rows = [
        (readable(heat.name), used(heat.peak), readable(heat.nodes[0]), _method(heat.method)) for heat in found.threads
    ]
    yield from _table("By thread", ("Thread", found.heading, "Node", "Top frame"), rows)
    for what, heats in (("Thread pool", found.pools), ("Top frame", found.methods)):
        rows = [(_name(what, heat), used(heat.peak), heat.threads, _nodes(heat)) for heat in heats]
        yield from _table(f"By {what.lower()}, across nodes", (what, found.heading, "Threads", "Nodes"), rows)
    rows = [(readable(heat.name), used(heat.peak), heat.threads) for heat in found.nodes]
    yield from _table("By node", ("Node", f"{found.heading}, its threads", "Threads"), rows)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[Part]:
    if rows:
        yield TextTable(columns, rows[:_MOST_ROWS], title)
    if beyond := len(rows[_MOST_ROWS:]):
        yield Line(f"and {beyond:,} more")


def _name(what: str, heat: Heat) -> str:
    if what == "Top frame":
        return _method(heat.name)
    if what == "Thread" and heat.nodes[0] not in heat.name:
        return readable(f"{heat.nodes[0]} · {heat.name}")
    return readable(heat.name)


def _nodes(heat: Heat) -> str:
    return counted(len(heat.nodes), "node") if len(heat.nodes) > 1 else readable(heat.nodes[0])


def _method(method: str) -> str:
    """Return a method with the initials of its package, as log files have it, for a terminal is narrow."""
    short = short_method(method)
    initials = "".join(f"{part[0]}." for part in method.removesuffix(short).split(".") if part)
    return readable(f"{initials}{short}") + (" (a wait)" if is_wait(method) else "")
