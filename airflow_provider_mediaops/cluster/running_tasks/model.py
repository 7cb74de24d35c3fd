"""
The tasks that ran on hot nodes while a report was taken, in plain values for the JSON file and the page.

Nothing here says more than the cluster does. A task was *listed* while the CPU was measured; its CPU is known only of
searches on OpenSearch; which thread it ran on is nowhere printed, so a thread has a *likely* group, with the error of
the match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_provider_mediaops.cluster.plain_values import Part, converted

Seen = Literal["start", "end", "both", "between"]
"""When a group was listed: at the first look, at the last ones, at both, or only at looks in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLoad(Part):
    """One thread pool of a node, right before the report was asked for."""

    pool: str = ""  #: its name, for example ``search``
    active: int = 0  #: the number of its threads that were at work
    queue: int = 0  #: the number of tasks that waited for one
    rejected: int = 0  #: the number of tasks that it has refused since the node's start


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup(Part):
    """The listed requests of one kind on one node."""

    action: str = ""  #: the action without its phase, for example ``indices:data/read/search``
    #: the ``X-Opaque-Id`` that the client sent, without a UUID at its start; ``(UUIDs)`` for several that have
    #: no more than that; None without one
    opaque_id: str | None = None
    index: str | None = None  #: the names of the indices, joined by commas; None if no task names any
    #: the query with ``?`` for each literal, that of ES|QL and SQL after the name of the language; None if no
    #: task that has it was found
    shape: str | None = None
    query: str | None = None  #: the query as it was sent, cut; only with ``show_queries``
    seen: Seen = "between"  #: when the group was listed; see :data:`Seen`
    requests: int = 0  #: the number of requests, over all looks
    read_requests: int = 0  #: the number of them whose query was read; the rest share action, id and index with it
    #: the largest number of tasks at one look that had begun; on Elasticsearch, and of other actions than
    #: searches, those that wait in the queue of their pool count, too
    running: int = 0
    #: the largest number of tasks at one look that waited for a thread; None if the cluster does not say
    queued: int | None = None
    longest_ms: float = 0.0  #: the longest time that a task had existed, in milliseconds; it includes waiting
    #: the CPU of its listed tasks within the window, in milliseconds; None if the cluster does not say
    cpu_ms: float | None = None
    #: ``cpu_ms`` in percent of the CPU of the node's hot threads; None if either is unknown
    cpu_share_percent: float | None = None
    pool: str | None = None  #: the thread pool that such tasks run in, by their action; None if it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyGroup(Part):
    """The group that a hot thread likely worked for."""

    thread: str | None = None  #: the thread's name
    #: the CPU of the thread within the window, in milliseconds; None if the report does not say
    cpu_ms: float | None = None
    group: int | None = None  #: the position of the group in ``groups`` of the node, from 0; None if none is claimed
    #: the difference between the CPU of the task and of the thread, in milliseconds; None without group
    error_ms: float | None = None
    why_not: str = ""  #: why no group is claimed, in words; empty with a group


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork(Part):
    """
    The work on an index between the two readings of a node's shard statistics.

    Work is counted when it ends: what began before the first reading counts whole, and what is under way does not.
    """

    index: str = ""  #: the name of the index
    query_ms: float = 0.0  #: time of the queries that ended, in milliseconds, summed over its shards on the node
    index_ms: float = 0.0  #: time of the indexing that ended, likewise
    merge_ms: float = 0.0  #: time of the merges that ended, likewise
    merges: int = 0  #: the number of merges under way at the second reading

    @property
    def total_ms(self) -> float:
        """All of these times together."""
        return self.query_ms + self.index_ms + self.merge_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTasks(Part):
    """What one node ran while its hot threads were measured."""

    node_id: str = ""  #: the node's id
    node: str | None = None  #: its name
    looks_ms: tuple[float, ...] = ()  #: when its tasks were listed, in milliseconds after the report was asked for
    listed_at_start: int = 0  #: the number of tasks at the first look
    listed_at_end: int = 0  #: the number of tasks at the last look
    pools: tuple[PoolLoad, ...] = ()  #: the thread pools that were at work or had a queue
    groups: tuple[TaskGroup, ...] = ()  #: the groups, the heaviest first
    groups_left_out: int = 0  #: the number of further groups
    threads: tuple[LikelyGroup, ...] = ()  #: the hot threads in the order of the report
    #: the share of the hot threads' CPU that no listed task explains; None if the cluster does not say how much
    #: CPU a task uses
    unexplained_percent: float | None = None
    indices: tuple[IndexWork, ...] = ()  #: the indices that were worked on, the most time first
    remarks: tuple[str, ...] = ()  #: sentences about what was not asked, was refused or was cut, and why

    @property
    def label(self) -> str:
        """The name of the node, or its id if it has none."""
        return self.node or self.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTasks(Part):
    """What the hot nodes ran while their report was taken: ``running_tasks`` in the JSON file of a capture."""

    #: the nodes that were asked: the busiest first, or in the order of ``nodes`` if their CPU is unknown
    nodes: tuple[NodeTasks, ...] = ()
    remarks: tuple[str, ...] = ()  #: sentences about all nodes, for example that the cluster refused to list tasks

    @classmethod
    def from_dict(cls, value: object) -> RunningTasks:
        """
        Read what :meth:`to_dict` returned.

        :param value: any value.
        :raises ValueError: if it is something else.
        """
        return converted(value, cls)
