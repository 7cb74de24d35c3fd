"""
Write one page of captures that can be kept, sent and opened anywhere: hottest threads, flame graph, changes.

The page is one file and asks for nothing over the network. Whatever a cluster sent is hostile until shown otherwise:
the template escapes all of it, the page's script sets text and never markup, and a content security policy allows the
page's own scripts and styles and nothing else. Tables and texts can be read without scripts.
"""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.comparison import NO_STACK, WAITING, ComparisonSums
from airflow_provider_mediaops.cluster.folded import measures_of, node_label
from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind, KindSums
from airflow_provider_mediaops.cluster.page.flame_graph import FlameStacks
from airflow_provider_mediaops.cluster.page.tables import (
    change_tables,
    columns_of,
    kind_table,
    method_cell,
    method_table,
    node_table,
    pool_table,
    statistics_table,
    thread_table,
    used,
)
from airflow_provider_mediaops.cluster.page.task_tables import task_section
from airflow_provider_mediaops.cluster.statistics import alarms
from airflow_provider_mediaops.cluster.text import count, excerpt, in_what_was_read, readable
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_provider_mediaops.cluster.capture.model import PackedCapture
    from airflow_provider_mediaops.cluster.capture.plan import TakenFor
    from airflow_provider_mediaops.cluster.comparison import Comparison
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

#: The maximum number of characters of the raw texts on a page, over all captures.
MOST_TEXT = 1_000_000

_MOST_UNPARSED = 20
_MOST_OF_A_PIECE = 500
_MOST_FAILURES = 20
_WHOLE = {"cpu": "the CPU of these threads", "wait": "the waiting", "block": "the blocked time", "mem": "the memory"}


def page(
    captures: Sequence[PackedCapture],
    *,
    title: str,
    taken_for: TakenFor | None = None,
    in_airflow: Mapping[str, Any] | None = None,
) -> str:
    """
    Return the page of one or several captures.

    Each report is read once, one after the other, and none is kept.

    :param in_airflow: what stands before the page in Airflow: the values of ``report.html``.
    """
    # Only those who write pages import Jinja2 and read the scripts.
    from airflow_provider_mediaops.cluster.page import assets

    if not captures:
        raise InvalidArgumentError("A page shows one capture or more; there is none.")
    shown, found, kinds, flame = _read(captures)
    labels = [capture["label"] for capture in shown]
    values = {
        "title": readable(title),
        "licenses": assets.licenses() if flame.drawn else {},
        "generator": assets.GENERATOR,
        "captures": shown,
        "understood": any(capture["understood"] for capture in shown),
        "sampled": next((capture["sampled"] for capture in shown if capture["sampled"]), ""),
        "taken_for": taken_for,
        "flame": flame,
        "flame_left_out": f"{100 * flame.left_out_part:.1f} %",
        "kind": kinds[0] if kinds else None,
        "whole": "these threads" if found.measure.unit == "threads" else _WHOLE[found.measure.kind],
        "in_what_was_read": in_what_was_read(min(capture["read_percent"] for capture in shown)),
        "kinds": kind_table(kinds),
        **_findings(captures, labels, found),
    }
    scripts = assets.scripts(with_flame_graph=flame.drawn > 0)
    if in_airflow is None:
        return assets.render("page.html", values, scripts=scripts)
    return assets.render("report.html", {**values, **in_airflow}, scripts=scripts, in_airflow=True)


def _read(
    captures: Sequence[PackedCapture],
) -> tuple[list[dict[str, Any]], Comparison, tuple[HotKind, ...], FlameStacks]:
    """Return the facts of each capture, the sums and the stacks of all; each report is parsed once and not kept."""
    measure = measures_of(capture.tally for capture in captures)[0]
    sums, flame = ComparisonSums(measure, len(captures)), FlameStacks(measure, len(captures))
    kinds = KindSums(measure)
    shown: list[dict[str, Any]] = []
    for number, capture in enumerate(captures, 1):
        report = capture.report
        shown.append(_facts(capture, report, number, MOST_TEXT // len(captures)))
        sums.add(report)
        flame.add(report)
        kinds.add(report)
    # Times of day name captures of one day only.
    if len({facts["day"] for facts in shown} - {None}) > 1:
        for number, facts in enumerate(shown, 1):
            if facts["day"]:
                facts["label"] = f"{number} · {facts['day']} {facts['time']}"
    return shown, sums.comparison(), kinds.hottest_first(), flame


def _findings(captures: Sequence[PackedCapture], labels: Sequence[str], found: Comparison) -> dict[str, Any]:
    """Return the tables and sentences on all reports together, for the template."""
    readings = {labels[number]: captures[number].cpu for number in columns_of(len(captures))}
    hottest = found.threads[0] if found.threads else None
    working = next((method for method in found.methods if method.peak and method.name not in WAITING), None)
    return {
        "labels": labels,
        "measure": found.measure,
        "used": used(found.measure),
        "pool": found.pools[0] if found.pools and found.pools[0].peak else None,
        "hottest": hottest,
        "hottest_method": method_cell(hottest.method).text if hottest and hottest.method != NO_STACK else "",
        "working": working,
        "working_method": method_cell(working.name).text if working else "",
        "nodes": count(len(found.nodes), "node"),
        "threads": count(len(found.threads), "thread"),
        "without_figure": count(found.without_figure, "thread") if found.without_figure else "",
        "left_out": count(found.left_out, "thread") if found.left_out else "",
        "has_split": any(one.other_percent is not None or one.idle_percent is not None for one in found.threads),
        "pools": pool_table(found),
        "methods": method_table(found),
        "by_node": node_table(found, readings),
        "statistics": statistics_table([capture.statistics for capture in captures], labels),
        "by_thread": thread_table(found),
        "cause": readable(captures[0].cause),
        "tasks": task_section(labels, (capture.running_tasks for capture in captures)),
        "changes": change_tables(found, labels) if len(captures) > 1 else (),
    }


def _sampled(report: HotThreadsReport) -> str:
    """Return how the first node that says so was sampled; all are asked for the same."""
    node = next((node for node in report.nodes if node.interval), None)
    if node is None:
        return ""
    busiest = f", the {node.busiest_threads} busiest threads of each node" if node.busiest_threads else ""
    idle = {True: ", without threads known to be idle", False: ", idle threads too", None: ""}
    return f"over {readable(node.interval or '')}{busiest}{idle[node.ignore_idle_threads]}"


def _facts(capture: PackedCapture, report: HotThreadsReport, number: int, room: int) -> dict[str, Any]:
    """Return when a capture was taken, what is wrong with it, and its text, for the template."""
    text = capture.text
    shown, unparsed = excerpt(text, room), report.unparsed
    moment = _moment(capture.taken, report)
    failed = [node for node in report.nodes if node.failure]
    day, time = (f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}") if moment else (None, None)
    return {
        "label": f"{number} · {time}" if time else f"capture {number}",
        "day": day,
        "time": time,
        "taken": f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "at an unknown time",
        "machine": moment and f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        "alarms": alarms(capture.statistics or ()),
        "remarks": [readable(remark) for remark in capture.remarks],
        "failures": [(readable(node_label(node)), readable(node.failure or "")) for node in failed[:_MOST_FAILURES]],
        "failures_beyond": max(0, len(failed) - _MOST_FAILURES),
        "understood": report.understood,
        "read_percent": report.read_percent,
        "sampled": _sampled(report),
        "unparsed": [
            (found.line, readable(found.reason), excerpt(found.text.strip(), _MOST_OF_A_PIECE))
            for found in unparsed[:_MOST_UNPARSED]
        ],
        "unparsed_beyond": max(0, len(unparsed) - _MOST_UNPARSED),
        "text": shown.text,
        "text_left_out": count(shown.left_out, "character") if shown.left_out else "",
        "size": count(len(text), "character"),
        "path": readable(capture.path) if capture.path else "",
    }


def _moment(taken: datetime | None, report: HotThreadsReport) -> datetime | None:
    """Return when a capture was taken, in UTC: as its maker says, else as its nodes say."""
    if taken is not None:
        return taken.astimezone(timezone.utc)
    return report.taken
