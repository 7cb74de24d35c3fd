"""Plan captures: which hot threads, when, and how often. It loads no requests: operator and notifier check with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.arguments import (
    read_choice,
    read_flag,
    read_identifier,
    read_path,
    read_seconds,
    read_whole_number,
)
from airflow_provider_mediaops.cluster.capture.destination import MOST_CAPTURES, capture_paths
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch, read_percentage
from airflow_provider_mediaops.cluster.query import QUERY_DEFAULTS, HotThreadsQuery, check_show_queries
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ON_TIMEOUT = ("skip", "fail", "capture")
# The arguments about the wait, with their defaults.
_WAIT = {"sustained_for": 0, "require": "any", "poll_interval": 30, "wait_timeout": None, "on_timeout": "skip"}
_DEFAULTS = {
    **QUERY_DEFAULTS,
    **_WAIT,
    "when_cpu_above": None,
    "captures": 1,
    "every": 10,
    "running_tasks": False,
    "show_queries": False,
}
# The values of these that fit all values of the others: they stand for templates until those are rendered.
_STAND_INS = {"when_cpu_above": 0, "running_tasks": True}
# Some thirty years: clocks and sockets overflow at longer times, and dates beyond are not dates.
_LONGEST = 1e9


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """
    Which hot threads to capture, when, and how often.

    :param query: which hot threads; after a spike, those of the hot nodes.
    :param watch: the spike to wait for, of the query's nodes; None captures at once.
    :param poll_interval: seconds between two readings of the CPU.
    :param on_timeout: ``capture`` takes what there is at the time limit; ``skip`` and ``fail`` take nothing.
    :param captures: how many captures are taken of one spike.
    :param every: seconds from one capture to the next.
    :param running_tasks: whether the tasks of the nodes are looked at meanwhile.
    :param show_queries: whether their queries are kept with the literals.
    :raises ValueError: if a value is invalid or not a number.
    """

    query: HotThreadsQuery
    watch: CpuWatch | None = None
    poll_interval: float = 30.0
    on_timeout: Literal["skip", "fail", "capture"] = "skip"
    captures: int = 1
    every: float = 10.0
    running_tasks: bool = False
    show_queries: bool = False

    def __post_init__(self) -> None:
        for name in ("poll_interval", "every"):
            if not 0 < getattr(self, name) <= _LONGEST:
                raise InvalidArgumentError(
                    f"{name} is a number of seconds above 0, up to {_LONGEST:g}; not {getattr(self, name)!r}."
                )
        object.__setattr__(self, "on_timeout", read_choice("on_timeout", self.on_timeout, ON_TIMEOUT))
        if type(self.captures) is not int or not 1 <= self.captures <= MOST_CAPTURES:
            raise InvalidArgumentError(f"captures is a whole number, 1 to {MOST_CAPTURES}; not {self.captures!r}.")
        check_show_queries(running_tasks=self.running_tasks, show_queries=self.show_queries)

    @property
    def seconds(self) -> float:
        """How long the captures may take, from the first one on."""
        return self.captures * (self.every + self.query.read_timeout)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, as a trigger serializes them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> CapturePlan:
        """
        Make a plan again.

        :raises ValueError: if a value is invalid.
        :raises TypeError: if the fields are not those of this version.
        """
        query, watch = HotThreadsQuery(**fields["query"]), fields["watch"]
        return cls(**{**fields, "query": query, "watch": CpuWatch(**watch) if watch else None})


def check_capture(given: Mapping[str, Any], is_unknown: Callable[..., bool], default_timeout: float = 0.0) -> None:
    """Check the arguments of a capture that are known."""
    known = {name: value for name, value in given.items() if not is_unknown(value)}
    read_identifier("cluster_conn_id", known.get("cluster_conn_id", "any"))
    stand_ins = {name: value for name, value in _STAND_INS.items() if name in given}
    read_plan({**stand_ins, **known}, default_timeout)
    capture_paths(read_path("destination", known.get("destination", "any")), known.get("formats", "txt"))


def read_plan(given: Mapping[str, Any], default_timeout: float = 0.0) -> tuple[CapturePlan, float]:
    """Make the plan of the captures, and return it with the longest time to wait for a spike, in seconds."""
    arguments = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    query = HotThreadsQuery(**{name: arguments[name] for name in QUERY_DEFAULTS})
    watch, limit = None, 0.0
    if arguments["when_cpu_above"] is not None:
        threshold = read_percentage("when_cpu_above", arguments["when_cpu_above"])
        watch = CpuWatch(threshold, arguments["sustained_for"], query.nodes, arguments["require"])
        limit = _limit(default_timeout if arguments["wait_timeout"] is None else arguments["wait_timeout"], watch)
    elif waits := [name for name, default in _WAIT.items() if arguments[name] != default]:
        raise InvalidArgumentError(f"{' and '.join(waits)} are about the wait for a spike: give when_cpu_above, too.")
    plan = CapturePlan(
        query,
        watch,
        poll_interval=read_seconds("poll_interval", arguments["poll_interval"]),
        on_timeout=arguments["on_timeout"],
        captures=read_whole_number("captures", arguments["captures"]),
        every=read_seconds("every", arguments["every"]),
        running_tasks=read_flag("running_tasks", arguments["running_tasks"]),
        show_queries=read_flag("show_queries", arguments["show_queries"]),
    )
    return plan, limit


def _limit(wait_timeout: object, watch: CpuWatch) -> float:
    limit = read_seconds("wait_timeout", wait_timeout)
    if not 0 < limit < _LONGEST:
        raise InvalidArgumentError(f"wait_timeout is a number of seconds above 0; not {wait_timeout!r}.")
    if watch.sustained_for >= limit:
        raise InvalidArgumentError(
            f"sustained_for ({watch.sustained_for:g} s) must be shorter than wait_timeout ({limit:g} s), or the wait "
            "can only time out."
        )
    return limit
