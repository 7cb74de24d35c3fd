"""One page of captures that can be kept, sent and opened anywhere: what is hot, the flame graph, what changed.

The page is one file and asks for nothing over the network. What a cluster sent is hostile until shown otherwise: the
template escapes all of it, the page's script sets text and never markup, and a content security policy allows the
page's own scripts and styles and nothing else. Tables and texts can be read without scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cluster.comparison import WAITING, compare
from airflow_provider_mediaops.cluster.folded import node_label
from airflow_provider_mediaops.cluster.page.flame_graph import flame_data
from airflow_provider_mediaops.cluster.page.tables import (
    change_tables,
    method_cell,
    method_table,
    node_table,
    pool_table,
    thread_table,
    used,
)
from airflow_provider_mediaops.cluster.page.text import count, excerpt, figure, listed, readable
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_provider_mediaops.cluster.capture_reason import TakenFor
    from airflow_provider_mediaops.cluster.comparison import Comparison
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.models import NodeCpu

#: How many characters of the texts a page holds, over all captures.
MOST_TEXT = 1_000_000

_MOST_UNPARSED = 20
_MOST_OF_A_PIECE = 500


@dataclass(frozen=True, slots=True)
class PageCapture:
    """
    One capture, as the page needs it.

    :param text: the text as it came, with a surrogate for each byte that is no UTF-8.
    :param report: what was read from it.
    :param taken: when, with its time zone; where it is not known, the page gives the time that the nodes print.
    :param cpu: the CPU of the nodes at that moment; None where it is not known.
    :param remarks: what a person should know of how it was taken.
    :param path: where the whole text is kept, for a page that has no room for it.
    :param cause: why it was taken; empty if it is unknown.
    """

    text: str
    report: HotThreadsReport
    taken: datetime | None = None
    cpu: Sequence[NodeCpu] | None = None
    remarks: tuple[str, ...] = ()
    path: str | None = None
    cause: str = ""

    @property
    def moment(self) -> datetime | None:
        """When it was taken, in UTC: as its maker says, else as the first node says, else unknown."""
        if self.taken is not None:
            return self.taken.astimezone(timezone.utc)
        return min((node.timestamp for node in self.report.nodes if node.timestamp), default=None)


def page(captures: Sequence[PageCapture], *, title: str, taken_for: TakenFor | None = None) -> str:
    """
    Write the page.

    :param captures: one or more, in the order in which they were taken.
    :param title: its title and first heading.
    :param taken_for: the task attempt or DAG run to name.
    :returns: a whole HTML document, in characters that UTF-8 can encode.
    :raises ValueError: for no capture at all.
    """
    # Jinja2 and the scripts are for those only who write pages.
    from airflow_provider_mediaops.cluster.page import assets as page_assets

    if not captures:
        raise InvalidArgumentError("A page shows one capture or more; there is none.")
    labels = [_label(capture, number) for number, capture in enumerate(captures, 1)]
    findings = _findings(captures, labels)
    scripts = page_assets.scripts(with_flame_graph=findings["flame"].drawn > 0)
    return page_assets.template().render(
        title=readable(title),
        policy=page_assets.policy(scripts),
        style=page_assets.style(),
        scripts=scripts,
        licenses=page_assets.licenses(),
        captures=[
            {"label": label, **_facts(capture, MOST_TEXT // len(captures))}
            for capture, label in zip(captures, labels, strict=True)
        ],
        labels=labels,
        cause=readable(captures[0].cause),
        taken_for=_named(taken_for) if taken_for else (),
        version=__version__,
        **findings,
    )


def _findings(captures: Sequence[PageCapture], labels: Sequence[str]) -> dict[str, Any]:
    """What was found in the reports, for the template."""
    reports = [capture.report for capture in captures]
    found = compare(reports)
    flame = flame_data(reports, found.measure, {"labels": labels, "unit": found.measure.unit})
    return {
        "measure": found.measure,
        "used": used(found.measure),
        "headline": _headline(found),
        "sampled": _sampled(reports),
        "nodes": count(len(found.nodes), "node"),
        "threads": count(len(found.threads), "thread"),
        "untold": count(found.untold, "thread") if found.untold else "",
        "left_out": count(found.left_out, "thread") if found.left_out else "",
        "pools": pool_table(found),
        "methods": method_table(found),
        "by_node": node_table(found, [capture.cpu for capture in captures], labels),
        "by_thread": thread_table(found),
        "changes": change_tables(found, labels) if len(captures) > 1 else (),
        "flame": flame,
        "flame_left_out": f"{100 * flame.left_out_part:.1f} %",
    }


def _headline(found: Comparison) -> dict[str, Any] | None:
    """What a reader in a hurry has to know; None where nothing was hot."""
    if not found.pools or not found.pools[0].peak:
        return None
    pool = found.pools[0]
    working = next((method for method in found.methods if method.peak and method.name not in WAITING), None)
    return {
        "pool": readable(pool.name),
        "amount": figure(pool.peak, found.measure),
        "threads": count(pool.threads, "thread"),
        "nodes": listed(pool.nodes),
        "method": working and method_cell(working.name).text,
        "method_amount": working and figure(working.peak, found.measure),
    }


def _sampled(reports: Sequence[HotThreadsReport]) -> str:
    """How the first node that says so was sampled; all are asked for the same."""
    node = next((node for report in reports for node in report.nodes if node.interval), None)
    if node is None:
        return ""
    busiest = f", the {node.busiest_threads} busiest threads of each node" if node.busiest_threads else ""
    idle = {True: ", without threads known to be idle", False: ", idle threads too", None: ""}
    return f"over {node.interval}{busiest}{idle[node.ignore_idle_threads]}"


def _named(taken_for: TakenFor) -> list[tuple[str, str]]:
    """Return the heading and the text of each name and number that is known."""
    headed = {
        "DAG": taken_for.dag_id,
        "Run": taken_for.run_id,
        "Task": taken_for.task_id,
        "Try": taken_for.try_number,
        "Map index": taken_for.map_index,
    }
    return [(heading, readable(str(value))) for heading, value in headed.items() if value is not None]


def _label(capture: PageCapture, number: int) -> str:
    """What a capture is called where there is little room."""
    moment = capture.moment
    return f"{number} · {moment:%H:%M:%S}" if moment else f"capture {number}"


def _facts(capture: PageCapture, room: int) -> dict[str, Any]:
    """When a capture was taken, what is wrong with it, and its text, for the template."""
    moment, unparsed = capture.moment, capture.report.unparsed
    text = excerpt(capture.text, room)
    return {
        "taken": f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "at an unknown time",
        "machine": moment and f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        "remarks": [readable(remark) for remark in capture.remarks],
        "failures": [
            (readable(node_label(node)), readable(node.failure)) for node in capture.report.nodes if node.failure
        ],
        "unparsed": [
            (found.line, readable(found.reason), excerpt(found.text.strip(), _MOST_OF_A_PIECE))
            for found in unparsed[:_MOST_UNPARSED]
        ],
        "unparsed_beyond": max(0, len(unparsed) - _MOST_UNPARSED),
        "text": text.text,
        "text_left_out": count(text.left_out, "character") if text.left_out else "",
        "size": count(len(capture.text), "character"),
        "path": readable(capture.path) if capture.path else "",
    }
