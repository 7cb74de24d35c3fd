"""The lines of a short report, and what is read of one with a single node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.hot_threads.parser import parse

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread

HEADER = "::: {n1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{10.0.0.1:9300}{dimr}{a=b}\n"
SAMPLING = "   Hot threads at 2022-04-01T15:15:27.658Z, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:\n"
THREAD = "   10.0% (50ms out of 500ms) cpu usage by thread 'opensearch[n1][search][T#1]'\n"
UNIQUE = "     unique snapshot\n"
STACK = "     9/10 snapshots sharing following 2 elements\n       a.B.c(B.java:1)\n       a.B.d(B.java:2)\n"
REPORT = HEADER + SAMPLING + "   \n" + THREAD + STACK + "\n"


def only_node(text: str) -> HotNode:
    """Return the node of a report that is understood as a whole."""
    report = parse(text)
    assert report.unparsed == ()
    assert report.render() == text
    (node,) = report.nodes
    return node


def values(part: HotNode | HotThread) -> dict[str, Any]:
    """Return the fields that are set."""
    return {name: value for name, value in part.to_dict().items() if value not in (None, {}, [])}
