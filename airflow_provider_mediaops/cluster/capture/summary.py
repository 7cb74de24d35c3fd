"""Summarize captures in plain values that fit into an XCom or a trigger event, however large the cluster is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.comparison import NO_STACK, top_method
from airflow_provider_mediaops.cluster.folded import NO_NAME, Measure, kind_of, node_label
from airflow_provider_mediaops.cluster.statistics import alarms
from airflow_provider_mediaops.cluster.text import figure, in_what_was_read, readable
from airflow_provider_mediaops.json_text import fitting, json_size, storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread
    from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind
    from airflow_provider_mediaops.cluster.models import NodeCpu
    from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, TaskGroup

#: The maximum size of a series' summary as JSON: an XCom or an event beside it stays below 48 kB.
MOST_BYTES = 46_000

_HOTTEST = 5
_KINDS_IN_LOG = 3
# The maximum of entries, and of bytes as JSON, of each list in the summary of one capture.
_LISTED = 50
_ROOM = {"nodes": 3_000, "cpu": 4_000, "missing": 1_500, "hottest": 2_800, "kinds": 1_800, "groups": 2_400}
_FAILURES_ROOM = 9_000
# The entries that the later captures of a series keep, in the steps in which it is shortened.
_SHORTER: tuple[dict[str, int], ...] = (
    {},
    {"nodes": 0, "cpu": 1, "hottest": 1, "kinds": 1, "missing": 0, "groups": 1},
    dict.fromkeys(_ROOM, 0),
)
_LONGEST_NAME = 200
# A group has three names beside that of its node, and the first one is kept whatever its size is.
_LONGEST_GROUP_NAME = 80
# A kind has an index and a frame.
_LONGEST_KIND_NAME = 120


def summary_of(capture: Capture) -> dict[str, Any]:
    """Return what :meth:`~airflow_provider_mediaops.cluster.capture.model.Capture.summary` returns."""
    busiest = sorted(capture.stats.nodes, key=lambda node: -(node.percent or 0.0)) if capture.stats else []
    running = capture.running_tasks
    pairs = [(node, group) for node in running.nodes for group in node.groups] if running else []
    heaviest = nlargest(_HOTTEST, pairs, key=lambda pair: (pair[1].cpu_ms or 0.0, pair[1].running))
    # By name, all entries, and how one is written.
    lists: dict[str, tuple[Sequence[Any], Callable[[Any], Any]]] = {
        "nodes": (capture.report.nodes, lambda node: {"node": _label(node), "threads": len(node.threads)}),
        "cpu": (busiest, _cpu),
        "hottest": (_hottest(capture, _HOTTEST), _hot),
        "kinds": (capture.kinds[:_HOTTEST], _kind),
        "missing": (capture.missing, name_of),
        "groups": (heaviest, _group),
    }
    shown: dict[str, Any] = {}
    left_out: dict[str, int] = {}
    for name, (entries, write) in lists.items():
        written = [write(entry) for entry in entries[:_LISTED]]
        # The first of each list is named, however long its name is.
        shown[name] = fitting(written, _ROOM[name]) or written[:1]
        if len(entries) > len(shown[name]):
            left_out[name] = len(entries) - len(shown[name])
    if not capture.stats:
        shown["cpu"] = None
    if running is None:
        del shown["groups"]
    counts = {"bytes": len(capture.content("txt")), "unparsed": len(capture.report.unparsed)}
    return {**counts, **shown, "left_out": left_out}


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
    doing = "" if method == NO_STACK else f", {'.'.join(method.split('.')[-2:])}"
    thread_words = readable(f"hottest: {amount} {thread.name or NO_NAME} on {node_label(node)}{doing}")
    part = in_what_was_read(capture.report.read_percent)
    return [thread_words, f"work{part}: {', '.join(map(_share_of, capture.kinds[:_KINDS_IN_LOG]))}"]


def _share_of(kind: HotKind) -> str:
    caution = f" ({kind.caution})" if kind.caution else ""
    return f"{kind.share_percent:.0f} % {readable(kind.label, _LONGEST_KIND_NAME)}{caution}"


def _hottest(capture: Capture, most: int) -> list[tuple[HotNode, HotThread]]:
    nodes = capture.report.nodes
    threads = ((node, thread) for node in nodes for thread in node.threads if thread.amount is not None)
    return nlargest(most, threads, key=lambda pair: pair[1].amount or 0.0)


def bounded(captures: Sequence[dict[str, Any]], failures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """
    Return a series of summaries that fits into an XCom: ``captures`` in order, and the newest ``failures``.

    The first capture is kept whole. If the series is too large, the later captures keep their paths, their counts, the
    hottest node and the hottest thread; then their paths and counts; and then the last captures are left out. Numbers
    of omitted entries are in ``left_out`` of each capture, and that of omitted captures, as ``later_captures``, in
    ``left_out`` of the first.
    """
    kept = fitting(failures[::-1], _FAILURES_ROOM)[::-1]
    if not captures:
        return {"captures": [], "failures": kept}
    room = MOST_BYTES - json_size(kept)
    for most in _SHORTER:
        series = [captures[0], *(_shortened(later, most) for later in captures[1:])]
        if json_size(series) <= room:
            return {"captures": series, "failures": kept}
    # The number of those that are left out takes some bytes, too.
    fitted = fitting(series, room - len(', "later_captures": 99')) or series[:1]
    left_out = {**captures[0].get("left_out", {}), "later_captures": len(series) - len(fitted)}
    return {"captures": [{**captures[0], "left_out": left_out}, *fitted[1:]], "failures": kept}


def _shortened(summary: dict[str, Any], most: dict[str, int]) -> dict[str, Any]:
    left_out = dict(summary.get("left_out", {}))
    lists: dict[str, Any] = {}
    for name, number in most.items():
        # Of the CPU there may be no list.
        if entries := summary.get(name):
            lists[name] = entries[:number]
            if len(entries) > number:
                left_out[name] = left_out.get(name, 0) + len(entries) - number
    return {**summary, **lists, "left_out": left_out}


def name_of(text: str | None, longest: int = _LONGEST_NAME) -> str | None:
    """Return a name as the summary holds it."""
    return text and storable(text, longest)


def _label(node: HotNode) -> str | None:
    return name_of(node.name or node.node_id or node.header)


def _cpu(node: NodeCpu) -> dict[str, Any]:
    return {"node": name_of(node.label), "percent": node.percent, "source": node.source}


def _group(pair: tuple[NodeTasks, TaskGroup]) -> dict[str, Any]:
    node, group = pair
    # Neither the query nor its shape: an XCom is read by others than the files.
    return {
        "node": name_of(node.label),
        "action": name_of(group.action, _LONGEST_GROUP_NAME),
        "opaque_id": name_of(group.opaque_id, _LONGEST_GROUP_NAME),
        "index": name_of(group.index, _LONGEST_GROUP_NAME),
        "seen": group.seen,
        "running": group.running,
        "longest_ms": group.longest_ms,
        "cpu_share_percent": group.cpu_share_percent,
    }


def _kind(kind: HotKind) -> dict[str, Any]:
    return {
        name: name_of(value, _LONGEST_KIND_NAME) if isinstance(value, str) else value
        for name, value in kind.to_dict().items()
        # The same sentence for each capture.
        if name != "look"
    }


def _hot(pair: tuple[HotNode, HotThread]) -> dict[str, Any]:
    node, thread = pair
    is_memory = thread.kind == "mem"
    shown: dict[str, Any] = {
        "node": _label(node),
        "percent": None if is_memory else thread.amount,
        "thread": name_of(thread.name),
    }
    if is_memory:
        shown["bytes"] = thread.amount
    # The split of Elasticsearch from 7.16 on; neither is CPU.
    for name in ("other_percent", "idle_percent"):
        if (percent := getattr(thread, name)) is not None:
            shown[name] = percent
    return shown
