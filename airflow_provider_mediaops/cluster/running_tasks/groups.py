"""Put the listed tasks of a node together, by request and by kind of request, with the CPU that they used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.running_tasks.descriptions import query_of
from airflow_provider_mediaops.cluster.running_tasks.model import TaskGroup
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.running_tasks.model import Seen
    from airflow_provider_mediaops.cluster.running_tasks.replies import Task
    from airflow_provider_mediaops.cluster.running_tasks.sampling import Look, Moment, TaskSampling

# A look so near to an end of the window stands for it. Measured: threads get less CPU than otherwise while a node takes
# its readings and lists its tasks, so that a figure which is carried on at the usual rate is farther off.
_NEAR_MS = 20.0
_LONGEST_NAMES = 200
_LONGEST_QUERY = 4_000
# Instead of the names of clients that send nothing but a UUID, another one with each request.
_UUIDS = "(UUIDs)"
# The chains of tasks that start tasks are short; a longer one is a fault of the reply.
_LONGEST_CHAIN = 8
# Requests that do not say so are compared with a few lists of indices that others have named, and with short ones only.
_MOST_EXPRESSIONS, _LONGEST_EXPRESSION = 5, 500
_READS = "indices:data/read/"
# The pool in which tasks of an action run, by the start of its name; the first that fits counts.
_POOLS = {
    f"{_READS}esql": "esql_worker",
    f"{_READS}get": "get",
    f"{_READS}mget": "get",
    _READS: "search",
    # They search, and write what they have found.
    "indices:data/write/update/byquery": "search, write",
    "indices:data/write/delete/byquery": "search, write",
    "indices:data/write/reindex": "search, write",
    "indices:data/write/": "write",
    "indices:admin/forcemerge": "force_merge",
    "indices:admin/refresh": "refresh",
    "indices:admin/flush": "flush",
}


@dataclass(slots=True)
class TaskHistory:
    """A task over all looks."""

    # The task at each look at which it was listed, by the number of the look, from 0 on, in order.
    marks: dict[int, Task] = field(default_factory=dict)

    @property
    def last(self) -> Task:
        """The task as it was listed last."""
        return next(reversed(self.marks.values()))

    def fills(self, window: tuple[float, float]) -> bool:
        """Return whether one thread worked for it from the start of a window to its end."""
        start_ms, end_ms = window
        return (
            all(mark.executions == 1 and mark.active_threads == 1 for mark in self.marks.values())
            and self.last.started_ms <= start_ms
            and self.last.listed_at_ms >= end_ms - _NEAR_MS
        )

    def cpu_within(self, window: tuple[float, float]) -> float | None:
        """
        Return its CPU within a window, in milliseconds; None if the cluster does not say.

        Of a task that ended within the window, it is too low: only its CPU at the last look is known.
        """
        points = [(mark.listed_at_ms, mark.cpu_ms) for mark in self.marks.values() if mark.cpu_ms is not None]
        if not points:
            return None
        at_start, at_end = (self._cpu_at(when_ms, points) for when_ms in window)
        return max(0.0, at_end - at_start)

    def _cpu_at(self, when_ms: float, points: list[tuple[float, float]]) -> float:
        near_ms, near = min((abs(at - when_ms), figure) for at, figure in points)
        if self.last.started_ms >= when_ms:
            return 0.0
        return near if near_ms <= _NEAR_MS else _between([(self.last.started_ms, 0.0), *points], when_ms)


def _between(points: list[tuple[float, float]], when: float) -> float:
    """Return a figure that grows evenly from point to point, at a time; after the last point it stays."""
    before_at, before = points[0]
    for at, figure in points[1:]:
        if when <= at:
            return before + (figure - before) * (when - before_at) / (at - before_at)
        before_at, before = at, figure
    return before


def histories_of(looks: Iterable[Look], node_id: str) -> dict[str, TaskHistory]:
    """Follow the tasks of one node over the looks."""
    histories: dict[str, TaskHistory] = {}
    for number, look in enumerate(looks):
        for task in look.tasks:
            if task.node_id == node_id:
                histories.setdefault(task.task_id, TaskHistory()).marks[number] = task
    return histories


@dataclass(slots=True)
class _Request:
    """The tasks of one request on one node."""

    root: Task  # the topmost task that is known of it, on whatever node
    tasks: list[TaskHistory] = field(default_factory=list)
    query: str | None = None  # as it was sent; None if no task that has it is known

    @property
    def known(self) -> list[Task]:
        """All that is known of it: the topmost task, and those on the node as they were listed last."""
        return [self.root, *(history.last for history in self.tasks)]

    @property
    def named(self) -> Task:
        """A task of it with the client's name, if there is one."""
        return next((task for task in self.known if task.opaque_id), self.root)

    @property
    def expression(self) -> str | None:
        """The indices as the client named them; None if no task that says so is known."""
        return next(filter(None, (task.expression for task in self.known)), None)

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices whose shards its tasks work on."""
        return tuple(sorted(filter(None, {history.last.index for history in self.tasks})))


def task_groups(
    sampling: TaskSampling,
    histories: Mapping[str, TaskHistory],
    window: tuple[float, float] | None,
    hot_ms: float | None,
    shape_of: Callable[[str], str],
) -> list[tuple[TaskGroup, list[TaskHistory]]]:
    """
    Return the groups of a node's requests as they are written, the heaviest first, each with its tasks.

    The window is that of the report, ``hot_ms`` the CPU of all hot threads of the node within it; None if not known.
    """
    groups = []
    for shape, index, requests in _grouped(_requests_of(histories, sampling.ancestors), shape_of):
        first = requests[0]
        tasks = [history for request in requests for history in request.tasks]
        cpu_ms = _cpu_of(tasks, window) if first.root.kind.startswith(_READS) else None
        running, queued = _counts(requests)
        query = next((request.query for request in requests if request.query), None)
        ids = {request.named.opaque_id for request in requests}
        opaque_id = first.named.client or (first.named.opaque_id if len(ids) == 1 else _UUIDS)
        group = TaskGroup(
            action=first.root.kind,
            opaque_id=opaque_id and storable(opaque_id, _LONGEST_NAMES),
            index=index and storable(index, _LONGEST_NAMES),
            shape=shape and storable(shape, len(shape)),
            query=storable(query, _LONGEST_QUERY) if query and sampling.sampler.shows_queries else None,
            seen=_seen({sampling.looks[number].moment for history in tasks for number in history.marks}),
            requests=len(requests),
            read_requests=sum(request.query is not None for request in requests),
            running=running,
            queued=queued,
            longest_ms=round(max(task.running_ms for request in requests for task in request.known), 1),
            cpu_ms=None if cpu_ms is None else round(cpu_ms, 1),
            cpu_share_percent=None if cpu_ms is None or not hot_ms else round(min(100.0, 100.0 * cpu_ms / hot_ms), 1),
            pool=next((pool for start, pool in _POOLS.items() if first.root.kind.startswith(start)), None),
        )
        groups.append((group, tasks))
    return sorted(groups, key=_weight, reverse=True)


def _weight(found: tuple[TaskGroup, list[TaskHistory]]) -> tuple[float, float, float]:
    group, _ = found
    return (group.cpu_ms or 0.0, group.running, group.longest_ms)


def _requests_of(histories: Mapping[str, TaskHistory], ancestors: Mapping[str, Task]) -> list[_Request]:
    """Put the tasks of a node together that one request has started."""
    known = {**ancestors, **{task_id: history.last for task_id, history in histories.items()}}
    requests: dict[str, _Request] = {}
    for history in histories.values():
        chain = [history.last]
        while (parent := known.get(chain[-1].parent_id or "")) and len(chain) < _LONGEST_CHAIN:
            chain.append(parent)
        # Tasks whose common parent is not known belong together by its id.
        request = requests.setdefault(chain[-1].parent_id or chain[-1].task_id, _Request(chain[-1]))
        request.tasks.append(history)
        texts = (query_of(task.kind, task.description) for task in chain)
        request.query = request.query or next((text for text in texts if text), None)
    return list(requests.values())


def _grouped(
    requests: Sequence[_Request], shape_of: Callable[[str], str]
) -> Iterator[tuple[str | None, str | None, list[_Request]]]:
    """
    Yield the shape, the index and the requests of one kind: of one action, client, index, and shape if it is known.

    Requests whose query is not known are in the group of the others, if these have one shape.
    """
    expressions = _expressions(requests)
    # Thousands of requests may work on the same few indices.
    named_for = cache(lambda kind, client, indices: _named_for(indices, expressions[kind, client]))
    kinds: dict[tuple[str, str | None, str | None], list[_Request]] = defaultdict(list)
    for request in requests:
        kind, client = request.root.kind, request.named.client
        index = request.expression or named_for(kind, client, request.indices)
        kinds[kind, client, index].append(request)
    for (_, _, index), alike in kinds.items():
        by_shape: dict[str | None, list[_Request]] = defaultdict(list)
        for request in alike:
            by_shape[shape_of(request.query) if request.query else None].append(request)
        if len(by_shape) == 2 and None in by_shape:  # noqa: PLR2004 one shape, and requests without any
            unknown = by_shape.pop(None)
            next(iter(by_shape.values())).extend(unknown)
        for shape, found in by_shape.items():
            yield shape, index, found


def _expressions(requests: Iterable[_Request]) -> dict[tuple[str, str | None], list[str]]:
    """Return the first short lists of indices as clients named them, by action and client."""
    found: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for request in requests:
        named, known = request.expression, found[request.root.kind, request.named.client]
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


def _cpu_of(tasks: Iterable[TaskHistory], window: tuple[float, float] | None) -> float | None:
    used = [history.cpu_within(window) for history in tasks] if window else []
    known = [cpu_ms for cpu_ms in used if cpu_ms is not None]
    return sum(known) if known else None


def _seen(moments: set[Moment]) -> Seen:
    if moments >= {"start", "end"}:
        return "both"
    return "start" if "start" in moments else "end" if "end" in moments else "between"


def _counts(requests: Iterable[_Request]) -> tuple[int, int | None]:
    """Return the largest numbers of tasks at one look that ran, and that waited for a thread."""
    running: Counter[int] = Counter()
    queued: Counter[int] = Counter()
    says = False
    for request in requests:
        marks = [(number, mark) for history in request.tasks for number, mark in history.marks.items()]
        # A task that only waits for its own children at a look is not counted beside them.
        parents = {(number, mark.parent_id) for number, mark in marks}
        for number, mark in marks:
            if (number, mark.task_id) not in parents:
                says = says or (mark.is_search_phase and mark.executions is not None)
                waits = mark.is_search_phase and mark.executions == 0
                (queued if waits else running)[number] += 1
    return max(running.values(), default=0), (max(queued.values(), default=0) if says else None)
