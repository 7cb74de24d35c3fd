"""One capture: the CPU of the nodes and, right after it, their hot threads; and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.api import EMPTY_REPORT, HotThreadsQuery, node_list, node_stats
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    ReplyTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.cluster.hot_threads_report import HotNode, HotThreadsReport
    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.http.exchange import Ask, Conversation

#: In what a capture can be written: the text as it came, and the report that was read from it.
FORMATS = ("txt", "json")

_HOTTEST = 5
# Names are as long as an index's; one that is not fits no XCom.
_LONGEST_NAME = 200


def capture_paths(destination: str, formats: Sequence[str]) -> dict[str, str]:
    """
    Name the files of a capture: the destination, its suffix exchanged for each format's own.

    :param destination: the path of the text; where it ends in no known suffix, one is appended.
    :param formats: any of :data:`FORMATS`, each once.
    :returns: a path for each format.
    :raises ValueError: for an unknown format, none at all, or a destination that names no file.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats or isinstance(formats, str) or len(set(formats)) != len(formats):
        raise ValueError(f"formats lists one or more of {', '.join(FORMATS)}, each once; not {formats!r}.")
    stem, dot, suffix = destination.rpartition(".")
    stem = stem if dot and suffix in FORMATS else destination
    if not stem or stem.endswith("/"):
        raise ValueError(f"destination is the path of a file; not {destination!r}.")
    return {name: f"{stem}.{name}" for name in formats}


@dataclass(frozen=True)
class Capture:
    """
    What a cluster said of its hot threads.

    :param text: the report, with a surrogate for each byte that is no UTF-8.
    :param selectors: the nodes that were asked for; None for all.
    :param stats: the nodes' statistics right before it; None where the cluster did not give them.
    :param remarks: what a person should know of how it was taken.
    """

    text: str
    selectors: tuple[str, ...] | None = None
    stats: NodeStats | None = None
    remarks: tuple[str, ...] = ()

    @cached_property
    def report(self) -> HotThreadsReport:
        """The report, typed; read at first use, since a large one takes a moment."""
        from airflow_provider_mediaops.cluster.hot_threads import parse

        return parse(self.text)

    @property
    def missing(self) -> list[str]:
        """The nodes that were asked for, or gave their statistics, and are not in the report."""
        present = {name for node in self.report.nodes for name in _names(node)}
        if self.stats is None:
            # Without statistics only plain names and ids can be compared.
            plain = [entry for entry in self.selectors or () if not (entry.startswith("_") or set("*?:") & set(entry))]
            return [entry for entry in plain if entry not in present]
        silent = [node.label for node in self.stats.nodes if present.isdisjoint({node.node_id, node.name})]
        return silent + [entry for entry in self.stats.unknown(self.selectors) if entry not in present]

    def content(self, format: str) -> bytes:
        """
        Give the content of one of the capture's files.

        :param format: one of :data:`FORMATS`.
        :returns: for ``txt`` what the cluster sent, byte for byte; for ``json`` the report in ASCII.
        """
        if format == "txt":
            return self.text.encode("utf-8", "surrogateescape")
        return json.dumps(self.report.to_dict(), indent=1, allow_nan=False).encode("ascii")

    def summary(self) -> dict[str, Any]:
        """
        Give the capture in a few plain values, small enough for XCom.

        :returns: ``bytes`` of the text; ``nodes`` with the number of their threads; ``cpu`` of the nodes, None where
            it is not known; the ``hottest`` threads; ``missing`` nodes; how many pieces were ``unparsed``.
        """
        nodes = self.report.nodes
        threads = [(node, thread) for node in nodes for thread in node.threads if thread.share is not None]
        threads.sort(key=lambda pair: -(pair[1].share or 0.0))
        return {
            "bytes": len(self.content("txt")),
            "nodes": [{"node": _label(node), "threads": len(node.threads)} for node in nodes],
            "cpu": None if self.stats is None else [_cpu(node) for node in self.stats.nodes],
            "hottest": [
                {"node": _label(node), "percent": thread.share, "thread": _printable(thread.name)}
                for node, thread in threads[:_HOTTEST]
            ],
            "missing": self.missing,
            "unparsed": len(self.report.unparsed),
        }

    def warnings(self) -> list[str]:
        """
        Say in sentences what a person should know of this capture.

        :returns: the remarks, missing nodes, and pieces of the text that were not understood.
        """
        warnings = list(self.remarks)
        if self.missing:
            warnings.append(
                f"Not in the report: {', '.join(self.missing)}. A node that does not exist, failed, or did not answer "
                "within timeout has no section in it."
            )
        if unparsed := self.report.unparsed:
            first = unparsed[0]
            warnings.append(
                f"Parts of the report were not understood ({len(unparsed)}) and are kept as they came; the first: line "
                f"{first.line}, {first.reason}."
            )
        return warnings


def take_capture(ask: Ask, query: HotThreadsQuery) -> Conversation[Capture]:
    """
    Ask for the CPU of the nodes, then for their hot threads.

    The CPU is an extra: where the cluster refuses it, or fails to give it, the capture is taken all the same.

    :param ask: makes a conversation of a call.
    :param query: which hot threads.
    :returns: a conversation whose result is the capture.
    :raises MediaOpsError: where the cluster gives no hot threads.
    """
    stats: NodeStats | None = None
    remarks: list[str] = []
    try:
        stats = yield from ask(node_stats(query.nodes))
    except (AuthenticationError, ConnectionFailedError):
        raise
    except MediaOpsError as error:
        remarks.append(f"The capture is without the nodes' CPU: {error.message}")
    else:
        remarks.extend(f"A node did not give its statistics: {failure}." for failure in stats.failures)
    try:
        text = yield from ask(query.call())
    except (NotFoundError, InvalidReplyError) as error:
        if error.reason != EMPTY_REPORT or stats is None:
            raise
        raise _no_answer(stats, query, error) from error
    return Capture(text, node_list(query.nodes), stats, tuple(remarks))


def _no_answer(stats: NodeStats, query: HotThreadsQuery, error: MediaOpsError) -> ReplyTimeoutError:
    nodes = ", ".join(node.label for node in stats.nodes)
    return ReplyTimeoutError(
        f"The nodes exist ({nodes}), but none reported its hot threads within timeout={query.timeout}. Raise timeout "
        "if they are that busy.",
        **error.context(),
    )


def _cpu(node: NodeCpu) -> dict[str, Any]:
    return {"node": node.label, "percent": node.percent, "source": node.source}


def _label(node: HotNode) -> str | None:
    return _printable(node.name or node.node_id or node.header)


def _names(node: HotNode) -> list[str]:
    address = node.address or ""
    names = (node.node_id, node.name, node.host, address, address.rpartition(":")[0])
    return [name for name in names if name]


def _printable(text: str | None) -> str | None:
    # Surrogates stand for bytes that are no UTF-8; no database takes them.
    return text and text[:_LONGEST_NAME].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
