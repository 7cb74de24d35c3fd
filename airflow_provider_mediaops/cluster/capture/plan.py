"""
Plan captures: which hot threads, when and why, for which task, and the names of the files.

It loads no requests: operator and notifier check their arguments with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from airflow_provider_mediaops.arguments import (
    read_choice,
    read_flag,
    read_identifier,
    read_path,
    read_seconds,
    read_texts,
    read_whole_number,
    refused,
    shown,
)
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch, read_percentage
from airflow_provider_mediaops.cluster.query import QUERY_DEFAULTS, HotThreadsQuery, check_show_queries
from airflow_provider_mediaops.exceptions import InvalidArgumentError

#: The file formats of a capture, in this order: the text as it came, the report that was read from it, its stacks
#: for flame-graph tools, the same below their kinds of work, and a page for people.
FORMATS = ("txt", "json", "folded", "kinds", "html")
#: The most captures of one spike: their summaries share one XCom, and their reports one page.
MOST_CAPTURES = 50

Reason = Literal["spike", "time_limit", "at_once"]
"""Why a capture is taken: nodes ran hot; the time limit of the wait came first; or without any wait."""

ON_TIMEOUT = ("skip", "fail", "capture")
# The arguments about the wait, with their defaults.
_WAIT = {"sustained_for": 0, "require": "any", "poll_interval": 30, "wait_timeout": None, "on_timeout": "skip"}
# The values of these that fit all values of the others: they stand for templates until those are rendered.
_STAND_INS = {"when_cpu_above": 0, "running_tasks": True}
# In seconds: no wait is shorter. Some thirty years: clocks and sockets overflow at longer times.
_SHORTEST, _LONGEST = 1e-3, 1e9


def capture_paths(destination: str, formats: str | Sequence[str], number: int | None = None) -> dict[str, str]:
    """
    Name the files of a capture by format, in the order in which they are written.

    They are the destination, its suffix exchanged for each format's own. The captures of a series are numbered, and
    share one page. A destination that names no file is an InvalidArgumentError.
    """
    wanted = read_formats(formats)
    stem, dot, suffix = destination.rpartition(".")
    stem = stem if dot and suffix in FORMATS else destination
    if not stem or stem.endswith("/"):
        raise InvalidArgumentError(f"destination is the path of a file; not {shown(destination)}.")
    own = stem if number is None else f"{stem}.{number}"
    return {name: f"{stem if name == 'html' else own}.{name}" for name in FORMATS if name in wanted}


def read_formats(formats: object) -> tuple[str, ...]:
    """Read the formats of a capture."""
    wanted = read_texts("formats", formats)
    if not set(wanted) <= set(FORMATS) or len(set(wanted)) != len(wanted):
        raise refused("formats", formats, f"lists one or more of {', '.join(FORMATS)}, each once")
    return wanted


@dataclass(frozen=True, slots=True)
class TakenFor:
    """The task attempt or DAG run for which a capture is taken; None for what is unknown."""

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None  # None if the capture is for a whole run, too
    try_number: int | None = None
    map_index: int | None = None  # None if the task is not mapped, too

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> TakenFor:
        """Read the task attempt from the context of a task or of a callback."""
        # A DAG's callback has the task that ended last, for which the capture is not taken.
        ti = None if "reason" in context else context.get("ti")
        map_index = getattr(ti, "map_index", None)
        return cls(
            dag_id=getattr(ti, "dag_id", None) or getattr(context.get("dag_run") or context.get("dag"), "dag_id", None),
            run_id=getattr(ti, "run_id", None) or context.get("run_id"),
            task_id=getattr(ti, "task_id", None),
            try_number=getattr(ti, "try_number", None),
            map_index=None if map_index == -1 else map_index,
        )


def why(watch: CpuWatch | None, *, timed_out: bool = False) -> tuple[Reason, str]:
    """Return why a capture is taken: in a word for programs, and in words for the page."""
    if watch is None:
        return "at_once", "at once, without waiting for high CPU"
    long = f" for {watch.sustained_for:g} s" if watch.sustained_for else ""
    spike = f"CPU ≥ {watch.threshold:g} %{long}, {watch.require} of the watched nodes"
    return ("time_limit", f"at the time limit of the wait; not seen: {spike}") if timed_out else ("spike", spike)


@dataclass(slots=True)
class CapturePlan:
    """Which hot threads to capture, when, and how often; ValueError if a value is invalid."""

    query: HotThreadsQuery  # after a spike, it is limited to the hot nodes
    watch: CpuWatch | None = None  # the spike to wait for, of the query's nodes; None captures at once
    poll_interval: float = 30.0  # seconds between two readings of the CPU
    on_timeout: str = "skip"  # or ``fail``; only ``capture`` takes anything at the time limit
    captures: int = 1  # of one spike
    every: float = 10.0  # seconds from one capture to the next
    running_tasks: bool = False  # whether the tasks of the nodes are looked at meanwhile
    show_queries: bool = False  # whether their queries are kept with the literals

    def __post_init__(self) -> None:
        self.poll_interval = _read_time("poll_interval", self.poll_interval)
        self.every = _read_time("every", self.every)
        self.captures = read_whole_number("captures", self.captures, minimum=1, maximum=MOST_CAPTURES)
        self.on_timeout = read_choice("on_timeout", self.on_timeout, ON_TIMEOUT)
        self.running_tasks = read_flag("running_tasks", self.running_tasks)
        self.show_queries = read_flag("show_queries", self.show_queries)
        check_show_queries(running_tasks=self.running_tasks, show_queries=self.show_queries)

    @property
    def seconds(self) -> float:
        """How long the captures may take, from the first one on."""
        return self.captures * (self.every + self.query.read_timeout)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, as a trigger serializes them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CapturePlan:
        """Make a plan again; ValueError for an invalid value, TypeError for the fields of another version."""
        query, watch = HotThreadsQuery(**values["query"]), values["watch"]
        return cls(**{**values, "query": query, "watch": CpuWatch(**watch) if watch else None})


def check_capture(given: Mapping[str, Any], is_unknown: Callable[..., bool], default_timeout: float = 0.0) -> None:
    """Check the arguments of a capture that are known."""
    known = {name: value for name, value in given.items() if not is_unknown(value)}
    read_identifier("cluster_conn_id", known.get("cluster_conn_id", "any"))
    stand_ins = {name: value for name, value in _STAND_INS.items() if name in given}
    read_plan({**stand_ins, **known}, default_timeout)
    capture_paths(read_path("destination", known.get("destination", "any")), known.get("formats", "txt"))


def read_plan(given: Mapping[str, Any], default_timeout: float = 0.0) -> tuple[CapturePlan, float]:
    """Make the plan of the captures, and return it with the longest time to wait for a spike, in seconds."""
    query = HotThreadsQuery(**{name: given[name] for name in QUERY_DEFAULTS if name in given})
    wait = {name: given.get(name, default) for name, default in _WAIT.items()}
    watch, limit = None, 0.0
    if given.get("when_cpu_above") is not None:
        threshold = read_percentage("when_cpu_above", given["when_cpu_above"])
        watch = CpuWatch(threshold, wait["sustained_for"], query.nodes, wait["require"])
        limit = _read_time("wait_timeout", default_timeout if wait["wait_timeout"] is None else wait["wait_timeout"])
        if watch.sustained_for >= limit:
            raise InvalidArgumentError(
                f"sustained_for ({watch.sustained_for:g} s) must be shorter than wait_timeout ({limit:g} s), or the "
                "wait can only time out."
            )
    elif waits := [name for name, default in _WAIT.items() if wait[name] != default]:
        raise InvalidArgumentError(f"{' and '.join(waits)} are about the wait for a spike: give when_cpu_above, too.")
    own = [field.name for field in fields(CapturePlan)]
    return CapturePlan(query, watch, **{name: given[name] for name in own if name in given}), limit


def _read_time(name: str, value: object) -> float:
    return read_seconds(name, value, minimum=_SHORTEST, maximum=_LONGEST)
