"""Put listed tasks together: those of one request, and requests of one kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.running_tasks.description_parser import query_of
from airflow_provider_mediaops.cluster.running_tasks.model import TaskGroup
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.running_tasks.model import Seen
    from airflow_provider_mediaops.cluster.running_tasks.replies import Task
    from airflow_provider_mediaops.cluster.running_tasks.sampling import Look
    from airflow_provider_mediaops.cluster.running_tasks.task_cpu import TaskHistory, Window

_LONGEST_NAMES = 200
_LONGEST_QUERY = 4_000
# Instead of the names of clients that send nothing but a UUID, another one with each request.
_UUIDS = "(UUIDs)"
# The chains of tasks that start tasks are short; a longer one is a fault of the reply.
_LONGEST_CHAIN = 8
# Requests that do not say so are compared with a few lists of indices that others have named, and with short ones only.
_MOST_EXPRESSIONS, _LONGEST_EXPRESSION = 5, 500
# The pool in which tasks of an action run, by the start of its name; the longest start counts.
_POOLS = {
    "indices:data/read/": "search",
    "indices:data/read/esql": "esql_worker",
    "indices:data/read/get": "get",
    "indices:data/read/mget": "get",
    "indices:data/write/": "write",
    # They search, and write what they have found.
    "indices:data/write/update/byquery": "search, write",
    "indices:data/write/delete/byquery": "search, write",
    "indices:data/write/reindex": "search, write",
    "indices:admin/forcemerge": "force_merge",
    "indices:admin/refresh": "refresh",
    "indices:admin/flush": "flush",
}


@dataclass(slots=True)
class RequestTasks:
    """The tasks of one request on one node."""

    root: Task  # the topmost task that is known of it, on whatever node
    tasks: list[TaskHistory] = field(default_factory=list)
    query: str | None = None  # as it was sent; None if no task that has it is known

    @property
    def opaque_id(self) -> str | None:
        """The ``X-Opaque-Id`` of the request."""
        return next((task.opaque_id for task in self.known if task.opaque_id), None)

    @property
    def client(self) -> str | None:
        """The same without a UUID at its start; empty if it is one."""
        return next((task.client for task in self.known if task.opaque_id), None)

    @property
    def expression(self) -> str | None:
        """The indices as the client named them; None if no task that says so is known."""
        return next((task.expression for task in self.known if task.expression), None)

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices whose shards its tasks work on."""
        return tuple(sorted({history.last.index for history in self.tasks if history.last.index}))

    @property
    def known(self) -> list[Task]:
        """All that is known of it: the topmost task, and those on the node as they were listed last."""
        return [self.root, *(history.last for history in self.tasks)]


def requests_of(histories: Mapping[str, TaskHistory], ancestors: Mapping[str, Task]) -> list[RequestTasks]:
    """Put the tasks of a node together that one request has started."""
    known = {**ancestors, **{task_id: history.last for task_id, history in histories.items()}}
    requests: dict[str, RequestTasks] = {}
    for history in histories.values():
        chain = [history.last]
        while (parent := known.get(chain[-1].parent_id or "")) and len(chain) < _LONGEST_CHAIN:
            chain.append(parent)
        # Tasks whose common parent is not known belong together by its id.
        request = requests.setdefault(chain[-1].parent_id or chain[-1].task_id, RequestTasks(chain[-1]))
        request.tasks.append(history)
        texts = (query_of(task.kind, task.description) for task in chain)
        request.query = request.query or next((text for text in texts if text), None)
    return list(requests.values())


@dataclass(slots=True)
class GroupedRequests:
    """Requests of one kind on one node."""

    shape: str | None  # of their query
    index: str | None  # the indices that they name
    requests: list[RequestTasks]

    @property
    def histories(self) -> list[TaskHistory]:
        """Their tasks on the node."""
        return [history for request in self.requests for history in request.tasks]


def grouped(requests: Sequence[RequestTasks], shape_of: Callable[[str], str]) -> list[GroupedRequests]:
    """
    Put requests of one kind together: of one action, client and index, and with one shape as far as it is known.

    Requests whose query is not known are in the group of the others, if these have one shape.
    """
    expressions = _expressions(requests)
    # Thousands of requests may work on the same few indices.
    named_for = cache(lambda kind, client, indices: _named_for(indices, expressions[kind, client]))
    kinds: dict[tuple[str, str | None, str | None], list[RequestTasks]] = defaultdict(list)
    for request in requests:
        kind, client = request.root.kind, request.client
        index = request.expression or named_for(kind, client, request.indices)
        kinds[kind, client, index].append(request)
    groups = []
    for (_, _, index), alike in kinds.items():
        by_shape: dict[str | None, list[RequestTasks]] = defaultdict(list)
        for request in alike:
            by_shape[shape_of(request.query) if request.query else None].append(request)
        if len(by_shape) == 2 and None in by_shape:  # noqa: PLR2004 one shape, and requests without any
            unknown = by_shape.pop(None)
            next(iter(by_shape.values())).extend(unknown)
        groups += [GroupedRequests(shape, index, found) for shape, found in by_shape.items()]
    return groups


def _expressions(requests: Iterable[RequestTasks]) -> dict[tuple[str, str | None], list[str]]:
    """Return the first short lists of indices as clients named them, by action and client."""
    found: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for request in requests:
        named, known = request.expression, found[request.root.kind, request.client]
        if named and len(named) <= _LONGEST_EXPRESSION and named not in known and len(known) < _MOST_EXPRESSIONS:
            known.append(named)
    return found


def _named_for(indices: tuple[str, ...], expressions: Iterable[str]) -> str | None:
    """Return the only expression that stands for some indices, else the indices themselves."""
    fitting = [
        expression
        for expression in expressions
        if indices and all(any(fnmatchcase(index, name) for name in expression.split(",")) for index in indices)
    ]
    return fitting[0] if len(fitting) == 1 else ",".join(indices) or None


def task_group(
    group: GroupedRequests, looks: Sequence[Look], window: Window | None, hot_ms: float | None, *, shows_query: bool
) -> TaskGroup:
    """
    Return a group as it is written.

    ``hot_ms`` is the CPU of all hot threads of the node within the window of the report; None if either is not known.
    """
    first = group.requests[0]
    cpu_ms = cpu_of(group, window)
    running, queued = _counts(group)
    query = next((request.query for request in group.requests if request.query), None)
    ids = {request.opaque_id for request in group.requests}
    opaque_id = first.client or (first.opaque_id if len(ids) == 1 else _UUIDS)
    return TaskGroup(
        action=first.root.kind,
        opaque_id=opaque_id and storable(opaque_id, _LONGEST_NAMES),
        index=group.index and storable(group.index, _LONGEST_NAMES),
        shape=group.shape and storable(group.shape, len(group.shape)),
        query=storable(query, _LONGEST_QUERY) if query and shows_query else None,
        seen=_seen(group, looks),
        requests=len(group.requests),
        read_requests=sum(request.query is not None for request in group.requests),
        running=running,
        queued=queued,
        longest_ms=round(max(task.running_ms for request in group.requests for task in request.known), 1),
        cpu_ms=None if cpu_ms is None else round(cpu_ms, 1),
        cpu_share_percent=None if cpu_ms is None or not hot_ms else round(min(100.0, 100.0 * cpu_ms / hot_ms), 1),
        pool=_pool_of(first.root.kind),
    )


def cpu_of(group: GroupedRequests, window: Window | None) -> float | None:
    """Return the CPU of a group's tasks within a window, in milliseconds; None if the cluster does not say."""
    if window is None or not group.requests[0].root.kind.startswith("indices:data/read/"):
        return None
    used = [history.cpu_within(window) for history in group.histories]
    known = [cpu_ms for cpu_ms in used if cpu_ms is not None]
    return sum(known) if known else None


def _seen(group: GroupedRequests, looks: Sequence[Look]) -> Seen:
    moments = {looks[number].moment for history in group.histories for number in history.marks}
    if moments >= {"start", "end"}:
        return "both"
    if "start" in moments:
        return "start"
    return "end" if "end" in moments else "between"


def _counts(group: GroupedRequests) -> tuple[int, int | None]:
    """Return the largest numbers of tasks at one look that ran, and that waited for a thread."""
    running: Counter[int] = Counter()
    queued: Counter[int] = Counter()
    says = False
    for request in group.requests:
        parents = _listed_parents(request)
        for history in request.tasks:
            for number, mark in history.marks.items():
                # A task that only waits for its own children at this look is not counted beside them.
                if (number, mark.task_id) in parents:
                    continue
                says = says or (mark.is_search_phase and mark.executions is not None)
                waits = mark.is_search_phase and mark.executions == 0
                (queued if waits else running)[number] += 1
    return max(running.values(), default=0), (max(queued.values(), default=0) if says else None)


def _listed_parents(request: RequestTasks) -> set[tuple[int, str]]:
    return {
        (number, mark.parent_id)
        for history in request.tasks
        for number, mark in history.marks.items()
        if mark.parent_id
    }


def _pool_of(action: str) -> str | None:
    starts = [start for start in _POOLS if action.startswith(start)]
    return _POOLS[max(starts, key=len)] if starts else None
