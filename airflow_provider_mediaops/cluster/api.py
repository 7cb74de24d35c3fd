"""The search cluster's calls and errors, as values (search-cluster.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_flag, read_texts, read_whole_number, shown
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidArgumentError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ReplyTimeoutError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request, Response, escape_segment
from airflow_provider_mediaops.http.reply import looks_like_html, plain_text, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.cluster.models import NodeStats

#: What hot threads can sample.
SAMPLING_TYPES = ("cpu", "wait", "block")
#: The reason in an error about a report without a word in it.
EMPTY_REPORT = "emptyReport"

_SERVICE = "search cluster"
# The most failures of nodes that are shown of one reply.
_MOST_FAILURES = 20
_JSON_OBJECT = re.compile(rb"\s*\{")
_TIME = re.compile("([0-9]{1,18})(nanos|micros|ms|s|m|h|d)")
_SECONDS = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# What is beyond is a fault.
_MOST_CORES = 100_000
# A call queues behind others on the same node, and takes 10 ms a snapshot beside what it is asked to take.
_MARGIN = 10.0
# Some thirty years: sockets take no figure beyond ten times of that.
_LONGEST = 1e9


def node_list(nodes: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """
    Read a list of nodes as the service takes it (section 4, ``node_id``).

    :param nodes: ids, names or filters, in a list or in one text with commas; None for all nodes.
    :returns: the entries; None for all nodes.
    :raises ValueError: for a list without entries, which the service would take for all nodes.
    """
    if nodes is None:
        return None
    named = read_texts("nodes", nodes)
    # They would lead the request to another path.
    if {".", ".."} & set(named):
        raise InvalidArgumentError(f"nodes holds names or ids of nodes; not {shown(nodes)}.")
    return named


def _path(nodes: tuple[str, ...] | None, what: str) -> str:
    return f"/_nodes/{escape_segment(','.join(nodes))}/{what}" if nodes else f"/_nodes/{what}"


@dataclass(frozen=True, slots=True)
class HotThreadsQuery:
    """
    Which hot threads to report, and how to find them (section 4).

    :param nodes: ids or names of nodes, in a list or in one text with commas; None for all.
    :param ignore_idle_threads: whether known idle threads are left out.
    :param interval: the time between the samplings: a whole number and a unit (nanos, micros, ms, s, m, h, d).
    :param snapshots: how many samples are taken of each thread's stack.
    :param threads: how many threads are reported for each node; a large number reports all.
    :param type: ``cpu``, ``wait`` or ``block``.
    :param master_timeout: how long the cluster may look for its master.
    :param timeout: how long it may wait for its nodes.
    :raises ValueError: for what the service would refuse.
    """

    nodes: str | Sequence[str] | None = None
    ignore_idle_threads: bool = True
    interval: str = "500ms"
    snapshots: int = 10
    threads: int = 3
    type: str = "cpu"
    master_timeout: str = "30s"
    timeout: str = "30s"

    def __post_init__(self) -> None:
        node_list(self.nodes)
        object.__setattr__(self, "ignore_idle_threads", read_flag("ignore_idle_threads", self.ignore_idle_threads))
        for name in ("snapshots", "threads"):
            object.__setattr__(self, name, read_whole_number(name, getattr(self, name), minimum=1))
        for name in ("interval", "master_timeout", "timeout"):
            _seconds(name, getattr(self, name))
        if self.type not in SAMPLING_TYPES:
            raise InvalidArgumentError(f"type is one of {', '.join(SAMPLING_TYPES)}; not {self.type!r}.")

    @property
    def read_timeout(self) -> float:
        """Seconds that a client has to wait for the reply: never fewer than the cluster was asked to take."""
        interval, master, nodes = (
            _seconds(name, getattr(self, name)) for name in ("interval", "master_timeout", "timeout")
        )
        return min(interval * self.snapshots + master + nodes + _MARGIN, _LONGEST)

    def call(self) -> Call[str]:
        """
        Make the call for the report.

        Only what differs from the service's default is sent: not every version knows every parameter, and unknown
        ones are refused.

        :returns: the call; its result is the text as it was sent, with a surrogate for each byte that is no UTF-8.
        """
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "nodes"}
        defaults = {field.name: field.default for field in fields(self)}
        request = Request(
            "GET",
            _path(node_list(self.nodes), "hot_threads"),
            params=tuple((name, _word(value)) for name, value in given.items() if value != defaults[name]),
            headers={"Accept": "text/plain, */*;q=0.5"},
            read_timeout=self.read_timeout,
            large_reply=True,
        )
        return Call(request, lambda response: self._read(request, response))

    def _read(self, request: Request, response: Response) -> str:
        # No copy is made of a body that may be large.
        if response.body and not response.body.isspace():
            return _read_report(response)
        if self.nodes is None:
            raise InvalidReplyError(f"The report is empty. {self._why_empty}", reason=EMPTY_REPORT)
        raise NotFoundError(
            f"The {_SERVICE} knows no node {_names(node_list(self.nodes))}, or they cannot measure their threads: it "
            f"answered with an empty report. {self._why_empty}",
            reason=EMPTY_REPORT,
            **_about(request, response),
        )

    @property
    def _why_empty(self) -> str:
        return f"Nodes that do not answer within timeout={self.timeout} are left out of it, too."


def _read_report(response: Response) -> str:
    # The content type is not looked at: servers and proxies are known to label the text as JSON, or not at all.
    if looks_like_html(response):
        raise InvalidReplyError("The reply is a web page where a plain-text report was expected.")
    if _JSON_OBJECT.match(response.body):
        try:
            read_json(response)
        except InvalidReplyError:
            pass
        else:
            raise InvalidReplyError("The reply is JSON where a plain-text report was expected.")
    return response.text


def node_stats(nodes: str | Sequence[str] | None = None) -> Call[NodeStats]:
    """
    Ask for the CPU of nodes, by the statistics of their machine and process.

    :param nodes: ids, names or filters, in a list or in one text with commas; None for all nodes.
    :returns: the call; it raises NotFoundError where no node is meant, ServiceUnavailableError where none answered.
    :raises ValueError: for an empty list.
    """
    selectors = node_list(nodes)
    request = Request("GET", _path(selectors, "stats/os,process"), headers={"Accept": "application/json"})
    return Call(request, lambda response: _read_stats(selectors, request, response))


def node_cores(nodes: str | Sequence[str] | None = None) -> Call[dict[str, int]]:
    """
    Ask once for the number of processors of nodes; it needs the permission ``cluster:monitor/nodes/info``.

    :param nodes: ids, names or filters, in a list or in one text with commas; None for all nodes.
    :returns: the call; its result is the number by node id, for the nodes that give it.
    :raises ValueError: for an empty list.
    """
    headers, path = {"Accept": "application/json"}, _path(node_list(nodes), "os")
    request = Request("GET", path, (("timeout", "5s"),), headers, is_retried=False)
    return Call(request, lambda response: _read_cores(read_json(response)))


def _read_cores(body: Mapping[str, Any]) -> dict[str, int]:
    nodes: Any = body.get("nodes")
    cores: dict[str, int] = {}
    for node_id, node in nodes.items() if isinstance(nodes, dict) else ():
        machine = node.get("os") if isinstance(node, dict) else None
        if not isinstance(machine, dict):
            continue
        # Allocated are those that the node's settings let it use; a thread may use any of the available ones.
        for name in ("available_processors", "allocated_processors"):
            if type(number := machine.get(name)) is int and 0 < number <= _MOST_CORES:
                cores[node_id] = number
                break
    return cores


def _read_stats(selectors: tuple[str, ...] | None, request: Request, response: Response) -> NodeStats:
    from airflow_provider_mediaops.cluster.models import NodeStats

    body = read_json(response)
    if not isinstance(body.get("nodes"), dict):
        raise InvalidReplyError("The reply holds no nodes.")
    stats = NodeStats.read(body)
    if stats.failures:
        stats = replace(stats, failures=_shown(stats.failures, response.secrets))
    if stats.nodes:
        return stats
    if stats.failures:
        raise ServiceUnavailableError(
            f"No node of the {_SERVICE} gave its statistics: {plain_text('; '.join(stats.failures))}.",
            **_about(request, response),
        )
    if selectors:
        raise NotFoundError(
            f"The {_SERVICE} knows no node {_names(selectors)}: check nodes, which takes names and ids.",
            **_about(request, response),
        )
    raise InvalidReplyError("The reply tells of no node.")


def _names(selectors: Sequence[str] | None) -> str:
    return " or ".join(repr(selector) for selector in selectors or ())


def _shown(failures: tuple[str, ...], secrets: tuple[str, ...]) -> tuple[str, ...]:
    # They are logged, even if other nodes have answered.
    shown = [plain_text(failure, secrets) for failure in failures[:_MOST_FAILURES]]
    rest = len(failures) - len(shown)
    return (*shown, *([f"{rest} more"] if rest > 0 else []))


def _about(request: Request, response: Response) -> dict[str, Any]:
    return {"service": _SERVICE, "method": request.method, "path": request.path, "status": response.status}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seconds(name: str, time: object) -> float:
    match = _TIME.fullmatch(time) if isinstance(time, str) else None
    if match is None:
        raise InvalidArgumentError(
            f"{name} is a whole number with a unit (nanos, micros, ms, s, m, h or d), such as '500ms'; not {time!r}."
        )
    return int(match[1]) * _SECONDS[match[2]]


_TIMED_OUT: dict[str, type[MediaOpsError]] = dict.fromkeys(
    (
        "receive_timeout_transport_exception",
        "process_cluster_event_timeout_exception",
        "timeout_exception",
        "elasticsearch_timeout_exception",
        "opensearch_timeout_exception",
    ),
    ReplyTimeoutError,
)

#: How the search cluster says no (section 7, and the errors of Elasticsearch and OpenSearch). ``security_exception``
#: is told apart by its status: 401 for the credentials, 403 for their rights.
CLUSTER_RULES = ErrorRules(
    service=_SERVICE,
    by_reason={
        **_TIMED_OUT,
        "master_not_discovered_exception": ServiceUnavailableError,
        "cluster_manager_not_discovered_exception": ServiceUnavailableError,
        "circuit_breaking_exception": ServiceUnavailableError,
        "es_rejected_execution_exception": RateLimitedError,
        "rejected_execution_exception": RateLimitedError,
    },
    advice={
        "master_not_discovered_exception": "The cluster has no master; it is tried again after a pause. Raise "
        "master_timeout if it needs longer to elect one.",
        "cluster_manager_not_discovered_exception": "The cluster has no manager; it is tried again after a pause. "
        "Raise master_timeout if it needs longer to elect one.",
        "circuit_breaking_exception": "The node is short of memory; it is tried again after a pause.",
        "illegal_argument_exception": "Correct the parameter; one that this version of the cluster does not know is "
        "left out by keeping its default.",
    },
    advice_by_class={
        AuthenticationError: "Check login and password (API key or token), and auth, in the connection.",
        PermissionDeniedError: "Give the connection's user the cluster privilege monitor or manage, which allow "
        "cluster:monitor/nodes/hot_threads and cluster:monitor/nodes/stats.",
        ReplyTimeoutError: "The nodes did not answer in time; it is tried again. Raise timeout (and master_timeout) if "
        "they need longer.",
        NotFoundError: "Check the base address in the connection: the cluster's routes are not there.",
    },
)
