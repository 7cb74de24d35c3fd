"""The summary of hot-threads reports for people, in the words and tables of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timezone
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.cli.terminal import Line, TextTable
from airflow_provider_mediaops.cluster.comparison import ComparisonSums
from airflow_provider_mediaops.cluster.folded import measures_of, node_label
from airflow_provider_mediaops.cluster.kinds_of_work.labels import KindSums, hottest_kind
from airflow_provider_mediaops.cluster.page.tables import (
    change_tables,
    kind_table,
    method_table,
    node_table,
    pool_table,
    thread_table,
)
from airflow_provider_mediaops.cluster.text import count, figure, in_what_was_read, readable, share_in_words

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.terminal import Part
    from airflow_provider_mediaops.cluster.capture.model import Capture, PackedCapture
    from airflow_provider_mediaops.cluster.comparison import Comparison
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind
    from airflow_provider_mediaops.cluster.page import tables as page_tables

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
    words = [count(len(report.nodes), "node"), count(sum(len(node.threads) for node in report.nodes), "thread")]
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
        yield Line(f"  {count(len(report.unparsed), 'piece')} not understood, {share} of the text: {pieces}", "warning")


def summary_of(facts: Sequence[ReportFacts], captures: Sequence[PackedCapture]) -> list[Part]:
    """Compare reports, one after the other; none is kept."""
    measure = measures_of(capture.tally for capture in captures)[0]
    sums, kind_sums = ComparisonSums(measure, len(captures)), KindSums(measure)
    for capture in captures:
        report = capture.report
        sums.add(report)
        kind_sums.add(report)
    found, kinds = sums.comparison(), kind_sums.hottest_first()
    are_several = len(facts) > 1
    parts: list[Part] = []
    for number, fact in enumerate(facts, 1):
        parts += [Line(f"{number}: {fact.title}" if are_several else fact.title, "title"), *fact.lines]
    parts.append(_headline(found))
    if kind := hottest_kind(kinds):
        part = in_what_was_read(min(fact.read_percent for fact in facts))
        parts.append(Line(f"Hottest kind of work{part}: {readable(kind.label)}. Next: {kind.look}"))
    if found.left_out:
        what = "of another kind of sampling, which do not add up with these; compare reports of one type"
        parts.append(Line(f"Left out: {count(found.left_out, 'thread')} {what}.", "warning"))
    if found.without_figure:
        parts.append(Line(f"Counted as 1: {count(found.without_figure, 'thread')} whose use is unknown.", "warning"))
    labels = [f"{number} · {fact.time}" if fact.time else str(number) for number, fact in enumerate(facts, 1)]
    parts += _tables(found, kinds, change_tables(found, labels) if are_several else ())
    if any(one.other_percent is not None or one.idle_percent is not None for one in found.threads[:_MOST_ROWS]):
        parts += [Line(""), Line(_SPLIT)]
    if found.measure.unit == "threads":
        parts += [Line(""), Line(_SEEN)]
    return parts


def _tables(found: Comparison, kinds: Sequence[HotKind], changes: Iterable[page_tables.Table]) -> Iterator[Part]:
    tables = [
        ("By kind of work", _without_advice(kind_table(kinds))),
        *((f"Changes: {table.caption.lower()}", table) for table in changes),
        *((table.caption, table) for table in (thread_table(found), pool_table(found), method_table(found))),
        ("By node", node_table(found, {})),
    ]
    for title, table in tables:
        if table.rows:
            yield Line("")
            yield _table(table, title)
            if beyond := table.beyond + len(table.rows[_MOST_ROWS:]):
                yield Line(f"and {beyond:,} more")


def _without_advice(table: page_tables.Table) -> page_tables.Table:
    """Return a table without its last column, which is too long for a terminal."""
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))


def _headline(found: Comparison) -> Line:
    if not found.threads or not found.threads[0].heat.peak:
        return Line("No thread was hot.", "good")
    pool, thread = found.pools[0], found.threads[0]
    where = f"{count(pool.threads, 'thread')} on {count(len(pool.nodes), 'node')}"
    return Line(
        f"Hottest pool: {readable(pool.name)}, {figure(pool.peak, found.measure)} in {where}. "
        f"Hottest thread: {readable(thread.heat.name)}, {figure(thread.heat.peak, found.measure)}."
    )


def _table(table: page_tables.Table, title: str) -> TextTable:
    """Return a table of the page for the terminal, with numbers on the right of their columns."""
    columns = []
    for at, heading in enumerate(table.columns):
        cells = [(f"{_abbreviated(row[at].before)}{row[at].text}", row[at]) for row in table.rows[:_MOST_ROWS]]
        # The number of some nodes is that by which the page sorts them; a single node is shown by its name.
        is_number = heading != "Nodes" and all(cell.number is not None for _, cell in cells)
        width = max(len(text) for text, _ in cells) if is_number else 0
        columns.append([f"{text.rjust(width)}{f' ({cell.after})' if cell.after else ''}" for text, cell in cells])
    return TextTable(table.columns, list(zip(*columns, strict=True)), title)


def _abbreviated(before: str) -> str:
    """Return a package by its initials, as log files have it, for a terminal is narrow; a node by its name."""
    return "".join(f"{part[0]}." for part in before.split(".") if part) if before.endswith(".") else before
