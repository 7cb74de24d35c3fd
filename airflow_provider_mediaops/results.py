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
    """
    The result of :class:`~airflow_provider_mediaops.operators.video.ExportSubscriptionsOperator`.

    :param path: the dataset; absolute if it is local.
    :param rows: the number of subscriptions.
    :param pages: the number of pages that the service listed.
    :param duplicates: the number of records that came again and were left out.
    :param restarts: how often the listing started over at its first page.
    :param complete: False if the service cut the listing short.
    :param resumed: whether it resumed what an earlier attempt had saved.
    :param bytes: the size of the dataset.
    :param changed: with ``if_changed``: whether the dataset was written.
    :param changes: with ``changes``, like all that follow: the file of changes, absolute if it is local; None if
        nothing was written, because of ``if_changed``.
    :param compared: whether there was a version with the same arguments to compare with; otherwise all are added.
    :param added: the number of records that the version before did not have.
    :param removed: the number of its records that the service no longer has.
    :param changed_records: the number of records whose content is another one.
    :param recovered: the number of records that the service's pages left out, and that it still has.
    :param kept: the number of records of the version before that were not listed, and are not known to be gone.
    """

    path: str
    rows: int
    pages: int
    duplicates: int
    restarts: int
    complete: bool
    resumed: bool
    bytes: int
    changed: NotRequired[bool]
    changes: NotRequired[str | None]
    compared: NotRequired[bool]
    added: NotRequired[int]
    removed: NotRequired[int]
    changed_records: NotRequired[int]
    recovered: NotRequired[int]
    kept: NotRequired[int]


class EnrichmentSummary(TypedDict):
    """
    The result of :class:`~airflow_provider_mediaops.operators.books.EnrichIsbnsOperator`.

    :param path: the dataset; absolute if it is local.
    :param rows: the number of rows, one for each of the list.
    :param found: the number of rows whose book has a record.
    :param not_found: the number of rows whose book has none.
    :param missing: the number of rows with an empty cell, or a word for one: ``nan``, ``NULL``, ``N/A``, ``-``,
        ``=""``, ``[]``.
    :param invalid: the number of rows that hold something else than the ISBN of a book.
    :param failed: the number of rows for which the service did not answer, up to ``max_failures``.
    :param not_asked: the number of rows for which ``max_requests`` left no request.
    :param reused: the number of rows that were taken from the datasets of ``reuse``; they have a status as well.
    :param stale: the number of these that are too old: ``max_requests`` left no request for them, or the service gave
        no new answer.
    :param refresh_failed: the number of these for which the service gave no new answer; they count against
        ``max_failures``.
    :param requests: the number of requests that all attempts sent; one with many books (``bulk``) counts once.
    :param rows_per_second: the rows a second of the last attempt.
    :param resumed: whether it resumed what an earlier attempt had saved.
    :param bytes: the size of the dataset.
    """

    path: str
    rows: int
    found: int
    not_found: int
    missing: int
    invalid: int
    failed: int
    not_asked: int
    reused: int
    stale: int
    refresh_failed: int
    requests: int
    rows_per_second: float
    resumed: bool
    bytes: int


class CapturePaths(TypedDict, total=False):
    """
    The files of a capture, by format.

    :param txt: the report as the cluster sent it.
    :param json: the report as JSON.
    :param folded: a line for each stack.
    :param kinds: the same, each line with its kind of work at the beginning.
    :param html: the page; with several captures, one for all.
    """

    txt: str
    json: str
    folded: str
    kinds: str
    html: str


class CapturedNode(TypedDict):
    """
    A node in a report.

    :param node: its name, or its id.
    :param threads: the number of its threads in the report.
    """

    node: str | None
    threads: int


class NodeReading(TypedDict):
    """
    The CPU of a node right before a capture.

    :param node: its name, or its id.
    :param percent: the CPU in percent: 100 means all cores of the machine or container. None if the node does not
        report it: such a node never counts as one at rest.
    :param source: the measure: ``os`` for the machine, ``process`` for the node's own process, ``cgroup`` for its
        container against the limit. The connection's ``cpu_measure`` chooses; by default the highest counts.
    """

    node: str | None
    percent: float | None
    source: Literal["os", "process", "cgroup"] | None


class HotThreadSummary(TypedDict):
    """
    One of the hottest threads of a capture.

    :param node: its node.
    :param percent: its CPU in percent: 100 means one core for all of ``interval``, so several threads can have more
        together. None in a report on memory.
    :param thread: its name.
    :param bytes: in a report on memory: what it allocated.
    :param other_percent: time off the processor, if the server prints it.
    :param idle_percent: idle time, if the server prints it.
    """

    node: str | None
    percent: float | None
    thread: str | None
    bytes: NotRequired[int | None]
    other_percent: NotRequired[float]
    idle_percent: NotRequired[float]


class KindOfWorkSummary(TypedDict):
    """
    A kind of work that the threads of a capture did.

    :param kind: its name, for example ``search.multi_term``.
    :param label: the kind in words.
    :param share_percent: its share of what all threads in the report used: the CPU, or what else was measured.
    :param threads: the number of its threads.
    :param nodes: the number of their nodes.
    :param index: for a merge, the index, if the threads' names say it.
    :param shard: the number of its shard.
    :param frame: class and method of the frame that told it; without one, the thread pool told it.
    :param caution: only if the kind is uncertain: ``by its thread pool only`` or ``from one snapshot``.
    """

    kind: str
    label: str
    share_percent: float
    threads: int
    nodes: int
    index: NotRequired[str]
    shard: NotRequired[int]
    frame: NotRequired[str]
    caution: NotRequired[str]


class TaskGroupSummary(TypedDict):
    """
    One of the heaviest groups of tasks that ran while a capture was taken.

    :param node: its node.
    :param action: the action, for example ``indices:data/read/search``.
    :param opaque_id: the ``X-Opaque-Id`` of its requests, without a UUID at its start; ``(UUIDs)`` if they have no more
        than that; None without one.
    :param index: the names of the indices, joined by commas; None if they are not known.
    :param seen: whether it was listed at the ``start`` of the measurement, at the ``end``, at ``both``, or ``between``.
    :param running: the largest number of its tasks at one moment that had begun.
    :param longest_ms: the longest time that one of them had existed, in milliseconds.
    :param cpu_share_percent: its share of the CPU of the node's hot threads; None if the cluster does not say.
    """

    node: str | None
    action: str | None
    opaque_id: str | None
    index: str | None
    seen: Literal["start", "end", "both", "between"]
    running: int
    longest_ms: float
    cpu_share_percent: float | None


class SingleCapture(TypedDict):
    """
    One capture.

    :param paths: its files by format: those of ``formats``.
    :param taken: when it was asked for, in ISO 8601.
    :param bytes: the size of the report.
    :param nodes: the nodes in the report.
    :param cpu: the CPU of the nodes, the highest first; after a spike, the reading that showed it. None if the cluster
        did not return it.
    :param hottest: the five hottest threads of all nodes, the hottest first.
    :param kinds: the five kinds of work with the highest shares; the merges of each shard count apart.
    :param missing: the nodes that were asked for and are not in the report.
    :param groups: with ``running_tasks``: the five heaviest groups of tasks that ran meanwhile, without their queries.
    :param unparsed: the number of pieces that were not understood.
    :param left_out: how many entries of a list had no room, by its name: ``nodes``, ``cpu`` and ``missing`` have 50 at
        most, and a result less than 48 kB.
    """

    paths: CapturePaths
    taken: str | None
    bytes: int
    nodes: list[CapturedNode]
    cpu: list[NodeReading] | None
    hottest: list[HotThreadSummary]
    kinds: list[KindOfWorkSummary]
    missing: list[str]
    groups: NotRequired[list[TaskGroupSummary]]
    unparsed: int
    left_out: dict[str, int]


class CaptureFailure(TypedDict):
    """
    A capture that failed.

    :param at: when, in ISO 8601.
    :param capture: its number in the series.
    :param error: the class of the error.
    :param message: what happened.
    """

    at: str
    capture: int
    error: str
    message: str


class CaptureSummary(SingleCapture):
    """
    The result of :class:`~airflow_provider_mediaops.operators.cluster.CaptureHotThreadsOperator`.

    It has the values of the first capture.

    :param later_captures: the captures after the first. If the result gets too large, they keep only the hottest node
        and thread, then only paths and counts.
    :param failures: the last 20 captures that failed.
    :param failure_count: how many failed.
    :param timed_out: whether ``wait_timeout`` passed without a spike, and all nodes were captured anyway.
    """

    later_captures: list[SingleCapture]
    failures: list[CaptureFailure]
    failure_count: int
    timed_out: bool


class HotNodeReading(TypedDict):
    """
    A node that runs hot, as :class:`~airflow_provider_mediaops.sensors.cluster.ClusterCpuSensor` returns it.

    :param node_id: its id, which stays with its data.
    :param name: its name.
    :param host: its host name or address.
    :param percent: the CPU in percent.
    :param source: the measure: ``os`` for the machine, ``process`` for the node's own process, ``cgroup`` for its
        container against the limit. The connection's ``cpu_measure`` chooses; by default the highest counts.
    """

    node_id: str
    name: str | None
    host: str | None
    percent: float | None
    source: Literal["os", "process", "cgroup"] | None


class HotNodesEvent(TypedDict):
    """
    The payload of an event of :class:`~airflow_provider_mediaops.triggers.cluster.HighCpuTrigger`.

    :param nodes: the hot nodes, the hottest first; of very many, as many as fit into 40 kB.
    :param node_count: how many they are.
    :param threshold: the CPU in percent from which on a node is hot.
    :param sustained_for: for how many seconds.
    :param cluster_conn_id: the connection.
    :param at: when, in ISO 8601.
    """

    nodes: list[HotNodeReading]
    node_count: int
    threshold: float
    sustained_for: float
    cluster_conn_id: str
    at: str


class FoundSubscription(TypedDict):
    """
    The result of :class:`~airflow_provider_mediaops.sensors.video.SubscriptionSensor`.

    :param id: the subscription's identifier.
    :param title: its display title.
    """

    id: str | None
    title: str | None


class DigestPaths(TypedDict):
    """
    The files of a digest, by format.

    :param html: the page.
    :param json: the same figures as JSON.
    :param folded: a line for each stack.
    """

    html: str
    json: str
    folded: str


class DigestSeries(TypedDict):
    """
    The numbers of captures in a digest, by why they were taken.

    :param scheduled: those without a spike: at once, or at the time limit of a wait.
    :param spike: those at high CPU.
    :param unknown: those whose files do not say.
    """

    scheduled: int
    spike: int
    unknown: int


class DamagedFile(TypedDict):
    """
    A file that a digest leaves out.

    :param file: its path.
    :param reason: what is wrong with it.
    """

    file: str
    reason: str


class RecurringFrame(TypedDict):
    """
    A frame that recurs in captures.

    :param series: ``scheduled``, ``spike`` or ``unknown``: the captures that count.
    :param kind: what was sampled: ``cpu``, ``wait``, ``block`` or ``mem``.
    :param frame: class and method.
    :param captures: the number of captures in which it was on top of a stack.
    :param of: the number of captures in all.
    :param share_percent: its share of what all threads of these captures used.
    :param nodes: the number of its nodes.
    :param new: whether no capture of the period before has it; False if there are none.
    :param pools: its thread pools, that of the most captures first; five at most.
    """

    series: Literal["scheduled", "spike", "unknown"]
    kind: Literal["cpu", "wait", "block", "mem"]
    frame: str
    captures: int
    of: int
    share_percent: float
    nodes: int
    new: bool
    pools: list[str]


class RecurringWork(TypedDict):
    """
    A kind of work that recurs in captures.

    :param series: ``scheduled``, ``spike`` or ``unknown``: the captures that count.
    :param kind: what was sampled: ``cpu``, ``wait``, ``block`` or ``mem``.
    :param work: the name of the kind of work, for example ``search.script``.
    :param label: the kind of work in words.
    :param captures: the number of captures that show it.
    :param of: the number of captures in all.
    :param share_percent: its share of what all threads of these captures used.
    """

    series: Literal["scheduled", "spike", "unknown"]
    kind: Literal["cpu", "wait", "block", "mem"]
    work: str
    label: str
    captures: int
    of: int
    share_percent: float


class RecurringTasks(TypedDict):
    """
    A group of tasks that recurs in captures; the text of its query is in the files only.

    :param series: ``scheduled``, ``spike`` or ``unknown``: the captures that count.
    :param action: the action.
    :param opaque_id: the ``X-Opaque-Id`` that the client sent; None if there is none.
    :param index: the index; None if it is unknown.
    :param captures: the number of captures during which it ran.
    :param of: the number of captures that saw a task.
    :param cpu_ms: the sum of its CPU in milliseconds; 0 if no cluster says.
    :param longest_ms: the longest time that one of its tasks had existed, in milliseconds.
    """

    series: Literal["scheduled", "spike", "unknown"]
    action: str
    opaque_id: str | None
    index: str | None
    captures: int
    of: int
    cpu_ms: float
    longest_ms: float


class HotThreadsDigest(TypedDict):
    """
    The result of :class:`~airflow_provider_mediaops.operators.cluster_digest.HotThreadsDigestOperator`.

    :param path: the page; absolute if it is local.
    :param paths: the files by format.
    :param headline: the most recurrent frame of each kind of captures, and what is new: a text of at most 600
        characters, fit for a bulletin.
    :param since: the beginning of the period, in ISO 8601; None if there is none.
    :param until: its end; None if there is none.
    :param first: when the first capture was taken.
    :param last: when the last one was taken.
    :param captures: the number of captures.
    :param series: the numbers of captures by why they were taken.
    :param outside: the number of captures of another time.
    :param damaged: the number of files that were left out.
    :param damaged_files: the first 20 of them.
    :param works: the kinds of work with the highest shares, five of each series.
    :param frames: the five most recurrent frames of each series, without those in which threads wait.
    :param tasks: the five most recurrent groups of tasks of each series, without their queries.
    """

    path: str
    paths: DigestPaths
    headline: str
    since: str | None
    until: str | None
    first: str
    last: str
    captures: int
    series: DigestSeries
    outside: int
    damaged: int
    damaged_files: list[DamagedFile]
    works: list[RecurringWork]
    frames: list[RecurringFrame]
    tasks: list[RecurringTasks]
