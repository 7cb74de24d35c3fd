"""Waiting for nodes to run hot."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from airflow_provider_mediaops.cluster.api import node_list, node_stats
from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.http.waiting import Done, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.http.exchange import Ask, Conversation
    from airflow_provider_mediaops.http.waiting import Verdict

_HIGHEST = 100
# The one streak that all nodes make together.
_TOGETHER = "all"

#: The hot nodes by whose streak they count for. Nobody in it: the streak is broken. Not in it: nothing is known.
Reading = dict[str, "list[NodeCpu]"]


@dataclass(frozen=True, slots=True)
class CpuWatch:
    """
    Nodes whose CPU is at or above a threshold, and stays there.

    :param threshold: CPU in percent, 0 to 100.
    :param sustained_for: for how many seconds each reading must be at or above it; 0 takes a single reading.
    :param nodes: ids or names of the nodes to look at, in a list or in one text with commas; None for all.
    :param require: ``any``: one node's readings suffice; ``all``: all nodes must be at or above it at the same time.
    :param reading_interval: the most seconds between two readings while nodes are hot.
    :raises ValueError: for what can never be, or is no figure.
    """

    threshold: float
    sustained_for: float = 0.0
    nodes: str | Sequence[str] | None = None
    require: Literal["any", "all"] = "any"
    reading_interval: float = 10.0

    def __post_init__(self) -> None:
        node_list(self.nodes)
        if not 0 <= self.threshold <= _HIGHEST:
            raise ValueError(f"threshold is a percentage, 0 to {_HIGHEST}; not {self.threshold!r}.")
        if not 0 <= self.sustained_for < float("inf"):
            raise ValueError(f"sustained_for is a number of seconds, 0 or more; not {self.sustained_for!r}.")
        if not 0 < self.reading_interval < float("inf"):
            raise ValueError(f"reading_interval is a number of seconds above 0; not {self.reading_interval!r}.")
        if self.require not in ("any", "all"):
            raise ValueError(f"require is any or all; not {self.require!r}.")

    def look(self, ask: Ask, monotonic: Callable[[], float] = time.monotonic) -> Conversation[Verdict]:
        """
        Read the CPU and, while nodes are hot, go on reading until they have been for long enough, or no longer are.

        So a wait that is interrupted between two looks loses nothing: no streak reaches from one into the next. A
        reading that does not tell a node's CPU, and one that fails for a time, neither breaks a streak nor makes one;
        but nothing known of a node for as long as ``sustained_for`` ends its streak.

        :param ask: makes a conversation of a call.
        :param monotonic: seconds that never run backwards.
        :returns: a conversation; done with the nodes and their CPU, the hottest first.
        :raises NotFoundError: where the cluster knows none of the nodes.
        """
        call = node_stats(self.nodes)
        streaks = _Streaks(self.sustained_for)
        failure: TemporaryError | None = None
        stats = yield from ask(call)
        reading = self._reading(stats)
        while True:
            if hot := streaks.add(reading, monotonic()):
                return Done([_described(node) for node in sorted(hot, key=lambda node: -(node.percent or 0))])
            if not streaks.since:
                if failure:
                    raise failure
                return Waiting(self._seen(stats))
            pause = min(self.reading_interval, streaks.shortest_rest(monotonic()))
            asked = failure.retry_after if failure else None
            yield Wait(max(pause, asked or 0.0), self._why_wait(failure))
            reading, failure = {}, None
            try:
                stats = yield from ask(call)
                reading = self._reading(stats)
            except TemporaryError as error:
                failure = error

    def _reading(self, stats: NodeStats) -> Reading:
        known = [node for node in stats.nodes if node.percent is not None]
        hot = [node for node in known if node.percent is not None and node.percent >= self.threshold]
        if self.require == "any":
            return {node.node_id: [node] if node in hot else [] for node in known}
        if not known:
            return {}
        return {_TOGETHER: hot if len(hot) == len(known) else []}

    def _seen(self, stats: NodeStats) -> str:
        unknown = stats.unknown(node_list(self.nodes))
        silent = [node.label for node in stats.nodes if node.percent is None]
        if len(silent) == len(stats.nodes):
            seen = "no node tells its CPU"
        else:
            which = "no node's CPU is" if self.require == "any" else "the CPU of the nodes is not all"
            long = f" for {self.sustained_for:g} s" if self.sustained_for else ""
            seen = f"{which} at {self.threshold:g} % or more{long}"
            seen += f"; not known of {', '.join(silent)}" if silent else ""
        return seen + (f"; the cluster knows no node {', '.join(unknown)}" if unknown else "")

    def _why_wait(self, failure: TemporaryError | None) -> str:
        hot = f"the CPU is at {self.threshold:g} % or more; is it for {self.sustained_for:g} s?"
        return f"{hot} The last reading failed: {failure.message}" if failure else hot


@dataclass(slots=True)
class _Streaks:
    """
    Since when what has been hot without a break.

    :param needed: how many seconds make a streak.
    :param since: the time of the first reading of each streak.
    """

    needed: float
    since: dict[str, float] = field(default_factory=dict)
    _known: dict[str, float] = field(default_factory=dict)

    def add(self, reading: Mapping[str, list[NodeCpu]], now: float) -> list[NodeCpu]:
        """Add a reading; give the nodes whose streaks it makes long enough."""
        for whose, hot in reading.items():
            if hot:
                self._known[whose] = now
                self.since.setdefault(whose, now)
            else:
                self.since.pop(whose, None)
        made = [whose for whose, hot in reading.items() if hot and now - self.since[whose] >= self.needed]
        self.since = {whose: start for whose, start in self.since.items() if now - self._known[whose] < self.needed}
        return [node for whose in made for node in reading[whose]]

    def shortest_rest(self, now: float) -> float:
        """Give the seconds until the first streak is long enough; those that are wait for a reading that says so."""
        rests = [self.needed - (now - start) for start in self.since.values()]
        return min((rest for rest in rests if rest > 0), default=float("inf"))


def _described(node: NodeCpu) -> dict[str, str | float | None]:
    return {
        "node_id": node.node_id,
        "name": node.name,
        "host": node.host,
        "percent": node.percent,
        "source": node.source,
    }
