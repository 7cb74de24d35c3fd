"""Take a capture, which is the nodes' CPU and right after it their hot threads, and summarize it."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.api import hot_threads, node_stats
from airflow_provider_mediaops.cluster.comparison import compare
from airflow_provider_mediaops.cluster.errors import EMPTY_REPORT
from airflow_provider_mediaops.cluster.folded import folded, measures
from airflow_provider_mediaops.cluster.kinds_of_work import works_of
from airflow_provider_mediaops.cluster.query import HotThreadsQuery, is_plain, node_list
from airflow_provider_mediaops.cluster.text import listed
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.exchange import Blocking

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.plan import Reason
    from airflow_provider_mediaops.cluster.comparison import HotKind
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThreadsReport, Unparsed
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
    from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampler
    from airflow_provider_mediaops.cluster.statistics import NodeStatistics
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow

# How a text that may hold surrogates becomes bytes.
_PACKED = ("utf-8", "surrogatepass")
_MISSING = "A node that does not exist, failed, or did not answer within timeout has no section in it."
# In the JSON file. Merges of each shard are a kind of their own.
_MOST_KINDS = 100
_HEADER = re.compile(r"^[ \t]*:::.*$", re.MULTILINE)


@dataclass
class Capture:
    """A hot-threads report with its circumstances."""

    # The text, with a surrogate for each byte that is not UTF-8, or what is left of it when it is packed.
    kept: str | bytes
    selectors: tuple[str, ...] | None = None  # the nodes that were asked for; None for all
    stats: NodeStats | None = None  # right before the report; None if the cluster did not return them
    remarks: tuple[str, ...] = ()  # sentences about how it was taken
    taken: datetime | None = None  # when it was asked for
    cause: str = ""  # why it was taken, in words; empty if it is unknown
    reason: Reason | None = None  # why it was taken; None if it is unknown
    running_tasks: RunningTasks | None = None  # what the nodes ran meanwhile; None if they were not asked
    task_warnings: tuple[str, ...] = ()  # sentences about that for the log
    # The heap, collectors, thread pools and throttling of the nodes; None if they are not known.
    statistics: tuple[NodeStatistics, ...] | None = None
    path: str | None = None  # of the file that holds the whole text, for the page

    @property
    def text(self) -> str:
        """The text; that of a packed capture is decompressed at each access."""
        return self.kept if isinstance(self.kept, str) else zlib.decompress(self.kept).decode(*_PACKED)

    def pack(self) -> None:
        """Let go of the report, and compress the text: a series that waits for its page hardly adds up in memory."""
        if isinstance(self.kept, str):
            self.kept = zlib.compress(self.kept.encode(*_PACKED), level=1)
        for name in ("report", "kinds"):
            vars(self).pop(name, None)

    @cached_property
    def report(self) -> HotThreadsReport:
        """The report, typed; read at first use, since a large one takes a moment."""
        from airflow_provider_mediaops.cluster.hot_threads.parser import parse

        return parse(self.text)

    @cached_property
    def kinds(self) -> list[HotKind]:
        """The kinds of work of the hot threads, the hottest first."""
        return compare([self.report]).kinds

    @property
    def missing(self) -> list[str]:
        """The nodes that were asked for, or gave their statistics, and are not in the report."""
        present = {name for node in self.report.nodes for name in (node.node_id, node.name, node.host)}
        if self.stats is None:
            return [entry for entry in _names_in(self.selectors) if entry not in present]
        silent = [node.label for node in self.stats.nodes if present.isdisjoint({node.node_id, node.name})]
        return silent + [entry for entry in self.stats.unknown(self.selectors) if entry not in present]

    @property
    def covers_no_requested_node(self) -> bool:
        """Whether the report covers none of the requested nodes. Does not parse the report."""
        if self.stats is None:
            wanted = _names_in(self.selectors)
        else:
            wanted = [name for node in self.stats.nodes for name in (node.node_id, node.name) if name]
        headers = (match[0] for match in _HEADER.finditer(self.text))
        return bool(wanted) and not any(name in header for header in headers for name in wanted)

    def content(self, format: str) -> bytes:
        """Return the content of a file: ``txt``, as it came, ``json``, in ASCII, ``folded``, or ``kinds``."""
        if format == "txt":
            return self.text.encode("utf-8", "surrogateescape")
        if format == "json":
            return _json_of(self)
        return folded([self.report], measures([self.report]), kinds_first=format == "kinds").encode()

    def warnings(self) -> list[str]:
        """Return sentences about everything unusual in this capture."""
        warnings = [*self.all_remarks, *self.task_warnings]
        if not self.report.understood:
            warnings.append("Nothing of the text was understood as a report of hot threads. It is kept as it came.")
        if unparsed := self.report.unparsed:
            warnings.append(
                f"Parts of the report were not understood ({len(unparsed)}) and are kept as they came; the first: line "
                f"{unparsed[0].line}, {unparsed[0].reason}."
            )
        return warnings

    @cached_property
    def all_remarks(self) -> tuple[str, ...]:
        """The remarks, and the nodes that are missing in the statistics and in the report."""
        gap = f"{self.stats.gap}." if self.stats and self.stats.gap else ""
        missing = f"Not in the report: {listed(self.missing, 20)}. {_MISSING}" if self.missing else ""
        return (*self.remarks, *filter(None, (gap, missing)))


def _json_of(capture: Capture) -> bytes:
    """Return the content of the JSON file."""
    taken = capture.taken or capture.report.taken
    parts = {
        # First, so that a reader who needs no more than this finds it in the first bytes of a large file.
        "capture": {
            "taken": taken and taken.isoformat(timespec="milliseconds"),
            "reason": capture.reason,
            "cause": capture.cause,
            "nodes_asked": capture.selectors and list(capture.selectors),
        },
        "running_tasks": capture.running_tasks and capture.running_tasks.to_dict(),
        "statistics": capture.statistics,
        "kinds": [kind.to_dict() for kind in capture.kinds[:_MOST_KINDS]],
        "nodes": capture.report.nodes,
        "unparsed": capture.report.unparsed,
    }
    known = {name: part for name, part in parts.items() if part is not None}
    written = BytesIO()
    # Piece by piece, and node by node: all at once take several times the memory of the text.
    for piece in json.JSONEncoder(indent=1, allow_nan=False, default=_plain).iterencode(known):
        written.write(piece.encode("ascii"))
    return written.getvalue()


def _plain(part: HotNode | Unparsed) -> dict[str, Any]:
    """Return a part of a report in plain values, with the kinds of work of each thread."""
    values = part.to_dict()
    for thread, shown in zip(getattr(part, "threads", ()), values.get("threads", ()), strict=True):
        shown["kinds"] = [work.to_dict() for work in works_of(thread)]
    return values


def reports_of(captures: Iterable[Capture]) -> Iterator[HotThreadsReport]:
    """Yield the report of each capture, which is packed before the next one is read."""
    for capture in captures:
        yield capture.report
        capture.pack()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def take_capture(
    ask: Ask,
    query: HotThreadsQuery,
    stats: NodeStats | None = None,
    *,
    now: Callable[[], datetime] = _now,
    reason: Reason | None = None,
    cause: str = "",
    sampler: TaskSampler | None = None,
) -> CallFlow[Capture]:
    """
    Ask for the CPU of the nodes, unless it has just been read, then for their hot threads.

    The CPU is optional: if the cluster refuses or fails to return it, the capture is taken without it.
    """
    remarks: tuple[str, ...] = ()
    if stats is None:
        try:
            stats = yield from ask(node_stats(query.nodes))
        except (AuthenticationError, ConnectionFailedError, InvalidConnectionError):
            raise
        except MediaOpsError as error:
            remarks = (f"The capture is without the nodes' CPU: {error.message}",)
    from airflow_provider_mediaops.cluster.running_tasks.assessment import assessed

    call, taken, tasks = hot_threads(query), now(), None
    try:
        if sampler is None:
            text = yield from ask(call)
        else:
            text, tasks = yield from sampler.beside(ask(call), query, stats)
    except (NotFoundError, InvalidReplyError) as error:
        if error.reason != EMPTY_REPORT or stats is None:
            raise
        raise _no_answer(query, stats, error.context()) from error
    capture = Capture(text, node_list(query.nodes), stats, remarks, taken, cause, reason)
    # A large report is not to be searched on an event loop.
    if capture.selectors and (yield Blocking(lambda: capture.covers_no_requested_node)):
        about = {"service": "search cluster", "method": call.request.method, "path": call.request.path}
        raise _no_answer(query, stats, about)
    if tasks is not None:
        capture.running_tasks = yield Blocking(lambda: assessed(tasks, capture.report))
        capture.task_warnings = tasks.sampler.untold(capture.running_tasks.remarks)
    return capture


def _no_answer(query: HotThreadsQuery, stats: NodeStats | None, about: dict[str, Any]) -> ReplyTimeoutError:
    nodes = [node.label for node in stats.nodes] if stats else node_list(query.nodes) or ()
    return ReplyTimeoutError(
        f"None of the nodes ({listed(nodes, 20)}) reported its hot threads within timeout={query.timeout}. Raise "
        "timeout if they are that busy.",
        **about,
    )


def _names_in(selectors: Sequence[str] | None) -> list[str]:
    # What only the cluster can resolve cannot be compared.
    return [entry for entry in selectors or () if is_plain((entry,)) and "*" not in entry]
