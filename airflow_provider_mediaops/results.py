"""
Types of the results of operators and sensors, and of the payload of a trigger's event, for annotations in your tasks.

An editor then completes the keys, and a type checker knows their values::

    @task
    def check(summary: ExportSummary) -> None:
        if not summary["complete"]: ...

At run time they are plain dictionaries, as an XCom has them.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict


class ExportSummary(TypedDict):
    """The result of :class:`~airflow_provider_mediaops.operators.video.ExportSubscriptionsOperator`."""

    path: str  #: the dataset; absolute if it is local
    rows: int  #: the number of subscriptions
    pages: int  #: the number of pages that the service listed
    duplicates: int  #: the number of records that came again and were left out
    restarts: int  #: how often the listing started over at its first page
    complete: bool  #: False if the service cut the listing short
    resumed: bool  #: whether it resumed what an earlier attempt had saved
    bytes: int  #: the size of the dataset
    changed: NotRequired[bool]  #: with ``if_changed``: whether the dataset was written
    #: with ``changes``, like all that follow: the file of changes, absolute if it is local; None if nothing was
    #: written, because of ``if_changed``
    changes: NotRequired[str | None]
    #: whether there was a version with the same arguments to compare with; otherwise all are added
    compared: NotRequired[bool]
    added: NotRequired[int]  #: the number of records that the version before did not have
    removed: NotRequired[int]  #: the number of its records that the service no longer has
    changed_records: NotRequired[int]  #: the number of records whose content is another one
    recovered: NotRequired[int]  #: the number of records that the service's pages left out, and that it still has
    #: the number of records of the version before that were not listed, and are not known to be gone
    kept: NotRequired[int]


class EnrichmentSummary(TypedDict):
    """The result of :class:`~airflow_provider_mediaops.operators.books.EnrichIsbnsOperator`."""

    path: str  #: the dataset; absolute if it is local
    rows: int  #: the number of rows, one for each of the list
    found: int  #: the number of rows whose book has a record
    not_found: int  #: the number of rows whose book has none
    #: the number of rows with an empty cell, or a word for one: ``nan``, ``NULL``, ``N/A``, ``-``, ``=""``, ``[]``
    missing: int
    invalid: int  #: the number of rows that hold something else than the ISBN of a book
    failed: int  #: the number of rows for which the service did not answer, up to ``max_failures``
    not_asked: int  #: the number of rows for which ``max_requests`` left no request
    reused: int  #: the number of rows that were taken from the datasets of ``reuse``; they have a status as well
    #: the number of these that are too old: ``max_requests`` left no request for them, or the service gave no new
    #: answer
    stale: int
    #: the number of these for which the service gave no new answer; they count against ``max_failures``
    refresh_failed: int
    requests: int  #: the number of requests that all attempts sent; one with many books (``bulk``) counts once
    rows_per_second: float  #: the rows a second of the last attempt
    resumed: bool  #: whether it resumed what an earlier attempt had saved
    bytes: int  #: the size of the dataset


class CapturePaths(TypedDict, total=False):
    """The files of a capture, by format."""

    txt: str  #: the report as the cluster sent it
    json: str  #: the report as JSON
    folded: str  #: a line for each stack
    kinds: str  #: the same, each line with its kind of work at the beginning
    html: str  #: the page; with several captures, one for all


class CapturedNode(TypedDict):
    """A node in a report."""

    node: str | None  #: its name, or its id
    threads: int  #: the number of its threads in the report


class NodeReading(TypedDict):
    """The CPU of a node right before a capture."""

    node: str | None  #: its name, or its id
    #: the CPU in percent: 100 means all cores of the machine or container. None if the node does not report it; the
    #: node then never counts as idle
    percent: float | None
    #: the measure: ``os`` for the machine, ``process`` for the node's own process, ``cgroup`` for its container against
    #: the limit. The connection's ``cpu_measure`` chooses; by default the highest counts
    source: Literal["os", "process", "cgroup"] | None


class HotThreadSummary(TypedDict):
    """One of the hottest threads of a capture."""

    node: str | None  #: its node
    #: its CPU in percent: 100 means one core for all of ``interval``, so several threads can have more together. None
    #: in a report on memory
    percent: float | None
    thread: str | None  #: its name
    bytes: NotRequired[int | None]  #: in a report on memory: what it allocated
    other_percent: NotRequired[float]  #: time off the processor, if the server prints it
    idle_percent: NotRequired[float]  #: idle time, if the server prints it


class KindOfWorkSummary(TypedDict):
    """A kind of work that the threads of a capture did."""

    kind: str  #: its name, for example ``search.multi_term``
    label: str  #: the kind in words
    share_percent: float  #: its share of what all threads in the report used: the CPU, or what else was measured
    threads: int  #: the number of its threads
    nodes: int  #: the number of their nodes
    index: NotRequired[str]  #: for a merge, the index, if the threads' names say it
    shard: NotRequired[int]  #: the number of its shard
    frame: NotRequired[str]  #: class and method of the frame that told it; without one, the thread pool told it
    caution: NotRequired[str]  #: only if the kind is uncertain: ``by its thread pool only`` or ``from one snapshot``


class TaskGroupSummary(TypedDict):
    """One of the heaviest groups of tasks that ran while a capture was taken."""

    node: str | None  #: its node
    action: str | None  #: the action, for example ``indices:data/read/search``
    #: the ``X-Opaque-Id`` of its requests, without a UUID at its start; ``(UUIDs)`` if they have no more than that;
    #: None without one
    opaque_id: str | None
    index: str | None  #: the names of the indices, joined by commas; None if they are not known
    #: whether it was listed at the ``start`` of the measurement, at the ``end``, at ``both``, or ``between``
    seen: Literal["start", "end", "both", "between"]
    running: int  #: the largest number of its tasks at one moment that had begun
    longest_ms: float  #: the longest time that one of them had existed, in milliseconds
    cpu_share_percent: float | None  #: its share of the CPU of the node's hot threads; None if the cluster does not say


class SingleCapture(TypedDict):
    """One capture."""

    paths: CapturePaths  #: its files by format: those of ``formats``
    taken: str | None  #: when it was asked for, in ISO 8601
    bytes: int  #: the size of the report
    nodes: list[CapturedNode]  #: the nodes in the report
    #: the CPU of the nodes, the highest first; after a spike, the reading that showed it. None if the cluster did not
    #: return it
    cpu: list[NodeReading] | None
    hottest: list[HotThreadSummary]  #: the five hottest threads of all nodes, the hottest first
    #: the five kinds of work with the highest shares; the merges of each shard count apart
    kinds: list[KindOfWorkSummary]
    missing: list[str]  #: the nodes that were asked for and are not in the report
    #: with ``running_tasks``: the five heaviest groups of tasks that ran meanwhile, without their queries
    groups: NotRequired[list[TaskGroupSummary]]
    unparsed: int  #: the number of pieces that were not understood
    #: how many entries of a list had no room, by its name: ``nodes``, ``cpu`` and ``missing`` have 50 at most, each
    #: list 5 kB, and a result less than 48 kB
    left_out: dict[str, int]


class CaptureFailure(TypedDict):
    """A capture that failed."""

    at: str  #: when, in ISO 8601
    capture: int  #: its number in the series
    error: str  #: the class of the error
    message: str  #: what happened


class CaptureSummary(SingleCapture):
    """
    The result of :class:`~airflow_provider_mediaops.operators.cluster.CaptureHotThreadsOperator`.

    It has the values of the first capture.
    """

    #: the captures after the first. If the result gets too large, they keep only the first entries of each list, then
    #: only paths and counts
    later_captures: list[SingleCapture]
    failures: list[CaptureFailure]  #: the last 20 captures that failed
    failure_count: int  #: how many failed
    timed_out: bool  #: whether ``wait_timeout`` passed without a spike, and all nodes were captured anyway


class HotNodeReading(TypedDict):
    """A node that runs hot, as :class:`~airflow_provider_mediaops.sensors.cluster.ClusterCpuSensor` returns it."""

    node_id: str  #: its id, which stays with its data
    name: str | None  #: its name
    host: str | None  #: its host name or address
    percent: float | None  #: the CPU in percent
    #: the measure: ``os`` for the machine, ``process`` for the node's own process, ``cgroup`` for its container against
    #: the limit. The connection's ``cpu_measure`` chooses; by default the highest counts
    source: Literal["os", "process", "cgroup"] | None


class HotNodesEvent(TypedDict):
    """The payload of an event of :class:`~airflow_provider_mediaops.triggers.cluster.HighCpuTrigger`."""

    nodes: list[HotNodeReading]  #: the hot nodes, the hottest first; of very many, as many as fit into 40 kB
    node_count: int  #: the number of hot nodes
    threshold: float  #: a node is hot if its CPU in percent is this or more
    sustained_for: float  #: for how many seconds every reading was so high
    cluster_conn_id: str  #: the id of the connection
    at: str  #: when, in ISO 8601


class FoundSubscription(TypedDict):
    """The result of :class:`~airflow_provider_mediaops.sensors.video.SubscriptionSensor`."""

    id: str | None  #: the subscription's identifier
    title: str | None  #: its display title


class DigestPaths(TypedDict):
    """The files of a digest, by format."""

    html: str  #: the page
    json: str  #: the same figures as JSON
    folded: str  #: a line for each stack


class DigestSeries(TypedDict):
    """The numbers of captures in a digest, by why they were taken."""

    scheduled: int  #: those without a spike: at once, or at the time limit of a wait
    spike: int  #: those at high CPU
    unknown: int  #: those whose files do not say


class DamagedFile(TypedDict):
    """A file that a digest leaves out."""

    file: str  #: its path
    reason: str  #: what is wrong with it


class Recurring(TypedDict):
    """What recurs in captures of one series."""

    #: ``scheduled``, ``spike`` or ``unknown``: the captures that count
    series: Literal["scheduled", "spike", "unknown"]
    captures: int  #: the number of captures that show it
    of: int  #: the number of captures that could have shown it


class RecurringFrame(Recurring):
    """A frame that recurs on top of stacks."""

    kind: Literal["cpu", "wait", "block", "mem"]  #: what was sampled
    frame: str  #: class and method
    share_percent: float  #: its share of what all threads of these captures used
    nodes: int  #: the number of its nodes
    new: bool  #: whether no capture of the period before has it; False if there are none
    pools: list[str]  #: its thread pools, that of the most captures first; five at most


class RecurringWork(Recurring):
    """A kind of work that recurs."""

    kind: Literal["cpu", "wait", "block", "mem"]  #: what was sampled
    work: str  #: the name of the kind of work, for example ``search.script``
    label: str  #: the kind of work in words
    share_percent: float  #: its share of what all threads of these captures used


class RecurringTasks(Recurring):
    """A group of tasks that recurs; the text of its query is in the files only."""

    action: str  #: the action
    opaque_id: str | None  #: the ``X-Opaque-Id`` that the client sent; None if there is none
    index: str | None  #: the index; None if it is unknown
    cpu_ms: float  #: the sum of its CPU in milliseconds; 0 if no cluster says
    longest_ms: float  #: the longest time that one of its tasks had existed, in milliseconds


class HotThreadsDigest(TypedDict):
    """The result of :class:`~airflow_provider_mediaops.operators.cluster_digest.HotThreadsDigestOperator`."""

    path: str  #: the page; absolute if it is local
    paths: DigestPaths  #: the files by format
    #: the most recurrent frame and the hottest kind of work of each kind of captures, and what is new: a text of at
    #: most 600 characters, fit for a bulletin
    headline: str
    since: str | None  #: the beginning of the period, in ISO 8601; None if there is none
    until: str | None  #: its end; None if there is none
    first: str  #: when the first capture was taken
    last: str  #: when the last one was taken
    captures: int  #: the number of captures
    series: DigestSeries  #: the numbers of captures by why they were taken
    outside: int  #: the number of captures of another time
    damaged: int  #: the number of files that were left out
    damaged_files: list[DamagedFile]  #: the first 20 of them
    works: list[RecurringWork]  #: the kinds of work with the highest shares, five of each series
    frames: list[RecurringFrame]  #: the five most recurrent frames of each series, without those in which threads wait
    tasks: list[RecurringTasks]  #: the five most recurrent groups of tasks of each series, without their queries
