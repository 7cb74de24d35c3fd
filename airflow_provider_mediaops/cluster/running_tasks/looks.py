"""Look at the tasks of nodes beside one report: when, what is listed, and which requests are looked up by their id."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from airflow_provider_mediaops.cluster.running_tasks.description import query_of
from airflow_provider_mediaops.cluster.running_tasks.query_shape import shape_of
from airflow_provider_mediaops.cluster.running_tasks.replies import (
    MAX_LIST_BYTES,
    shard_times,
    single_task,
    task_list,
)
from airflow_provider_mediaops.exceptions import (
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.exchange import Blocking, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_mediaops.cluster.running_tasks.model import PoolLoad
    from airflow_provider_mediaops.cluster.running_tasks.replies import ShardTimes, Task
    from airflow_provider_mediaops.http.clock import Clock
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow

# With larger replies, tasks are listed at the start and at the end only.
_SMALL_REPLY_BYTES = 256 * 1024
# After a reply of this size there is one look at the end, not two: to parse it would hold up the report.
_LARGE_REPLY_BYTES = 1024 * 1024
_BETWEEN_SECONDS = 0.1
# The interval has so many parts at most, with a look between two of them.
_MOST_PARTS = 18
# The stacks are taken after the interval, one snapshot each 10 ms: this is half of it, and the time of the first.
_SNAPSHOT_SECONDS, _FIRST_SNAPSHOT_SECONDS, _LONGEST_SNAPSHOTS_SECONDS = 0.005, 0.01, 1.0
# The heaviest kinds of requests whose query is looked up, tries for each of them, and in all.
_MOST_LOOKUPS, _TRIES_OF_A_KIND, _MOST_TRIES = 10, 3, 30
# A lookup takes some milliseconds; with less time left, the next look would be late.
_LOOKUP_SECONDS = 0.02

Moment = Literal["start", "between", "end"]


@dataclass(frozen=True, slots=True)
class Look:
    """
    One look at the tasks.

    :param after_seconds: when, after the report was asked for.
    :param moment: whether it is the first one, one of those at the end of the interval, or between.
    :param tasks: the tasks of all nodes.
    """

    after_seconds: float
    moment: Moment
    tasks: tuple[Task, ...]


@dataclass(slots=True)
class TaskSampling:
    """
    Everything that was seen beside one report.

    :param nodes: the nodes that were asked, by their ids (or by what they were asked for), with their names.
    :param looks: the looks at their tasks, in order.
    :param ancestors: the tasks of other nodes that started listed ones, by id, as far as they were looked up.
    :param pools: the thread pools by node id.
    :param shards_before: the counters of indices by node id at the first reading.
    :param shards_after: the same at the second reading.
    :param warnings: the remarks that are to be logged.
    :param shows_queries: whether queries are kept with their literals.
    :param refusal: the sentence about a missing permission, if the cluster has refused to list tasks.
    :param shapes: the shapes of queries by their texts.
    """

    nodes: dict[str, str | None] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    ancestors: dict[str, Task] = field(default_factory=dict)
    pools: dict[str, tuple[PoolLoad, ...]] = field(default_factory=dict)
    shards_before: dict[str, dict[str, ShardTimes]] = field(default_factory=dict)
    shards_after: dict[str, dict[str, ShardTimes]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    node_remarks: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    shows_queries: bool = False
    refusal: str = ""
    shapes: dict[str, str] = field(default_factory=dict)

    def cached_shape(self, query: str) -> str:
        """Return the shape of a query, which is worked out once."""
        if query not in self.shapes:
            self.shapes[query] = shape_of(query)
        return self.shapes[query]

    def cache_shapes(self, tasks: Iterable[Task]) -> None:
        """Work out the shapes of queries while the report is awaited. Done afterwards, this would delay it."""
        for task in tasks:
            if query := query_of(task.kind, task.description):
                self.cached_shape(query)

    def warn(self, sentence: str) -> None:
        """Note a sentence for the files and for the log, once."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)
            self.warnings.append(sentence)

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

    :returns: seconds after the report was asked for, in order. The looks between may be left out.
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


@dataclass(slots=True)
class LookSeries:
    """
    The looks beside one report.

    :param ask: makes a call flow of a call.
    :param sampling: filled with what is seen.
    :param begun: when the report was asked for, by the clock's monotonic time.
    :param asked: the ids of the nodes.
    :param is_dense: whether there are looks between the start and the end.
    :param may_list: whether tasks may be listed; false once the cluster has refused.
    :param may_read_shards: whether the statistics of shards may be read.
    :param may_look_up: whether single tasks may be looked up; false once the cluster has refused.
    :param largest_bytes: the size of the largest list.
    """

    ask: Ask
    clock: Clock
    sampling: TaskSampling
    begun: float
    asked: list[str]
    is_dense: bool
    may_list: bool = True
    may_read_shards: bool = True
    may_look_up: bool = True
    largest_bytes: int = 0
    _descriptions: dict[str, str] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)
    _tries: Counter[tuple[str, str | None, str | None]] = field(default_factory=Counter)

    def is_wanted(self, after: float, moment: Moment, *, is_last: bool) -> bool:
        """Return whether to look now; a look between is left out if it is late, or lists are long."""
        if moment == "between":
            is_late = self.clock.monotonic() - self.begun > after + _BETWEEN_SECONDS / 2
            return self.may_list and self.is_dense and not is_late
        return moment == "start" or not (is_last and self.largest_bytes > _LARGE_REPLY_BYTES)

    def look(self, after: float, moment: Moment) -> CallFlow[None]:
        """Wait until a look is due, and list the tasks."""
        if (pause := self.begun + after - self.clock.monotonic()) > 0:
            yield Wait(pause)
        if not self.may_list:
            return
        at = self.clock.monotonic() - self.begun
        try:
            listed = yield from self.ask(task_list(self.asked))
        except MediaOpsError as error:
            self._note(error)
            return
        if listed.failures:
            self.sampling.warn(f"{listed.failures} of the nodes did not list their tasks in time.")
        self.largest_bytes = max(self.largest_bytes, listed.bytes)
        self.is_dense = self.is_dense and listed.bytes <= _SMALL_REPLY_BYTES
        tasks = tuple(self._sharing_text(task) for task in listed.tasks)
        self.sampling.looks.append(Look(at, moment, tasks))
        if listed.left_out:
            self.sampling.warn(f"The list of tasks was cut off: only the first {len(tasks):,} were read.")
        yield Blocking(partial(self.sampling.cache_shapes, tasks))

    def _sharing_text(self, task: Task) -> Task:
        # A task that is listed again has the same description.
        known = self._descriptions.setdefault(task.task_id, task.description)
        return replace(task, description=known)

    def _note(self, error: MediaOpsError) -> None:
        if isinstance(error, PermissionDeniedError):
            self.may_list = False
            self.sampling.refusal = (
                "The tasks of the nodes were not listed: the connection's user may not. Give it a role with the "
                "permission cluster:monitor/tasks/lists, which the action group cluster_monitor of OpenSearch and the "
                "cluster privilege monitor of Elasticsearch contain."
            )
            self.sampling.warn(self.sampling.refusal)
            return
        if isinstance(error, InvalidReplyError) and error.status is None:
            self.may_list = False
            self.sampling.warn(f"The list of tasks was cut off: it is larger than {MAX_LIST_BYTES >> 20} MB.")
            return
        self.is_dense = False
        # A cluster that needs so long for a list is not asked for another one.
        self.may_list = not isinstance(error, ReplyTimeoutError)
        self.sampling.warn(failure_sentence("The tasks could not be listed", error))

    def look_up(self, until: float) -> CallFlow[None]:
        """Look up the coordinating tasks of the heaviest kinds of requests: only they contain the query."""
        for task in self._without_query():
            if self.clock.monotonic() + _LOOKUP_SECONDS > until or len(self._tried) >= _MOST_TRIES:
                return
            parent_id = str(task.parent_id)
            self._tried.add(parent_id)
            self._tries[_kind_of(task)] += 1
            try:
                parent = yield from self.ask(single_task(parent_id))
            except NotFoundError:
                # It has ended in the meantime.
                continue
            except MediaOpsError as error:
                self.may_look_up = not isinstance(error, PermissionDeniedError)
                self.sampling.warn(failure_sentence("The queries of some requests could not be read", error))
                return
            if parent:
                self.sampling.ancestors[parent_id] = parent
                yield Blocking(partial(self.sampling.cache_shapes, [parent]))

    def _without_query(self) -> list[Task]:
        """Return a task of each request to look up: kind by kind, the oldest first, then the youngest."""
        if not (self.sampling.looks and self.may_look_up):
            return []
        listed = self.sampling.looks[-1].tasks
        known = {task.task_id for task in listed} | self.sampling.ancestors.keys() | self._tried
        by_kind: dict[tuple[str, str | None, str | None], list[Task]] = {}
        for task in listed:
            if task.is_part and task.parent_id and task.parent_id not in known:
                known.add(task.parent_id)
                by_kind.setdefault(_kind_of(task), []).append(task)
        # Kinds that were met before keep their right to the ten lookups.
        kinds = sorted(by_kind, key=lambda kind: (not self._tries[kind], -_weight(by_kind[kind])))
        room = _MOST_LOOKUPS - len(self._tries.keys() - by_kind.keys())
        chosen: list[Task] = []
        for kind in kinds[: max(room, 0)]:
            oldest, *others = sorted(by_kind[kind], key=lambda task: -task.running_ms)
            # The oldest of a kind is likely the heaviest one, and the youngest the most likely to last until then.
            candidates = [oldest, *reversed(others)][: _TRIES_OF_A_KIND - self._tries[kind]]
            chosen.extend(candidates)
        return chosen

    def read_shards(self) -> CallFlow[dict[str, dict[str, ShardTimes]]]:
        """Read the counters of the indices."""
        if not self.may_read_shards:
            return {}
        try:
            return (yield from self.ask(shard_times(self.asked)))
        except MediaOpsError as error:
            self.sampling.warn(failure_sentence("The statistics of shards could not be read", error))
            return {}


def _kind_of(task: Task) -> tuple[str, str | None, str | None]:
    return task.kind, task.client, task.index


def _weight(tasks: list[Task]) -> float:
    return sum((task.cpu_ms or 0.0) + task.running_ms for task in tasks)


def failure_sentence(what: str, error: MediaOpsError) -> str:
    """Return a sentence about a failure, without the words of the reply: they may quote a query."""
    status = f" {error.status}" if error.status else ""
    return f"{what} ({type(error).__name__}{status})."
