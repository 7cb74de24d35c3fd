"""
Look at the tasks of hot nodes while their threads are measured.

The looks are a call flow of their own, beside the request for the report, so that they neither delay it nor can
fail it. The thread pools come first: a node with a huge queue would need long, and much memory, to list its tasks, so
it is not asked.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, TypeVar

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


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the tasks of all nodes."""

    after_seconds: float  # when, after the report was asked for
    moment: Moment  # the first one, one of those at the end of the interval, or between
    tasks: tuple[Task, ...]


@dataclass(slots=True)
class TaskSampling:
    """Everything that was seen beside one report."""

    nodes: dict[str, str | None] = field(default_factory=dict)  # the names of those that are asked, by id
    looks: list[Look] = field(default_factory=list)  # in order
    # The tasks of other nodes that started listed ones, by id, as far as they were looked up.
    ancestors: dict[str, Task] = field(default_factory=dict)
    pools: dict[str, tuple[PoolLoad, ...]] = field(default_factory=dict)  # by node id
    # The counters of indices by node id at the first reading, and at the second.
    shards_before: dict[str, dict[str, IndexWork]] = field(default_factory=dict)
    shards_after: dict[str, dict[str, IndexWork]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    node_remarks: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # the remarks that are to be logged
    shows_queries: bool = False  # whether queries are kept with their literals

    def warn(self, sentence: str) -> None:
        """Note a sentence for the files and for the log, once."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)
            self.warnings.append(sentence)

    def warn_of(self, what: str, error: MediaOpsError) -> None:
        """Note a failure, without the words of the reply: they may quote a query."""
        status = f" {error.status}" if error.status else ""
        self.warn(f"{what} ({type(error).__name__}{status}).")

    def snapshot(self) -> TaskSampling:
        """Return a copy that a call flow which is still being cut off does not change."""
        copied = copy.copy(self)
        for item in fields(self):
            if isinstance(value := getattr(self, item.name), (list, dict)):
                setattr(copied, item.name, value.copy())
        return copied


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
    return TaskSampler(ask, clock, shows_queries=show_queries) if running_tasks else None


class TaskSampler:
    """
    Looks at the tasks of hot nodes, for the captures of one series. What the cluster has refused is not asked again.

    It makes call flows with ``ask``, and keeps queries with their literals if it ``shows_queries``.
    """

    def __init__(self, ask: Ask, clock: Clock, *, shows_queries: bool = False) -> None:
        self.ask = ask
        self.clock = clock
        #: Whether the cluster has not refused to list tasks.
        self.is_allowed = True
        self._shows_queries = shows_queries
        self._told = set[str]()

    def tell_once(self, sampling: TaskSampling, sentence: str) -> None:
        """Note a sentence for the files of each capture, and for the log at the first of them."""
        if sentence in self._told:
            sampling.remarks.append(sentence)
        else:
            self._told.add(sentence)
            sampling.warn(sentence)

    def beside(
        self, report: CallFlow[T], query: HotThreadsQuery, stats: NodeStats | None
    ) -> CallFlow[tuple[T, TaskSampling]]:
        """Ask for a report, and look at the tasks meanwhile; the result is that of ``report``, and what was seen."""
        sampling = self.begin(stats)
        looks = self.looks(sampling, query.interval_seconds, query.snapshots)
        text, error = yield Beside(report, looks, GRACE_SECONDS)
        if error:
            # Not its words: they could quote a query.
            sampling.warn(f"The tasks were not listed to the end, because of a fault ({type(error).__name__}).")
        return text, sampling.snapshot()

    def begin(self, stats: NodeStats | None) -> TaskSampling:
        """Choose the nodes to ask: the busiest of those that are captured."""
        sampling = TaskSampling(shows_queries=self._shows_queries)
        if not self.is_allowed:
            self.tell_once(sampling, _NOT_ALLOWED)
        busiest = sorted(stats.nodes, key=lambda node: -(node.percent or 0.0)) if stats else []
        names = [(node.node_id, node.name) for node in busiest if _ID.fullmatch(node.node_id)]
        if not names:
            self.tell_once(sampling, "Tasks were not listed, because the cluster did not say which nodes are hot.")
        if len(names) > _MOST_NODES:
            sampling.remarks.append(f"Tasks were listed of the {_MOST_NODES} busiest of {len(names)} nodes.")
        sampling.nodes = dict(names[:_MOST_NODES])
        return sampling

    def looks(self, sampling: TaskSampling, interval_seconds: float, snapshots: int) -> CallFlow[None]:
        """Look at the tasks until the report should be there. An error of the cluster is noted, not raised."""
        if not sampling.nodes:
            return
        series = _LookSeries(self, sampling)
        yield from series.read_pools()
        if not series.asked:
            return
        times = list(look_times(interval_seconds, snapshots))
        for (after, moment), (following, _) in zip(times, [*times[1:], (float("inf"), "end")], strict=True):
            if moment == "between" and not series.is_in_time(after):
                continue
            yield from series.look(after, moment)
            if moment == "start":
                sampling.shards_before = yield from series.read_shards()
            elif moment == "end" and not sampling.shards_after:
                sampling.shards_after = yield from series.read_shards()
            yield from series.look_up(following)


class _LookSeries:
    """The looks beside one report, and what the cluster may still be asked for."""

    def __init__(self, sampler: TaskSampler, sampling: TaskSampling) -> None:
        self._sampler = sampler
        self._ask = sampler.ask
        self._sampling = sampling
        self._begun = sampler.clock.monotonic()
        # Whether there are looks between the start and the end.
        self._is_dense = False
        self._may_list = sampler.is_allowed
        self._may_read_shards = False
        self._may_look_up = True
        # The tasks that were looked up, and how many of each kind.
        self._tried: set[str] = set()
        self._tries: Counter[tuple[str, str | None, str | None]] = Counter()

    @property
    def asked(self) -> list[str]:
        """The nodes whose tasks may be listed."""
        return [node for node in self._sampling.nodes if node not in self._sampling.node_remarks]

    def _elapsed(self) -> float:
        return self._sampler.clock.monotonic() - self._begun

    def read_pools(self) -> CallFlow[None]:
        """Read the thread pools; nodes with a huge queue are not asked further."""
        sampling = self._sampling
        try:
            sampling.pools = yield from self._ask(thread_pools(list(sampling.nodes)))
        except MediaOpsError as error:
            sampling.warn_of("The thread pools could not be read", error)
            return
        queues = {node: sum(pool.queue for pool in sampling.pools.get(node, ())) for node in sampling.nodes}
        for node, queue in queues.items():
            if queue > _HUGE_QUEUE:
                waiting = f"{queue:,} tasks wait in its thread pools, and to list them would be a load of its own"
                sampling.node_remarks[node] = [f"Its tasks were not listed: {waiting}."]
        if huge := [sampling.nodes[node] or node for node in sampling.node_remarks]:
            sampling.warn(f"The tasks of {listed(huge, 20)} were not listed: too many wait in the thread pools.")
        # The statistics of shards need the same permission.
        self._may_read_shards = True
        self._is_dense = all(queues[node] <= _SHORT_QUEUE for node in self.asked)

    def is_in_time(self, after: float) -> bool:
        """Return whether there is a look between the start and the end now; a late one is left out."""
        return self._may_list and self._is_dense and self._elapsed() <= after + _BETWEEN_SECONDS / 2

    def look(self, after: float, moment: Moment) -> CallFlow[None]:
        """Wait until a look is due, and list the tasks."""
        if (pause := after - self._elapsed()) > 0:
            yield Wait(pause)
        if not self._may_list:
            return
        at, sampling = self._elapsed(), self._sampling
        try:
            listed = yield from self._ask(task_list(self.asked))
        except MediaOpsError as error:
            self._note(error)
            return
        sampling.looks.append(Look(at, moment, listed.tasks))
        self._is_dense = self._is_dense and listed.bytes <= _SMALL_REPLY_BYTES
        if listed.failures:
            sampling.warn(f"{listed.failures} of the nodes did not list their tasks in time.")
        if listed.left_out:
            sampling.warn(f"The list of tasks was cut off: only the first {len(listed.tasks):,} were read.")

    def _note(self, error: MediaOpsError) -> None:
        sampling = self._sampling
        if isinstance(error, PermissionDeniedError):
            self._may_list = self._sampler.is_allowed = False
            self._sampler.tell_once(sampling, _NOT_ALLOWED)
        elif isinstance(error, InvalidReplyError) and error.status is None:
            self._may_list = False
            sampling.warn(f"The list of tasks was cut off: it is larger than {MAX_LIST_BYTES >> 20} MB.")
        else:
            self._is_dense = False
            # A cluster that needs so long for a list is not asked for another one.
            self._may_list = not isinstance(error, ReplyTimeoutError)
            sampling.warn_of("The tasks could not be listed", error)

    def look_up(self, until: float) -> CallFlow[None]:
        """Look up tasks that coordinate requests: only they contain the query."""
        for task in self._without_query():
            parent_id, kind = str(task.parent_id), (task.kind, task.client, task.index)
            if self._elapsed() + _LOOKUP_SECONDS > until or len(self._tried) >= _MOST_TRIES:
                return
            if parent_id in self._tried or self._tries[kind] >= _TRIES_OF_A_KIND:
                continue
            self._tried.add(parent_id)
            self._tries[kind] += 1
            try:
                parent = yield from self._ask(single_task(parent_id))
            except NotFoundError:
                # It has ended in the meantime.
                continue
            except MediaOpsError as error:
                self._may_look_up = not isinstance(error, PermissionDeniedError)
                self._sampling.warn_of("The queries of some requests could not be read", error)
                return
            if parent:
                self._sampling.ancestors[parent_id] = parent

    def _without_query(self) -> list[Task]:
        """Return the listed parts of requests whose coordinating task is not listed, the heaviest first."""
        if not (self._sampling.looks and self._may_look_up):
            return []
        listed = self._sampling.looks[-1].tasks
        known = {task.task_id for task in listed}
        parts = [task for task in listed if task.is_part and task.parent_id and task.parent_id not in known]
        return sorted(parts, key=lambda task: -((task.cpu_ms or 0.0) + task.running_ms))

    def read_shards(self) -> CallFlow[dict[str, dict[str, IndexWork]]]:
        """Read the counters of the indices."""
        if not self._may_read_shards:
            return {}
        try:
            return (yield from self._ask(shard_times(self.asked)))
        except MediaOpsError as error:
            self._sampling.warn_of("The statistics of shards could not be read", error)
            return {}
