"""Summarize captures in plain values that fit into an XCom or a trigger event, however large the cluster is."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.comparison import top_method
from airflow_provider_mediaops.cluster.folded import NO_NAME, NO_STACK, Measure, kind_of, node_label, short_method
from airflow_provider_mediaops.cluster.statistics import alarms
from airflow_provider_mediaops.cluster.text import figure, in_what_was_read, readable
from airflow_provider_mediaops.json_text import fitting, json_size, storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.comparison import HotKind
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread
    from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, TaskGroup

#: The maximum size of a series' summary as JSON: an XCom or an event beside it stays below 48 kB.
MOST_BYTES = 46_000

_HOTTEST = 5
_KINDS_IN_LOG = 3
# The maximum of entries of each list in the summary of one capture, and of their bytes as JSON.
_LISTED = 50
_ROOM = 5_000
# The bytes of each list in the later captures of a series: the first of these with which the series fits in.
_LATER_ROOMS = (_ROOM, 400, 0)
_FAILURES_ROOM = 9_000
_LONGEST_NAME = 200


def summary_of(capture: Capture) -> dict[str, Any]:
    """
    Return a capture in a few plain values, at most 16 kB as JSON.

    They are those of :class:`~airflow_provider_mediaops.results.SingleCapture` but ``paths`` and ``taken``.
    """
    stats, running = capture.stats, capture.running_tasks
    busiest = sorted(stats.nodes, key=lambda node: -(node.percent or 0.0)) if stats else []
    pairs = [(node, group) for node in running.nodes for group in node.groups] if running else []
    lists: dict[str, list[Any]] = {
        "nodes": [{"node": _label(node), "threads": len(node.threads)} for node in capture.report.nodes],
        "cpu": [{"node": name_of(node.label), "percent": node.percent, "source": node.source} for node in busiest],
        "hottest": [_hot(*pair) for pair in _hottest(capture, _HOTTEST)],
        "kinds": [_kind(kind) for kind in capture.kinds[:_HOTTEST]],
        "missing": [name_of(name) for name in capture.missing],
        "groups": [
            _group(*pair)
            for pair in nlargest(_HOTTEST, pairs, key=lambda pair: (pair[1].cpu_ms or 0.0, pair[1].running))
        ],
    }
    summary = {
        "bytes": len(capture.content("txt")),
        "unparsed": len(capture.report.unparsed),
        **{name: entries[:_LISTED] for name, entries in lists.items()},
        "left_out": {name: len(entries) - _LISTED for name, entries in lists.items() if len(entries) > _LISTED},
    }
    if not stats:
        summary["cpu"] = None
    if running is None:
        del summary["groups"]
    return _shortened(summary, _ROOM)


def hottest_sentence(capture: Capture) -> str:
    """Return hot collectors and full queues, the hottest thread and the hottest kinds of work in one line of a log."""
    return "; ".join([*alarms(capture.statistics or ()), *_hottest_words(capture)])


def _hottest_words(capture: Capture) -> list[str]:
    if not capture.report.understood:
        return ["nothing was understood"]
    if not (hottest := _hottest(capture, 1)) or not hottest[0][1].amount:
        return ["no thread was hot"]
    ((node, thread),) = hottest
    amount = figure(thread.amount or 0.0, Measure(kind_of(thread), "bytes" if thread.kind == "mem" else "percent"))
    method = top_method(thread)
    doing = "" if method == NO_STACK else f", {short_method(method)}"
    thread_words = readable(f"hottest: {amount} {thread.name or NO_NAME} on {node_label(node)}{doing}")
    part = in_what_was_read(capture.report.read_percent)
    return [thread_words, f"work{part}: {', '.join(map(_share_of, capture.kinds[:_KINDS_IN_LOG]))}"]


def _share_of(kind: HotKind) -> str:
    caution = f" ({kind.caution})" if kind.caution else ""
    return f"{kind.share_percent:.0f} % {readable(kind.label, _LONGEST_NAME)}{caution}"


def _hottest(capture: Capture, most: int) -> list[tuple[HotNode, HotThread]]:
    nodes = capture.report.nodes
    threads = ((node, thread) for node in nodes for thread in node.threads if thread.amount is not None)
    return nlargest(most, threads, key=lambda pair: pair[1].amount or 0.0)


def bounded(captures: Sequence[dict[str, Any]], failures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """
    Return a series of summaries that fits into an XCom: ``captures`` in order, and the newest ``failures``.

    The first capture is kept whole. If the series is too large, the later captures keep the first entries of each list;
    then their paths and counts; and then the last captures are left out. Numbers of omitted entries are in ``left_out``
    of each capture, and that of omitted captures, as ``later_captures``, in ``left_out`` of the first.
    """
    kept = fitting(failures[::-1], _FAILURES_ROOM)[::-1]
    if not captures:
        return {"captures": [], "failures": kept}
    first, *later = captures
    room = MOST_BYTES - json_size(kept)
    for list_room in _LATER_ROOMS:
        series = [first, *(_shortened(each, list_room) for each in later)]
        if json_size(series) <= room:
            return {"captures": series, "failures": kept}
    # The number of those that are left out takes some bytes, too.
    fitted = fitting(series, room - len(', "later_captures": 99')) or series[:1]
    left_out = {**first.get("left_out", {}), "later_captures": len(series) - len(fitted)}
    return {"captures": [{**first, "left_out": left_out}, *fitted[1:]], "failures": kept}


def _shortened(summary: dict[str, Any], room: int) -> dict[str, Any]:
    """Cut each list to so many bytes as JSON; if there is room at all, the first entry stays, however long it is."""
    lists = {
        name: fitting(entries, room) or entries[: 1 if room else 0]
        for name, entries in summary.items()
        if isinstance(entries, list)
    }
    left_out = dict(summary.get("left_out", {}))
    for name, entries in lists.items():
        if cut := len(summary[name]) - len(entries):
            left_out[name] = left_out.get(name, 0) + cut
    return {**summary, **lists, "left_out": left_out}


def name_of(text: str | None) -> str | None:
    """Return a name as the summary holds it."""
    return text and storable(text, _LONGEST_NAME)


def _label(node: HotNode) -> str | None:
    return name_of(node.name or node.node_id or node.header)


def _group(node: NodeTasks, group: TaskGroup) -> dict[str, Any]:
    # Neither the query nor its shape: an XCom is read by others than the files.
    names = {name: name_of(getattr(group, name)) for name in ("action", "opaque_id", "index")}
    figures = {name: getattr(group, name) for name in ("seen", "running", "longest_ms", "cpu_share_percent")}
    return {"node": name_of(node.label), **names, **figures}


def _kind(kind: HotKind) -> dict[str, Any]:
    return {
        name: name_of(value) if isinstance(value, str) else value
        for name, value in kind.to_dict().items()
        # The same sentence for each capture.
        if name != "look"
    }


def _hot(node: HotNode, thread: HotThread) -> dict[str, Any]:
    shown: dict[str, Any] = {"node": _label(node), "percent": thread.amount, "thread": name_of(thread.name)}
    if thread.kind == "mem":
        shown |= {"percent": None, "bytes": thread.amount}
    # The split of Elasticsearch from 7.16 on; neither is CPU.
    for name in ("other_percent", "idle_percent"):
        if (percent := getattr(thread, name)) is not None:
            shown[name] = percent
    return shown
