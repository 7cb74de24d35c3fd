"""
Look at the tasks of hot nodes while their threads are measured.

The looks are a call flow of their own, beside the request for the report, so that they neither delay it nor can
fail it. The thread pools come first: a node with a huge queue would need long, and much memory, to list its tasks, so
it is not asked.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from airflow_provider_mediaops.cluster.query import check_show_queries
from airflow_provider_mediaops.cluster.running_tasks.replies import (
    MAX_LIST_BYTES,
    shard_times,
    single_task,
    task_list,
    thread_pools,
)
from airflow_provider_mediaops.cluster.text import listed
from airflow_provider_mediaops.exceptions import (
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.exchange import Beside, Wait

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.cluster.query import HotThreadsQuery
    from airflow_provider_mediaops.cluster.running_tasks.model import IndexWork, PoolLoad
    from airflow_provider_mediaops.cluster.running_tasks.replies import Task
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow, Clock

T = TypeVar("T")

#: How long the end of a report waits for what is still under way beside it, in seconds.
GRACE_SECONDS = 0.01

# The busiest nodes are asked; a list of all nodes of a large cluster would be a load of its own.
_MOST_NODES = 10
# With more tasks in the queues of a node, its tasks are not listed at all.
_HUGE_QUEUE = 1_000
# With more, or after a larger reply, they are listed at the start and at the end only.
_SHORT_QUEUE, _SMALL_REPLY_BYTES = 100, 256 * 1024
# With any other character, an id may stand for several nodes.
_ID = re.compile(r"[\w.-]+", re.ASCII)
_BETWEEN_SECONDS = 0.1
# The interval has so many parts at most, with a look between two of them.
_MOST_PARTS = 18
# The stacks are taken after the interval, one snapshot each 10 ms: this is half of it, and the time of the first.
_SNAPSHOT_SECONDS, _FIRST_SNAPSHOT_SECONDS, _LONGEST_SNAPSHOTS_SECONDS = 0.005, 0.01, 1.0
# How often a query is looked up of each kind of requests, and in all.
_TRIES_OF_A_KIND, _MOST_TRIES = 3, 30
# A lookup takes some milliseconds; with less time left, the next look would be late.
_LOOKUP_SECONDS = 0.02

Moment = Literal["start", "between", "end"]
_NOT_ALLOWED = (
    "The tasks of the nodes were not listed: the connection's user may not. Give it a role with the permission "
    "cluster:monitor/tasks/lists, which the action group cluster_monitor of OpenSearch and the cluster privilege "
    "monitor of Elasticsearch contain."
)


class Look(NamedTuple):
    """One look at the tasks of all nodes."""

    after_seconds: float  # when, after the report was asked for
    moment: Moment  # the first one, one of those at the end of the interval, or between
    tasks: tuple[Task, ...]


def look_times(interval_seconds: float, snapshots: int) -> Iterator[tuple[float, Moment]]:
    """
    Yield when to look at the tasks, for a report that measures threads over an interval and then takes their stacks.

    In seconds after the report was asked for, in order. The looks between may be left out.
    """
    yield 0.0, "start"
    step = max(_BETWEEN_SECONDS, interval_seconds / _MOST_PARTS)
    number = 1
    while number * step < interval_seconds - step / 2:
        yield number * step, "between"
        number += 1
    yield interval_seconds, "end"
    half = _FIRST_SNAPSHOT_SECONDS + snapshots * _SNAPSHOT_SECONDS
    yield interval_seconds + min(half, _LONGEST_SNAPSHOTS_SECONDS), "end"


def task_sampler(ask: Ask, clock: Clock, *, running_tasks: bool, show_queries: bool) -> TaskSampler | None:
    """Return a sampler of tasks; None without ``running_tasks``."""
    check_show_queries(running_tasks=running_tasks, show_queries=show_queries)
    return TaskSampler(ask, clock, show_queries) if running_tasks else None


@dataclass(slots=True)
class TaskSampler:
    """Looks at tasks of hot nodes, for the captures of one series. What the cluster has refused is not asked again."""

    ask: Ask
    clock: Clock
    shows_queries: bool = False  # whether queries are kept with their literals
    is_allowed: bool = True  # whether the cluster has not refused to list tasks
    _told: set[str] = field(default_factory=set)

    def beside(
        self, report: CallFlow[T], query: HotThreadsQuery, stats: NodeStats | None
    ) -> CallFlow[tuple[T, TaskSampling]]:
        """Ask for a report, and look at the tasks meanwhile; the result is that of ``report``, and what was seen."""
        sampling = self.begin(stats)
        text, error = yield Beside(report, sampling.looks_over(query.interval_seconds, query.snapshots), GRACE_SECONDS)
        # A call flow that is still being cut off does not change the copy.
        seen = copy.copy(sampling)
        if error:
            # Not its words: they could quote a query.
            seen.note(f"The tasks were not listed to the end, because of a fault ({type(error).__name__}).")
        return text, seen

    def begin(self, stats: NodeStats | None) -> TaskSampling:
        """Choose the nodes to ask: the busiest of those that are captured."""
        busiest = sorted(stats.nodes, key=lambda node: -(node.percent or 0.0)) if stats else []
        names = [(node.node_id, node.name) for node in busiest if _ID.fullmatch(node.node_id)]
        sampling = TaskSampling(self, dict(names[:_MOST_NODES]), may_list=self.is_allowed)
        if not self.is_allowed:
            sampling.note(_NOT_ALLOWED)
        if not names:
            sampling.note("Tasks were not listed, because the cluster did not say which nodes are hot.")
        if len(names) > _MOST_NODES:
            sampling.note(f"Tasks were listed of the {_MOST_NODES} busiest of {len(names)} nodes.")
        return sampling

    def untold(self, remarks: Iterable[str]) -> tuple[str, ...]:
        """Return the remarks that no earlier capture of the series had, for the log."""
        new = tuple(remark for remark in remarks if remark not in self._told)
        self._told.update(new)
        return new


@dataclass(slots=True)
class TaskSampling:
    """
    What is seen beside one report, and how it is asked for.

    Each value is replaced as a whole, never changed, so that those of a copy stay.
    """

    sampler: TaskSampler
    nodes: Mapping[str, str | None]  # the names of those that are asked, by id
    looks: tuple[Look, ...] = ()  # in order
    # The tasks of other nodes that started listed ones, by id, as far as they were looked up.
    ancestors: Mapping[str, Task] = field(default_factory=dict)
    pools: Mapping[str, tuple[PoolLoad, ...]] = field(default_factory=dict)  # by node id
    # The counters of indices by node id at the first reading, and at the second.
    shards_before: Mapping[str, dict[str, IndexWork]] = field(default_factory=dict)
    shards_after: Mapping[str, dict[str, IndexWork]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    node_remarks: Mapping[str, str] = field(default_factory=dict)  # of the nodes that are not asked further
    # What the cluster may still be asked for.
    may_list: bool = True
    _may_read_shards: bool = False
    _may_look_up: bool = True
    _is_dense: bool = False  # whether there are looks between the start and the end
    _begun: float = 0.0

    def note(self, sentence: str) -> None:
        """Note a sentence for the files and for the log, once."""
        if sentence not in self.remarks:
            self.remarks = (*self.remarks, sentence)

    def _note_error(self, what: str, error: MediaOpsError) -> None:
        # Without the words of the reply: they may quote a query.
        status = f" {error.status}" if error.status else ""
        self.note(f"{what} ({type(error).__name__}{status}).")

    def looks_over(self, interval_seconds: float, snapshots: int) -> CallFlow[None]:
        """Look at the tasks until the report should be there. An error of the cluster is noted, not raised."""
        if not self.nodes:
            return
        self._begun = self.sampler.clock.monotonic()
        yield from self._read_pools()
        if not self._asked:
            return
        # The tasks that were looked up, with the kind of request.
        tried: dict[str, object] = {}
        times = list(look_times(interval_seconds, snapshots))
        for (after, moment), (following, _) in zip(times, [*times[1:], (float("inf"), "end")], strict=True):
            # A late look between the start and the end is left out.
            is_late = self._elapsed > after + _BETWEEN_SECONDS / 2
            if moment == "between" and (is_late or not (self.may_list and self._is_dense)):
                continue
            yield from self._look(after, moment)
            if moment == "start":
                self.shards_before = yield from self._read_shards()
            elif moment == "end" and not self.shards_after:
                self.shards_after = yield from self._read_shards()
            yield from self._look_up(following, tried)

    @property
    def _asked(self) -> list[str]:
        """The nodes whose tasks may be listed."""
        return [node for node in self.nodes if node not in self.node_remarks]

    @property
    def _elapsed(self) -> float:
        return self.sampler.clock.monotonic() - self._begun

    def _read_pools(self) -> CallFlow[None]:
        """Read the thread pools; nodes with a huge queue are not asked further."""
        try:
            self.pools = yield from self.sampler.ask(thread_pools(list(self.nodes)))
        except MediaOpsError as error:
            self._note_error("The thread pools could not be read", error)
            return
        queues = {node: sum(pool.queue for pool in self.pools.get(node, ())) for node in self.nodes}
        self.node_remarks = {
            node: f"Its tasks were not listed: {queue:,} tasks wait in its thread pools, and to list them would be a "
            "load of its own."
            for node, queue in queues.items()
            if queue > _HUGE_QUEUE
        }
        if huge := [self.nodes[node] or node for node in self.node_remarks]:
            self.note(f"The tasks of {listed(huge, 20)} were not listed: too many wait in the thread pools.")
        # The statistics of shards need the same permission.
        self._may_read_shards = True
        self._is_dense = all(queues[node] <= _SHORT_QUEUE for node in self._asked)

    def _look(self, after: float, moment: Moment) -> CallFlow[None]:
        """Wait until a look is due, and list the tasks."""
        if (pause := after - self._elapsed) > 0:
            yield Wait(pause)
        if not self.may_list:
            return
        at = self._elapsed
        try:
            found = yield from self.sampler.ask(task_list(self._asked))
        except MediaOpsError as error:
            if isinstance(error, PermissionDeniedError):
                self.may_list = self.sampler.is_allowed = False
                self.note(_NOT_ALLOWED)
            elif isinstance(error, InvalidReplyError) and error.status is None:
                self.may_list = False
                self.note(f"The list of tasks was cut off: it is larger than {MAX_LIST_BYTES >> 20} MB.")
            else:
                self._is_dense = False
                # A cluster that needs so long for a list is not asked for another one.
                self.may_list = not isinstance(error, ReplyTimeoutError)
                self._note_error("The tasks could not be listed", error)
            return
        self.looks = (*self.looks, Look(at, moment, found.tasks))
        self._is_dense = self._is_dense and found.bytes <= _SMALL_REPLY_BYTES
        if found.failures:
            self.note(f"{found.failures} of the nodes did not list their tasks in time.")
        if found.left_out:
            self.note(f"The list of tasks was cut off: only the first {len(found.tasks):,} were read.")

    def _look_up(self, until: float, tried: dict[str, object]) -> CallFlow[None]:
        """Look up tasks that coordinate requests: only they contain the query."""
        for task in self._without_query():
            parent_id, kind = str(task.parent_id), (task.kind, task.client, task.index)
            if self._elapsed + _LOOKUP_SECONDS > until or len(tried) >= _MOST_TRIES:
                return
            if parent_id in tried or list(tried.values()).count(kind) >= _TRIES_OF_A_KIND:
                continue
            tried[parent_id] = kind
            try:
                parent = yield from self.sampler.ask(single_task(parent_id))
            except NotFoundError:
                # It has ended in the meantime.
                continue
            except MediaOpsError as error:
                self._may_look_up = not isinstance(error, PermissionDeniedError)
                self._note_error("The queries of some requests could not be read", error)
                return
            if parent:
                self.ancestors = {**self.ancestors, parent_id: parent}

    def _without_query(self) -> list[Task]:
        """Return the listed parts of requests whose coordinating task is not listed, the heaviest first."""
        if not (self.looks and self._may_look_up):
            return []
        tasks = self.looks[-1].tasks
        known = {task.task_id for task in tasks}
        parts = [task for task in tasks if task.is_part and task.parent_id and task.parent_id not in known]
        return sorted(parts, key=lambda task: -((task.cpu_ms or 0.0) + task.running_ms))

    def _read_shards(self) -> CallFlow[dict[str, dict[str, IndexWork]]]:
        """Read the counters of the indices."""
        if not self._may_read_shards:
            return {}
        try:
            return (yield from self.sampler.ask(shard_times(self._asked)))
        except MediaOpsError as error:
            self._note_error("The statistics of shards could not be read", error)
            return {}
