"""
Write one page of captures that can be kept, sent and opened anywhere: hottest threads, flame graph, changes.

The page is one file and asks for nothing over the network. Whatever a cluster sent is hostile until shown otherwise:
the template escapes all of it, the page's script sets text and never markup, and a content security policy allows the
page's own scripts and styles and nothing else. Tables and texts can be read without scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.model import reports_of
from airflow_provider_mediaops.cluster.comparison import Comparison, columns_of
from airflow_provider_mediaops.cluster.folded import NO_STACK, measures, node_label
from airflow_provider_mediaops.cluster.page.flame_graph import FlameStacks
from airflow_provider_mediaops.cluster.statistics import alarms
from airflow_provider_mediaops.cluster.text import excerpt, readable
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.capture.plan import TakenFor
    from airflow_provider_mediaops.cluster.models import NodeCpu
    from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, RunningTasks

#: The maximum number of characters of the raw texts on a page, over all captures.
MOST_TEXT = 1_000_000
#: The maximum number of nodes with their tasks, over all captures; each capture shows one or more.
MOST_NODES = 24

_MOST_ROWS = 15
_MOST_REMARKS = 10
_MOST_UNPARSED = 20
_MOST_OF_A_PIECE = 500


def page(
    captures: Sequence[Capture],
    *,
    title: str,
    taken_for: TakenFor | None = None,
    in_airflow: Mapping[str, Any] | None = None,
) -> str:
    """
    Return the page of one or several captures, whose reports are read one after the other.

    :param in_airflow: what stands before the page in Airflow: the values of ``report.html``.
    """
    # Only those who write pages import Jinja2 and read the scripts.
    from airflow_provider_mediaops.cluster.page import assets

    if not captures:
        raise InvalidArgumentError("A page shows one capture or more; there is none.")
    measure = measures(reports_of(captures))[0]
    found, flame = Comparison(measure, len(captures)), FlameStacks(measure, len(captures))
    shown: list[dict[str, Any]] = []
    for number, (capture, report) in enumerate(zip(captures, reports_of(captures), strict=True), 1):
        shown.append(_facts(capture, number, MOST_TEXT // len(captures)))
        found.add(report)
        flame.add(report)
    # Times of day name captures of one day only.
    if len({facts["day"] for facts in shown} - {None}) > 1:
        for number, facts in enumerate(shown, 1):
            if facts["day"]:
                facts["label"] = f"{number} · {facts['day']} {facts['time']}"
    labels = [facts["label"] for facts in shown]
    columns = {number: labels[number] for number in columns_of(len(captures))}
    readings = {labels[number]: stats.nodes for number in columns if (stats := captures[number].stats)}
    values = {
        "title": readable(title),
        "licenses": assets.licenses() if flame.drawn else {},
        "generator": assets.GENERATOR,
        "captures": shown,
        "labels": labels,
        "columns": columns,
        "taken_for": taken_for,
        "cause": readable(captures[0].cause),
        "found": found,
        "hottest": found.threads[0] if found.threads else None,
        "no_stack": NO_STACK,
        "working": found.method_at_work,
        "kind": found.hottest_kind,
        "readings": [f"Node's CPU, {label}" if len(captures) > 1 else "Node's CPU" for label in readings],
        "nodes": _node_rows(found, list(readings.values())),
        "node_statistics": [
            (label, node) for label, capture in zip(labels, captures, strict=True) for node in capture.statistics or ()
        ],
        "changed": found.changes(),
        "tasks": _task_section(labels, [capture.running_tasks for capture in captures]),
        "flame": flame,
    }
    scripts = assets.scripts(with_flame_graph=flame.drawn > 0)
    if in_airflow is None:
        return assets.render("page.html", values, scripts=scripts)
    return assets.render("report.html", {**values, **in_airflow}, scripts=scripts, in_airflow=True)


def _facts(capture: Capture, number: int, room: int) -> dict[str, Any]:
    """Return when a capture was taken, what is wrong with it, and its text, for the template."""
    text, report = capture.text, capture.report
    # In UTC, as its maker says, else as its nodes say.
    moment = capture.taken.astimezone(timezone.utc) if capture.taken else report.taken
    day, time = (f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}") if moment else (None, None)
    return {
        "label": f"{number} · {time}" if time else f"capture {number}",
        "day": day,
        "time": time,
        "alarms": alarms(capture.statistics or ()),
        "remarks": capture.all_remarks,
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


def _node_rows(found: Comparison, readings: Sequence[Sequence[NodeCpu]]) -> list[dict[str, Any]]:
    """Return each node with the figures of its threads, if the report has any, and its CPU in each reading."""
    heats = {heat.name: heat for heat in found.nodes}
    # A report prints the id of a node without a name.
    read = [
        {next((name for name in (cpu.name, cpu.node_id) if name and name in heats), cpu.label): cpu for cpu in reading}
        for reading in readings
    ]
    names = dict.fromkeys([*heats, *(name for cpus in read for name in cpus)])
    return [{"name": name, "heat": heats.get(name), "cpus": [cpus.get(name) for cpus in read]} for name in names]


def _task_section(labels: Sequence[str], found: Iterable[RunningTasks | None]) -> dict[str, Any] | None:
    """Return the tasks that ran while captures were taken, for the macro ``behind``; None if nobody asked for any."""
    asked = [(label, tasks) for label, tasks in zip(labels, found, strict=True) if tasks is not None]
    if not asked:
        return None
    most = max(1, MOST_NODES // len(labels))
    return {
        "nodes": [_node_section(node, label) for label, tasks in asked for node in _heaviest(tasks.nodes, most)],
        "nodes_beyond": sum(max(0, len(tasks.nodes) - most) for _, tasks in asked),
        "remarks": [(label, remark) for label, tasks in asked for remark in tasks.remarks[:_MOST_REMARKS]],
    }


def _heaviest(nodes: Sequence[NodeTasks], most: int) -> list[NodeTasks]:
    """Return the nodes with most CPU of hot threads, then most groups, in their order."""
    order = sorted(range(len(nodes)), key=lambda at: (-(_hot_ms(nodes[at]) or 0.0), -len(nodes[at].groups)))
    return [nodes[at] for at in sorted(order[:most])]


def _hot_ms(node: NodeTasks) -> float | None:
    """Return the CPU of the hot threads of a node in milliseconds; None if the report does not say."""
    known = [thread.cpu_ms for thread in node.threads if thread.cpu_ms is not None]
    return sum(known) if known else None


def _node_section(node: NodeTasks, label: str) -> dict[str, Any]:
    hot_ms, groups = _hot_ms(node), node.groups[:_MOST_ROWS]
    with_cpu = [group for group in node.groups if group.cpu_ms]
    says_any = any(thread.group is not None or thread.why_not for thread in node.threads[:_MOST_ROWS])
    return {
        "capture": label,
        "tasks": node,
        "hot_ms": hot_ms,
        "heaviest": max(with_cpu, key=lambda group: group.cpu_ms or 0.0) if with_cpu and hot_ms else None,
        "remarks": node.remarks[:_MOST_REMARKS],
        "groups": groups,
        # Columns of which nothing is known are left out.
        "has_queries": any(group.shape or group.query for group in groups),
        "has_shares": node.unexplained_percent is not None or any(group.cpu_ms is not None for group in groups),
        "has_queues": any(group.queued is not None for group in groups),
        "highest": max([group.cpu_share_percent or 0.0 for group in groups] + [node.unexplained_percent or 0.0, 0.0]),
        "threads": node.threads if says_any else (),
        "indices": sorted(node.indices, key=lambda index: -index.total_ms),
    }
