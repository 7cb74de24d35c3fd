"""Plan captures: which hot threads, when, and how often. It loads no requests: the operator checks with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.cluster.capture.destination import MOST_CAPTURES
from airflow_provider_mediaops.cluster.cpu import CpuWatch
from airflow_provider_mediaops.cluster.query import HotThreadsQuery, check_show_queries
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

ON_TIMEOUT = ("skip", "fail", "capture")

# Some thirty years: clocks and sockets overflow at longer times.
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
        if self.on_timeout not in ON_TIMEOUT:
            raise InvalidArgumentError(f"on_timeout is one of {', '.join(ON_TIMEOUT)}; not {self.on_timeout!r}.")
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
