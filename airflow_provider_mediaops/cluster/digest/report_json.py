"""Read a report from the JSON file of a capture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport, Kind, StackGroup
from airflow_provider_mediaops.cluster.plain_values import HIGHEST_FIGURE, list_of, mapping_of, number_of
from airflow_provider_mediaops.cluster.report_files import NoReportError


def report_of_json(document: object) -> HotThreadsReport:
    """
    Return the report in the JSON of a capture. Values that are not understood are left out.

    :returns: the report: its nodes, threads and stacks, without the text.
    :raises NoReportError: if it is the JSON of something else.
    """
    nodes = mapping_of(document).get("nodes")
    if not isinstance(nodes, list):
        raise NoReportError("it is JSON, but not that of a capture, which has nodes")
    report = HotThreadsReport(nodes=tuple(_node(node) for node in nodes if isinstance(node, Mapping)))
    if not report.understood:
        raise NoReportError("it is JSON, but no node in it is one of a report of hot threads")
    return report


def _node(values: Mapping[str, Any]) -> HotNode:
    return HotNode(
        name=_text(values, "name"),
        node_id=_text(values, "node_id"),
        timestamp_text=_text(values, "timestamp_text"),
        threads=tuple(_thread(thread) for thread in _mappings(values, "threads")),
    )


def _thread(values: Mapping[str, Any]) -> HotThread:
    kind = values.get("kind")
    return HotThread(
        name=_text(values, "name"),
        pool=_text(values, "pool"),
        kind=cast("Kind", kind) if kind in get_args(Kind) else None,
        percent=_number(values, "percent"),
        cpu_percent=_number(values, "cpu_percent"),
        memory=_text(values, "memory"),
        groups=tuple(_group(group) for group in _mappings(values, "groups")),
    )


def _group(values: Mapping[str, Any]) -> StackGroup:
    total = _number(values, "total")
    return StackGroup(
        snapshots=int(_number(values, "snapshots") or 1),
        total=None if total is None else int(total),
        frames=tuple(frame for frame in list_of(values.get("frames")) if isinstance(frame, str)),
    )


def _mappings(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [each for each in list_of(values.get(name)) if isinstance(each, Mapping)]


def _text(values: Mapping[str, Any], name: str) -> str | None:
    found = values.get(name)
    return found if isinstance(found, str) else None


def _number(values: Mapping[str, Any], name: str) -> float | None:
    return number_of(values.get(name), HIGHEST_FIGURE)
