"""One capture: the CPU of the nodes and, right after it, their hot threads; and what is kept of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_texts, refused
from airflow_provider_mediaops.cluster.api import EMPTY_REPORT, HotThreadsQuery, node_list, node_stats
from airflow_provider_mediaops.cluster.cpu import name_some
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidArgumentError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.exchange import Blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_mediaops.cluster.hot_threads.report import HotNode, HotThreadsReport
    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.cluster.page.document import PageCapture
    from airflow_provider_mediaops.http.exchange import Ask, Conversation

#: In what a capture can be written, in this order: the text as it came, the report that was read from it, its stacks
#: for flame-graph tools, and a page for people.
FORMATS = ("txt", "json", "folded", "html")

_HEADER = re.compile(r"^[ \t]*:::.*$", re.MULTILINE)
_HOTTEST = 5
# A cluster has hundreds of nodes, and a summary is to be small; the files tell of all.
_LISTED = 50
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
# Names are as long as an index's; one that is not fits no XCom.
_LONGEST_NAME = 200


def capture_paths(destination: str, formats: str | Sequence[str], number: int | None = None) -> dict[str, str]:
    """
    Name the files of a capture: the destination, its suffix exchanged for each format's own.

    :param destination: the path of the text; where it ends in no known suffix, one is appended.
    :param formats: any of :data:`FORMATS`, each once, in a list or in one text with commas.
    :param number: which of several captures this is; None where there is one only. The page is one for all.
    :returns: a path for each format, in the order in which they are written.
    :raises ValueError: for an unknown format, none at all, or a destination that names no file.
    """
    wanted = read_formats(formats)
    stem, dot, suffix = destination.rpartition(".")
    stem = stem if dot and suffix in FORMATS else destination
    if not stem or stem.endswith("/"):
        raise InvalidArgumentError(f"destination is the path of a file; not {destination!r}.")
    own = stem if number is None else f"{stem}.{number}"
    return {name: f"{stem if name == 'html' else own}.{name}" for name in FORMATS if name in wanted}


def read_formats(formats: object) -> tuple[str, ...]:
    """
    Read the formats of a capture.

    :param formats: any of :data:`FORMATS`, each once, in a list or in one text with commas.
    :returns: the formats.
    :raises InvalidArgumentError: for an unknown format, or none at all.
    """
    wanted = read_texts("formats", formats)
    if not set(wanted) <= set(FORMATS) or len(set(wanted)) != len(wanted):
        raise refused("formats", formats, f"lists one or more of {', '.join(FORMATS)}, each once")
    return wanted


@dataclass(frozen=True)
class Capture:
    """
    What a cluster said of its hot threads.

    :param text: the report, with a surrogate for each byte that is no UTF-8.
    :param selectors: the nodes that were asked for; None for all.
    :param stats: the nodes' statistics right before it; None where the cluster did not give them.
    :param remarks: what a person should know of how it was taken.
    :param taken: when it was asked for.
    """

    text: str
    selectors: tuple[str, ...] | None = None
    stats: NodeStats | None = None
    remarks: tuple[str, ...] = ()
    taken: datetime | None = None

    @cached_property
    def report(self) -> HotThreadsReport:
        """The report, typed; read at first use, since a large one takes a moment."""
        from airflow_provider_mediaops.cluster.hot_threads.parser import parse

        return parse(self.text)

    @property
    def missing(self) -> list[str]:
        """The nodes that were asked for, or gave their statistics, and are not in the report."""
        present = {name for node in self.report.nodes for name in _names(node)}
        if self.stats is None:
            return [entry for entry in _plain(self.selectors) if entry not in present]
        silent = [node.label for node in self.stats.nodes if present.isdisjoint({node.node_id, node.name})]
        return silent + [entry for entry in self.stats.unknown(self.selectors) if entry not in present]

    @property
    def is_vain(self) -> bool:
        """Whether none of the nodes that are meant has a section; told without reading the report."""
        if self.stats is None:
            wanted = _plain(self.selectors)
        else:
            wanted = [name for node in self.stats.nodes for name in (node.node_id, node.name) if name]
        headers = (match[0] for match in _HEADER.finditer(self.text))
        return bool(wanted) and not any(name in header for header in headers for name in wanted)

    def content(self, format: str) -> bytes:
        """
        Give the content of one of the capture's files.

        :param format: one of :data:`FORMATS` but for the page, which may show several captures.
        :returns: for ``txt`` what the cluster sent, byte for byte; for ``json`` the report in ASCII; for ``folded`` a
            line a stack.
        :raises ValueError: for any other format.
        """
        if format == "txt":
            return self.text.encode("utf-8", "surrogateescape")
        if format == "json":
            return json.dumps(self.report.to_dict(), indent=1, allow_nan=False).encode("ascii")
        if format == "folded":
            from airflow_provider_mediaops.cluster.folded import folded

            return folded([self.report]).encode()
        raise InvalidArgumentError(f"format is txt, json or folded for a single capture; not {format!r}.")

    def summary(self) -> dict[str, Any]:
        """
        Give the capture in a few plain values, small enough for XCom.

        :returns: ``bytes`` of the text; ``nodes`` with the number of their threads; ``cpu`` of the nodes, the highest
            first, None where it is not known; the ``hottest`` threads; ``missing`` nodes; how many pieces were
            ``unparsed``; and how many entries of which list are ``left_out``.
        """
        nodes = self.report.nodes
        threads = [(node, thread) for node in nodes for thread in node.threads if thread.share is not None]
        threads.sort(key=lambda pair: -(pair[1].share or 0.0))
        busy = None if self.stats is None else sorted(self.stats.nodes, key=lambda node: -(node.percent or 0.0))
        lists = {"nodes": nodes, "cpu": busy or (), "missing": (missing := self.missing)}
        return {
            "bytes": len(self.content("txt")),
            "nodes": [{"node": _label(node), "threads": len(node.threads)} for node in nodes[:_LISTED]],
            "cpu": None if busy is None else [_cpu(node) for node in busy[:_LISTED]],
            "hottest": [
                {"node": _label(node), "percent": thread.share, "thread": _name(thread.name)}
                for node, thread in threads[:_HOTTEST]
            ],
            "missing": [_name(name) for name in missing[:_LISTED]],
            "unparsed": len(self.report.unparsed),
            "left_out": {name: len(entries) - _LISTED for name, entries in lists.items() if len(entries) > _LISTED},
        }

    def warnings(self) -> list[str]:
        """
        Say in sentences what a person should know of this capture.

        :returns: the remarks, missing nodes, and pieces of the text that were not understood.
        """
        warnings = list(self._remarks())
        if unparsed := self.report.unparsed:
            first = unparsed[0]
            warnings.append(
                f"Parts of the report were not understood ({len(unparsed)}) and are kept as they came; the first: line "
                f"{first.line}, {first.reason}."
            )
        return warnings

    def _remarks(self) -> tuple[str, ...]:
        if not self.missing:
            return self.remarks
        what = "A node that does not exist, failed, or did not answer within timeout has no section in it."
        return (*self.remarks, f"Not in the report: {name_some(self.missing)}. {what}")

    def shown(self, path: str | None = None) -> PageCapture:
        """
        Give the capture as the page shows it.

        :param path: where the whole text is kept.
        :returns: one of the captures of :func:`~airflow_provider_mediaops.cluster.page.document.page`.
        """
        from airflow_provider_mediaops.cluster.page.document import PageCapture

        cpu = None if self.stats is None else self.stats.nodes
        return PageCapture(self.text, self.report, self.taken, cpu, self._remarks(), path)


@dataclass(frozen=True, slots=True)
class CaptureDestination:
    """
    Where the captures of a spike go.

    :param path: the path of the text; its suffix is exchanged for each format's own.
    :param formats: any of :data:`FORMATS`, each once.
    :param captures: how many captures there will be; the files of several are numbered.
    :raises ValueError: for an unknown format, none at all, or a destination that names no file.
    """

    path: str
    formats: str | Sequence[str]
    captures: int = 1

    def __post_init__(self) -> None:
        self.paths(1)

    def paths(self, number: int) -> dict[str, str]:
        """
        Name the files of a capture.

        :param number: its place in the series, from 1 on.
        :returns: a path for each format.
        """
        return capture_paths(self.path, self.formats, number if self.captures > 1 else None)

    def page(self, captures: Mapping[int, Capture]) -> bytes:
        """
        Give the page that shows a capture, or compares several.

        :param captures: the captures by their numbers, one at least.
        :returns: a file that needs nothing else.
        """
        from airflow_provider_mediaops.cluster.page.document import page

        stats = next(iter(captures.values())).stats
        whose = f" of {stats.cluster_name}" if stats and stats.cluster_name else ""
        shown = [capture.shown(self.paths(number).get("txt")) for number, capture in captures.items()]
        return page(shown, title=f"Hot threads{whose}").encode()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def take_capture(
    ask: Ask, query: HotThreadsQuery, reading: Reading | None = None, *, now: Callable[[], datetime] = _now
) -> Conversation[Capture]:
    """
    Ask for the CPU of the nodes, unless it has just been read, then for their hot threads.

    The CPU is an extra: where the cluster refuses it, or fails to give it, the capture is taken all the same.

    :param ask: makes a conversation of a call.
    :param query: which hot threads.
    :param reading: what has just been read; then nothing is asked before the hot threads.
    :param now: the time.
    :returns: a conversation whose result is the capture.
    :raises ReplyTimeoutError: where none of the nodes that were asked for by name is in the report.
    :raises MediaOpsError: where the cluster gives no hot threads.
    """
    if reading is None:
        reading = yield from _read_cpu(ask, query)
    call, taken = query.call(), now()
    try:
        text = yield from ask(call)
    except (NotFoundError, InvalidReplyError) as error:
        if error.reason != EMPTY_REPORT or reading.stats is None:
            raise
        raise _no_answer(query, reading.stats, error.context()) from error
    capture = Capture(text, node_list(query.nodes), reading.stats, reading.remarks, taken)
    # A large report is not to be searched on an event loop.
    if capture.selectors and (yield Blocking(lambda: capture.is_vain)):
        about = {"service": "search cluster", "method": call.request.method, "path": call.request.path}
        raise _no_answer(query, reading.stats, about)
    return capture


@dataclass(frozen=True, slots=True)
class Reading:
    """
    The CPU of the nodes, read right before a capture.

    :param stats: the statistics; None where the cluster did not give them.
    :param remarks: what a person should know of them.
    """

    stats: NodeStats | None
    remarks: tuple[str, ...] = ()


def _read_cpu(ask: Ask, query: HotThreadsQuery) -> Conversation[Reading]:
    try:
        stats = yield from ask(node_stats(query.nodes))
    except (AuthenticationError, ConnectionFailedError):
        raise
    except MediaOpsError as error:
        return Reading(None, (f"The capture is without the nodes' CPU: {error.message}",))
    return Reading(stats, tuple(f"A node did not give its statistics: {failure}." for failure in stats.failures))


def _no_answer(query: HotThreadsQuery, stats: NodeStats | None, about: dict[str, Any]) -> ReplyTimeoutError:
    nodes = [node.label for node in stats.nodes] if stats else node_list(query.nodes) or ()
    return ReplyTimeoutError(
        f"None of the nodes ({name_some(nodes)}) reported its hot threads within timeout={query.timeout}. Raise "
        "timeout if they are that busy.",
        **about,
    )


def _plain(selectors: Sequence[str] | None) -> list[str]:
    # What only the cluster can resolve cannot be compared.
    return [entry for entry in selectors or () if not (entry.startswith("_") or set("*?:") & set(entry))]


def _cpu(node: NodeCpu) -> dict[str, Any]:
    return {"node": _name(node.label), "percent": node.percent, "source": node.source}


def _label(node: HotNode) -> str | None:
    return _name(node.name or node.node_id or node.header)


def _names(node: HotNode) -> list[str]:
    address = node.address or ""
    names = (node.node_id, node.name, node.host, address, address.rpartition(":")[0])
    return [name for name in names if name]


def storable(text: str, longest: int) -> str:
    """
    Make of a text one that any database takes.

    :param text: whatever a cluster sent.
    :param longest: how many characters are kept.
    :returns: the text, with a sign in the place of what is no character: NUL, and surrogates, which stand for bytes
        that are no UTF-8.
    """
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text[:longest])


def _name(text: str | None) -> str | None:
    return text and storable(text, _LONGEST_NAME)
