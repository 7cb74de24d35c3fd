"""
Write one page of captures that can be kept, sent and opened anywhere: hottest threads, flame graph, changes.

The page is one file and asks for nothing over the network. Whatever a cluster sent is hostile until shown otherwise:
the template escapes all of it, the page's script sets text and never markup, and a content security policy allows the
page's own scripts and styles and nothing else. Tables and texts can be read without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.comparison import NO_STACK, ComparisonSums
from airflow_provider_mediaops.cluster.folded import measures_of, node_label
from airflow_provider_mediaops.cluster.kinds_of_work.labels import KindSums, hottest_kind, is_wait
from airflow_provider_mediaops.cluster.page.flame_graph import FlameStacks
from airflow_provider_mediaops.cluster.page.tables import (
    change_tables,
    columns_of,
    kind_table,
    method_table,
    node_table,
    pool_table,
    thread_table,
)
from airflow_provider_mediaops.cluster.page.task_section import task_section
from airflow_provider_mediaops.cluster.statistics import alarms
from airflow_provider_mediaops.cluster.text import excerpt, readable
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import PackedCapture
    from airflow_provider_mediaops.cluster.capture.plan import TakenFor
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

#: The maximum number of characters of the raw texts on a page, over all captures.
MOST_TEXT = 1_000_000

_MOST_UNPARSED = 20
_MOST_OF_A_PIECE = 500


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
    measure = measures_of(capture.tally for capture in captures)[0]
    sums, kinds = ComparisonSums(measure, len(captures)), KindSums(measure)
    flame = FlameStacks(measure, len(captures))
    shown: list[dict[str, Any]] = []
    for number, capture in enumerate(captures, 1):
        report = capture.report
        shown.append(_facts(capture, report, number, MOST_TEXT // len(captures)))
        sums.add(report)
        kinds.add(report)
        flame.add(report)
    # Times of day name captures of one day only.
    if len({facts["day"] for facts in shown} - {None}) > 1:
        for number, facts in enumerate(shown, 1):
            if facts["day"]:
                facts["label"] = f"{number} · {facts['day']} {facts['time']}"
    labels = [facts["label"] for facts in shown]
    found, hottest_kinds = sums.comparison(), kinds.hottest_first()
    readings = {labels[number]: captures[number].cpu for number in columns_of(len(captures))}
    values = {
        "title": readable(title),
        "licenses": assets.licenses() if flame.drawn else {},
        "generator": assets.GENERATOR,
        "captures": shown,
        "labels": labels,
        "taken_for": taken_for,
        "cause": readable(captures[0].cause),
        "found": found,
        "hottest": found.threads[0] if found.threads else None,
        "no_stack": NO_STACK,
        "working": next((method for method in found.methods if method.peak and not is_wait(method.name)), None),
        "kind": hottest_kind(hottest_kinds),
        "kinds": kind_table(hottest_kinds),
        "pools": pool_table(found),
        "methods": method_table(found),
        "by_node": node_table(found, readings),
        "by_thread": thread_table(found),
        "node_statistics": [
            (label, node) for label, capture in zip(labels, captures, strict=True) for node in capture.statistics or ()
        ],
        "changes": change_tables(found, labels) if len(captures) > 1 else (),
        "tasks": task_section(labels, (capture.running_tasks for capture in captures)),
        "flame": flame,
    }
    scripts = assets.scripts(with_flame_graph=flame.drawn > 0)
    if in_airflow is None:
        return assets.render("page.html", values, scripts=scripts)
    return assets.render("report.html", {**values, **in_airflow}, scripts=scripts, in_airflow=True)


def _facts(capture: PackedCapture, report: HotThreadsReport, number: int, room: int) -> dict[str, Any]:
    """Return when a capture was taken, what is wrong with it, and its text, for the template."""
    text = capture.text
    moment = _moment(capture.taken, report)
    day, time = (f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}") if moment else (None, None)
    return {
        "label": f"{number} · {time}" if time else f"capture {number}",
        "day": day,
        "time": time,
        "alarms": alarms(capture.statistics or ()),
        "remarks": capture.remarks,
        "failures": [(node_label(node), node.failure) for node in report.nodes if node.failure],
        "understood": report.understood,
        "read_percent": report.read_percent,
        # All nodes are asked for the same.
        "sampled": next((node for node in report.nodes if node.interval), None),
        "unparsed": [
            (found.line, found.reason, excerpt(found.text.strip(), _MOST_OF_A_PIECE))
            for found in report.unparsed[:_MOST_UNPARSED]
        ],
        "unparsed_beyond": max(0, len(report.unparsed) - _MOST_UNPARSED),
        "text": excerpt(text, room),
        "characters": len(text),
        "path": capture.path,
    }


def _moment(taken: datetime | None, report: HotThreadsReport) -> datetime | None:
    """Return when a capture was taken, in UTC: as its maker says, else as its nodes say."""
    if taken is not None:
        return taken.astimezone(timezone.utc)
    return report.taken
