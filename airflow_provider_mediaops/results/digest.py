"""Types of the result of a digest, which asks no service: it reads the files of captures."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


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
