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


class EnrichmentSummary(TypedDict):
    """
    The result of :class:`~airflow_provider_mediaops.operators.books.EnrichIsbnsOperator`.

    :param path: the dataset; absolute if it is local.
    :param rows: the number of rows, one for each of the list.
    :param found: the number of rows whose book has a record.
    :param not_found: the number of rows whose book has none.
    :param invalid: the number of rows that hold no ISBN of a book.
    :param failed: the number of rows for which the service did not answer.
    :param requests: the number of requests that all attempts sent.
    :param rows_per_second: the rows a second of the last attempt.
    :param resumed: whether it resumed what an earlier attempt had saved.
    :param bytes: the size of the dataset.
    """

    path: str
    rows: int
    found: int
    not_found: int
    invalid: int
    failed: int
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
    :param html: the page; with several captures, one for all.
    """

    txt: str
    json: str
    folded: str
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
    :param percent: the CPU in percent; None if the node does not report it.
    :param source: ``os`` for the whole machine or container, else ``process``.
    """

    node: str | None
    percent: float | None
    source: Literal["os", "process"] | None


class HotThreadSummary(TypedDict):
    """
    One of the hottest threads of a capture.

    :param node: its node.
    :param percent: its CPU in percent; None in a report on memory.
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


class SingleCapture(TypedDict):
    """
    One capture of a series.

    :param paths: its files by format.
    :param taken: when it was asked for, in ISO 8601.
    :param bytes: the size of the report.
    :param nodes: the nodes in the report.
    :param cpu: the CPU of the nodes, the highest first; None if the cluster did not return it.
    :param hottest: the hottest threads, the hottest first.
    :param missing: the nodes that were asked for and are not in the report.
    :param unparsed: the number of pieces that were not understood.
    :param left_out: how many entries of a list had no room, by its name.
    """

    paths: CapturePaths
    taken: str | None
    bytes: int
    nodes: list[CapturedNode]
    cpu: list[NodeReading] | None
    hottest: list[HotThreadSummary]
    missing: list[str]
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

    It has the values of the first capture, and those of all under ``captures``.

    :param captures: the captures of the series.
    :param failures: the last captures that failed.
    :param failure_count: how many failed.
    :param timed_out: whether ``wait_timeout`` passed without a spike.
    """

    captures: list[SingleCapture]
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
    :param source: ``os`` for the whole machine or container, else ``process``.
    """

    node_id: str
    name: str | None
    host: str | None
    percent: float | None
    source: Literal["os", "process"] | None


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
