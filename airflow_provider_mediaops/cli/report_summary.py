"""The summary of hot-threads reports: for people, in the words and tables of the page, and as a document."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.terminal import Line, TextTable
from airflow_provider_mediaops.cluster.comparison import ComparisonSums
from airflow_provider_mediaops.cluster.folded import measures_of, node_label
from airflow_provider_mediaops.cluster.kinds_of_work.labels import KindSums
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
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_provider_mediaops.cli.terminal import Part
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.capture.packed import PackedCapture
    from airflow_provider_mediaops.cluster.comparison import Comparison, Heat, HotOne
    from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind
    from airflow_provider_mediaops.cluster.page import tables as page_tables

_MOST_LISTED = 100
_MOST_WARNINGS = 5
_MOST_ROWS = 15
_SPLIT = (
    "(other …) and (idle …) are the share of the interval in which a thread was off the processor; no figure, sum or "
    "ranking contains them."
)
_SEEN = "Seen: the number of threads, each of which counts 1, for the cluster gave a figure for none of them."


def report_facts(capture: Capture, first_line: int = 1) -> dict[str, Any]:
    """Return when and where a report was taken, and what of it was not understood, in plain values."""
    report = capture.report
    sampled = next((node for node in report.nodes if node.interval), None)
    failures = [(node_label(node), node.failure) for node in report.nodes if node.failure]
    return {
        "taken": report.taken and _iso(report.taken),
        "interval": sampled and sampled.interval,
        "nodes": len(report.nodes),
        "threads": sum(len(node.threads) for node in report.nodes),
        "failures": [{"node": node, "failure": failure} for node, failure in failures[:_MOST_LISTED]],
        "remarks": list(capture.remarks),
        "unparsed": len(report.unparsed),
        "read_percent": round(report.read_percent, 1),
        "first_unparsed": [
            {"line": first_line + piece.line - 1, "reason": piece.reason} for piece in report.unparsed[:_MOST_WARNINGS]
        ],
    }


def _iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds")


def summary_of(
    files: Sequence[Mapping[str, Any]], captures: Sequence[PackedCapture]
) -> tuple[dict[str, Any], list[Part]]:
    """
    Compare reports, one after the other; none is kept.

    :param files: what is known of each file.
    :param captures: the reports of those that could be read.
    :returns: the summary in plain values, at most 100 of each, and the same for people.
    """
    measure = measures_of(capture.tally for capture in captures)[0]
    sums, kind_sums = ComparisonSums(measure, len(captures)), KindSums(measure)
    for capture in captures:
        report = capture.report
        sums.add(report)
        kind_sums.add(report)
    found, kinds = sums.comparison(), kind_sums.hottest_first()
    lists = {"pools": found.pools, "methods": found.methods, "nodes": found.nodes}
    document = {
        "files": files,
        "measure": asdict(measure),
        "kinds": [kind.to_dict() for kind in kinds[:_MOST_LISTED]],
        **{name: [_heat(heat) for heat in heats[:_MOST_LISTED]] for name, heats in lists.items()},
        "threads": [_thread(one) for one in found.threads[:_MOST_LISTED]],
        "left_out": {
            name: len(entries) - _MOST_LISTED
            for name, entries in {"kinds": kinds, **lists, "threads": found.threads}.items()
            if len(entries) > _MOST_LISTED
        },
    }
    return document, _parts([file for file in files if "error" not in file], found, kinds)


def _heat(heat: Heat) -> dict[str, Any]:
    return {
        "name": heat.name,
        "amounts": list(heat.amounts),
        "threads": heat.threads,
        "nodes": list(heat.nodes[:_MOST_LISTED]),
    }


def _thread(one: HotOne) -> dict[str, Any]:
    return {
        "name": one.heat.name,
        "node": one.heat.nodes[0],
        "pool": one.pool,
        "amounts": list(one.heat.amounts),
        "method": one.method,
        "other_percent": one.other_percent,
        "idle_percent": one.idle_percent,
    }


def _parts(files: Sequence[Mapping[str, Any]], found: Comparison, kinds: Sequence[HotKind]) -> list[Part]:
    parts: list[Part] = []
    for number, file in enumerate(files, 1):
        parts += _file_lines(file, f"{number}: " if len(files) > 1 else "")
    parts.append(_headline(found))
    if kinds:
        part = in_what_was_read(min(file["read_percent"] for file in files))
        parts.append(Line(f"Hottest kind of work{part}: {readable(kinds[0].label)}. Next: {kinds[0].look}"))
    if found.left_out:
        what = "of another kind of sampling, which do not add up with these; compare reports of one type"
        parts.append(Line(f"Left out: {count(found.left_out, 'thread')} {what}.", "warning"))
    if found.without_figure:
        parts.append(Line(f"Counted as 1: {count(found.without_figure, 'thread')} whose use is unknown.", "warning"))
    labels = [_label(number, file) for number, file in enumerate(files, 1)]
    changes = change_tables(found, labels) if len(labels) > 1 else ()
    tables = [
        ("By kind of work", _without_advice(kind_table(kinds))),
        *((f"Changes: {table.caption.lower()}", table) for table in changes),
        *((table.caption, table) for table in (thread_table(found), pool_table(found), method_table(found))),
        ("By node", node_table(found, {})),
    ]
    for title, table in tables:
        if table.rows:
            parts += [Line(""), _table(table, title)]
            if beyond := table.beyond + len(table.rows[_MOST_ROWS:]):
                parts.append(Line(f"and {beyond:,} more"))
    if any(one.other_percent is not None or one.idle_percent is not None for one in found.threads[:_MOST_ROWS]):
        parts += [Line(""), Line(_SPLIT)]
    if found.measure.unit == "threads":
        parts += [Line(""), Line(_SEEN)]
    return parts


def _without_advice(table: page_tables.Table) -> page_tables.Table:
    """Return a table without its last column, which is too long for a terminal."""
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))


def _file_lines(file: Mapping[str, Any], number: str) -> list[Part]:
    words = [count(file["nodes"], "node"), count(file["threads"], "thread")]
    if file["taken"]:
        words.append(f"taken {file['taken'][:19].replace('T', ' ')} UTC")
    if file["interval"]:
        words.append(f"over {file['interval']}")
    lines: list[Part] = [Line(f"{number}{file['file']}: {', '.join(words)}", "title")]
    lines += [Line(f"  {remark}") for remark in file["remarks"]]
    lines += [Line(f"  {each['node']}: {each['failure']}", "warning") for each in file["failures"][:_MOST_WARNINGS]]
    if file["unparsed"]:
        pieces = "; ".join(f"line {piece['line']}, {piece['reason']}" for piece in file["first_unparsed"])
        share = share_in_words(100 - file["read_percent"])
        lines.append(
            Line(f"  {count(file['unparsed'], 'piece')} not understood, {share} of the text: {pieces}", "warning")
        )
    return lines


def _headline(found: Comparison) -> Line:
    if not found.threads or not found.threads[0].heat.peak:
        return Line("No thread was hot.", "good")
    pool, thread = found.pools[0], found.threads[0]
    where = f"{count(pool.threads, 'thread')} on {count(len(pool.nodes), 'node')}"
    return Line(
        f"Hottest pool: {readable(pool.name)}, {figure(pool.peak, found.measure)} in {where}. "
        f"Hottest thread: {readable(thread.heat.name)}, {figure(thread.heat.peak, found.measure)}."
    )


def _label(number: int, file: Mapping[str, Any]) -> str:
    return f"{number} · {file['taken'][11:19]}" if file["taken"] else str(number)


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
