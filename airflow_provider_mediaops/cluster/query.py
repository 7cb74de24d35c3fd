"""Read what a report is asked with: the nodes, and its parameters. It loads no requests: operators check with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from airflow_provider_mediaops.arguments import read_choice, read_flag, read_texts, read_whole_number, shown
from airflow_provider_mediaops.exceptions import InvalidArgumentError

#: The values of ``type``: the time that hot threads sample.
SAMPLING_TYPES = ("cpu", "wait", "block")

# What templates write for all nodes.
_ALL = "_all"
# Addresses, which not every version and service shows as it compares them; with patterns of them.
_ADDRESS = re.compile(r"[0-9.*]+")
_TIME = re.compile("([0-9]{1,18})(nanos|micros|ms|s|m|h|d)")
_SECONDS = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Seconds that a node pauses after each snapshot of its threads.
_SNAPSHOT = 0.01
# Seconds beyond the asked-for times: a call queues behind others on the same node.
_MARGIN = 10.0
# The servers read a Java integer.
_LARGEST_INTEGER = 2**31 - 1
# Some thirty years: sockets take no figure beyond ten times of that.
_LONGEST = 1e9


def node_list(nodes: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """
    Parse a list of nodes, ids, names or filters, in a list or in one text with commas; None stands for all nodes.

    Raise InvalidArgumentError for a list without entries, which the cluster would take for all nodes.
    """
    if nodes is None:
        return None
    # A template cannot make None of an event that names no node.
    named = read_texts(
        "nodes",
        nodes,
        if_empty="For all nodes leave nodes out, or write '_all': in a template {{ … | join(',') or '_all' }}.",
    )
    # As segments of a path, they lead to another path.
    if {".", ".."} & set(named):
        raise InvalidArgumentError(f"nodes holds names or ids of nodes; not {shown(nodes)}.")
    return None if set(named) == {_ALL} else named


def is_plain(selectors: tuple[str, ...] | None) -> bool:
    """
    Return whether a list of nodes has only names, ids and patterns of names.

    The rest only the cluster can resolve: ``_local`` and its kin, ``attribute:value``, roles (which may also take nodes
    out of the list) and addresses.
    """
    return all(
        not entry.startswith("_") and ":" not in entry and (entry == "*" or not _ADDRESS.fullmatch(entry))
        for entry in selectors or ()
    )


@dataclass(slots=True)
class HotThreadsQuery:
    """
    The parameters of ``GET /_nodes/hot_threads``.

    Raise InvalidArgumentError for a value that the cluster would refuse, and for a ``timeout`` that is shorter than the
    sampling: ``interval`` and 10 ms for each snapshot. Times are whole numbers with a unit (nanos, micros, ms, s, m, h,
    d).
    """

    # Ids, names or filters, in a list or in one text with commas; None for all.
    nodes: str | Sequence[str] | None = None
    ignore_idle_threads: bool = True  # leave out known ones
    interval: str = "500ms"  # the time over which threads are measured
    snapshots: int = 10  # samples of each thread's stack
    threads: int = 3  # of each node; a large number reports all
    type: str = "cpu"
    master_timeout: str = "30s"  # the time in which the cluster has to find its master
    timeout: str = "30s"  # the time in which the nodes have to answer

    def __post_init__(self) -> None:
        # A list, as a trigger's arguments come back from Airflow's database.
        self.nodes = nodes if (nodes := node_list(self.nodes)) is None else list(nodes)
        self.ignore_idle_threads = read_flag("ignore_idle_threads", self.ignore_idle_threads)
        self.snapshots = read_whole_number("snapshots", self.snapshots, minimum=1, maximum=_LARGEST_INTEGER)
        self.threads = read_whole_number("threads", self.threads, minimum=1, maximum=_LARGEST_INTEGER)
        self.type = read_choice("type", self.type, SAMPLING_TYPES)
        _seconds("master_timeout", self.master_timeout)
        # The servers answer 200 with an empty report, always: each node sleeps for the interval before it replies.
        sampling = self.interval_seconds + self.snapshots * _SNAPSHOT
        if _seconds("timeout", self.timeout) < sampling:
            raise InvalidArgumentError(
                f"timeout={self.timeout} is shorter than the sampling, so no node could answer in time: "
                f"interval={self.interval} and snapshots={self.snapshots} take at least {sampling:.2f} s. "
                "Raise timeout, or lower interval."
            )

    @property
    def interval_seconds(self) -> float:
        """The time over which threads are measured, in seconds."""
        return _seconds("interval", self.interval)

    @property
    def read_timeout(self) -> float:
        """The seconds to wait for the reply: more than the cluster was asked to take."""
        master, nodes = _seconds("master_timeout", self.master_timeout), _seconds("timeout", self.timeout)
        return min(self.interval_seconds * self.snapshots + master + nodes + _MARGIN, _LONGEST)


#: The parameters of a report with their defaults: for operator, notifier and hook, whose signatures repeat them.
QUERY_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(HotThreadsQuery)}


def check_show_queries(*, running_tasks: bool, show_queries: bool) -> None:
    """Make sure that ``show_queries`` comes with ``running_tasks``."""
    if show_queries and not running_tasks:
        raise InvalidArgumentError("show_queries shows the queries of running tasks: give running_tasks=True, too.")


def _seconds(name: str, time: object) -> float:
    match = _TIME.fullmatch(time) if isinstance(time, str) else None
    if match is None:
        raise InvalidArgumentError(
            f"{name} is a whole number with a unit (nanos, micros, ms, s, m, h or d), such as '500ms'; "
            f"not {shown(time)}."
        )
    return int(match[1]) * _SECONDS[match[2]]
