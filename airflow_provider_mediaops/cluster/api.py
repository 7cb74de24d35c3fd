"""Calls of the search cluster as values: requests, and functions that parse replies and errors. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow_provider_mediaops.cluster.errors import EMPTY_REPORT, SERVICE
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.plain_values import mapping_of
from airflow_provider_mediaops.cluster.query import QUERY_DEFAULTS, HotThreadsQuery, node_list
from airflow_provider_mediaops.exceptions import (
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.exchange import Call, Request, Response, Wait, escape_segment
from airflow_provider_mediaops.http.reply import looks_like_html, plain_text, read_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import CpuMeasure
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow

T = TypeVar("T")

_JSON = {"Accept": "application/json"}
# The maximum number of failed nodes in a message.
_MOST_FAILURES = 20
# Each node's section of a report begins so, on a line of its own, in every version.
_SECTION = re.compile(rb"^[ \t]*:::[ \t]*[{\[]", re.MULTILINE)
#: The pause between two readings of counters: the servers measure once a second, and return the same until then.
BETWEEN_SECONDS = 1.1
# The measures for which counters are read.
_BY_COUNTERS = ("auto", "cgroup")
# A node in trouble may be slow, and the report is at hand.
MOST_SECONDS_FOR_COUNTERS = 2.0


def _path(nodes: tuple[str, ...] | None, what: str) -> str:
    return f"/_nodes/{escape_segment(','.join(nodes))}/{what}" if nodes else f"/_nodes/{what}"


def hot_threads(query: HotThreadsQuery) -> Call[str]:
    """
    Return the call for the report, as it was sent, with a surrogate for each byte that is not UTF-8.

    Only values that differ from the default are sent: versions differ in the parameters that they know, and refuse
    others.
    """
    given = {name: getattr(query, name) for name in QUERY_DEFAULTS if name != "nodes"}
    request = Request(
        "GET",
        _path(node_list(query.nodes), "hot_threads"),
        params=tuple((name, _word(value)) for name, value in given.items() if value != QUERY_DEFAULTS[name]),
        headers={"Accept": "text/plain, */*;q=0.5"},
        read_timeout=query.read_timeout,
        max_bytes=None,
        kind="hot_threads",
    )
    return Call(request, lambda response: _read_text(query, request, response))


def _read_text(query: HotThreadsQuery, request: Request, response: Response) -> str:
    # No copy is made of a body that may be large.
    if not response.body or response.body.isspace():
        why = f"Nodes that do not answer within timeout={query.timeout} are left out of it."
        if query.nodes is None:
            raise InvalidReplyError(f"The report is empty. {why}", reason=EMPTY_REPORT)
        raise NotFoundError(
            f"The {SERVICE} answered with an empty report. {why} Or it knows no node "
            f"{_named(node_list(query.nodes))}, or they cannot measure their threads.",
            reason=EMPTY_REPORT,
            **_about(request, response),
        )
    # The content type counts for nothing: some servers and proxies label the text as JSON, or not at all.
    if looks_like_html(response):
        raise InvalidReplyError("The reply is a web page where a plain-text report was expected.")
    if not _SECTION.search(response.body):
        raise InvalidReplyError("The reply is no report of hot threads: no line begins a node's section.")
    return response.text


def measuring(ask: Ask, measure: CpuMeasure) -> Ask:
    """
    Return what asks for the CPU of nodes by a measure, and for all else as before.

    The CPU of containers with a limit is asked for twice, a second apart: the servers only count what they use.
    """

    def asked(call: Call[T]) -> CallFlow[T]:
        result = yield from ask(call)
        if not isinstance(result, NodeStats):
            return result
        stats: NodeStats = result
        before = None
        if measure in _BY_COUNTERS and any(figures.cores for figures in stats.figures.values()):
            yield Wait(BETWEEN_SECONDS)
            before, stats = stats, cast("NodeStats", (yield from ask(call)))
        return cast("T", stats.measured(measure, before))

    return asked


def node_stats(nodes: str | Sequence[str] | None = None) -> Call[NodeStats]:
    """
    Return the call for the CPU of nodes, from the statistics of their machine, process and container.

    It raises NotFoundError if no node is meant, ServiceUnavailableError if none answered; an empty list of nodes is an
    InvalidArgumentError at once.
    """
    selectors = node_list(nodes)
    request = Request("GET", _path(selectors, "stats/os,process"), headers=_JSON, kind="cpu")

    def parse(response: Response) -> NodeStats:
        body = read_json(response)
        if not isinstance(body.get("nodes"), dict):
            raise InvalidReplyError("The reply holds no nodes.")
        return _checked(NodeStats.read(body), selectors, request, response)

    return Call(request, parse)


def node_counters(nodes: str | Sequence[str] | None = None) -> Call[Mapping[str, Any]]:
    """Ask once, and not for long, for the heap, the collectors, the thread pools and the cgroup of nodes."""
    request = Request(
        "GET",
        _path(node_list(nodes), "stats/os,jvm,thread_pool"),
        headers=_JSON,
        kind="statistics",
        is_retried=False,
        max_seconds=MOST_SECONDS_FOR_COUNTERS,
    )
    return Call(request, lambda response: mapping_of(read_json(response).get("nodes")))


def cluster_version() -> Call[str | None]:
    """Ask for product and version, such as ``OpenSearch 2.19.1``, with the permission ``cluster:monitor/main``."""
    request = Request("GET", "/", headers=_JSON, is_retried=False, kind="version")
    return Call(request, lambda response: _read_version(response, read_json(response)))


def _read_version(response: Response, body: Mapping[str, Any]) -> str | None:
    version = body.get("version")
    if not isinstance(version, dict) or not isinstance(number := version.get("number"), str):
        return None
    distribution = version.get("distribution")
    if isinstance(distribution, str):
        return f"{'OpenSearch' if distribution == 'opensearch' else distribution} {number}"
    # Elasticsearch names itself in a header since 7.14.
    product = response.headers.get("x-elastic-product")
    return f"{product} {number}" if product else number


def _checked(stats: NodeStats, selectors: tuple[str, ...] | None, request: Request, response: Response) -> NodeStats:
    if stats.failures:
        # They are logged even if other nodes have answered, and may quote a credential.
        failures = (plain_text(failure, response.secrets) for failure in stats.failures[:_MOST_FAILURES])
        stats = replace(stats, failures=tuple(failures))
    if not stats.nodes:
        raise no_node_error(stats, selectors, **_about(request, response))
    return stats


def no_node_error(stats: NodeStats, selectors: tuple[str, ...] | None, **about: Any) -> MediaOpsError:
    """Make the error of statistics without a node: those that were asked for have failed, or there are none."""
    if stats.failed:
        why = f"({stats.failed:,} failed): {plain_text(stats.reasons)}"
        return ServiceUnavailableError(f"No node of the {SERVICE} gave its statistics {why}.", **about)
    if selectors:
        message = f"The {SERVICE} knows no node {_named(selectors)}: check nodes, which takes names and ids."
        return NotFoundError(message, **about)
    return InvalidReplyError("The reply names no node.")


def _named(selectors: Sequence[str] | None) -> str:
    return " or ".join(map(repr, selectors or ()))


def _about(request: Request, response: Response) -> dict[str, Any]:
    return {"service": SERVICE, "method": request.method, "path": request.path, "status": response.status}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def probe(ask: Ask) -> CallFlow[NodeStats]:
    """Ask one node for its statistics, which are the result, and for its hot threads; each needs a privilege."""
    stats, refusals = None, []
    try:
        stats = yield from ask(node_stats("_local"))
    except PermissionDeniedError as error:
        refusals.append(("its nodes' statistics (cluster:monitor/nodes/stats)", error))
    try:
        yield from ask(hot_threads(HotThreadsQuery("_local", interval="10ms", snapshots=1, threads=1)))
    except PermissionDeniedError as error:
        refusals.append(("hot threads (cluster:monitor/nodes/hot_threads)", error))
    if stats and not refusals:
        return stats
    denied = " nor ".join(what for what, _ in refusals)
    allowed = f"may read neither {denied}" if len(refusals) > 1 else f"may not read {denied}, only the other of the two"
    first = refusals[0][1]
    raise PermissionDeniedError(f"The connection's user {allowed}. {first.message}", **first.context())
