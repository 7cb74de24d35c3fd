"""The CPU of a cluster's nodes: readings, streaks of high ones, and spikes that are reported once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.arguments import read_choice, read_number, read_seconds, shown
from airflow_provider_mediaops.cluster.query import node_list
from airflow_provider_mediaops.cluster.text import listed
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.json_text import fitting, storable
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.waiting import Done, Waiting, Watch

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.waiting import Verdict

_HIGHEST = 100
# In seconds: no pause is shorter.
_SHORTEST = 1e-3
# The one streak that all nodes make together; no id of a node is that short.
_TOGETHER = "all"
#: Nodes that left the cluster while they were hot never cool down: of these, and in the state that is kept, the oldest
#: are forgotten first.
MOST_NODES = 1000
# A cluster has hundreds of nodes; a line of the log names some.
_NAMED = 20

# XComs and events are kept below 48 kB, because they stay in Airflow's metadata database.
_DESCRIBED_BYTES = 40 * 1000
_LONGEST_NAME = 256


@dataclass(slots=True)
class CpuWatch(Watch):
    """Nodes whose CPU is at or above a threshold, and stays there; ValueError if a value cannot be used."""

    threshold: float  # percent, 0 to 100
    # Seconds for which each reading must be at or above it; 0 takes a single reading.
    sustained_for: float = 0.0
    nodes: str | Sequence[str] | None = None  # ids or names, in a list or in one text with commas; None for all
    require: str = "any"  # or ``all``: all nodes must be at or above it at the same time, and the CPU of each known
    reading_interval: float = 10.0  # the most seconds between two readings while nodes are hot

    may_return: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # A list: the row of a trigger holds it.
        self.nodes = nodes if (nodes := node_list(self.nodes)) is None else list(nodes)
        self.threshold = read_percentage("threshold", self.threshold)
        self.sustained_for = read_seconds("sustained_for", self.sustained_for)
        self.reading_interval = read_seconds("reading_interval", self.reading_interval, minimum=_SHORTEST)
        self.require = read_choice("require", self.require, ("any", "all"))

    @classmethod
    def check(cls, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        """Check the fields that are known."""
        cls(**{"threshold": 0, **{name: value for name, value in given.items() if not is_unknown(value)}})

    @property
    def decides_at_once(self) -> bool:
        """Whether a single high reading suffices."""
        return not self.sustained_for

    @property
    def limit(self) -> str:
        """The threshold and the time, in words."""
        return f"{self.threshold:g} % or more" + (f" for {self.sustained_for:g} s" if self.sustained_for else "")

    def look(self, ask: Ask) -> CallFlow[NodeStats]:
        """Return a call flow that reads the CPU of the nodes; NotFoundError if the cluster knows none of them."""
        from airflow_provider_mediaops.cluster.api import node_stats

        return ask(node_stats(self.nodes))

    def judge(self, monotonic: Callable[[], float]) -> Callable[[NodeStats | None], Verdict]:
        """Return the function that judges readings; see :meth:`~airflow_provider_mediaops.waiting.Watch.judge`."""
        streaks = Streaks(self)
        return lambda stats: streaks.judge(stats, monotonic())

    def result(self, value: Spike) -> list[dict[str, str | float | None]]:
        """Return the nodes of a spike and their CPU, the hottest first."""
        return described(value.nodes)

    def seen(self, stats: NodeStats) -> str:
        """Return the state of nodes that are not hot, in words that stay the same while nothing changes."""
        if all(node.percent is None for node in stats.nodes):
            if stats.measure == "auto":
                return "no node reports its CPU"
            return f"no node reports its CPU by cpu_measure={stats.measure}, as the connection asks"
        which = "no node's CPU is" if self.require == "any" else "not all nodes have their CPU"
        silent = _silent(stats)
        return f"{which} at {self.limit}{silent and '; '}{silent}"

    def lack(self, stats: NodeStats) -> str:
        """Return why a reading does not show whether the nodes are hot; empty if it does."""
        known = [node.percent for node in stats.nodes if node.percent is not None]
        if not known:
            return self.seen(stats)
        # A single node that is not hot answers for all.
        return "" if self.require == "any" or min(known) < self.threshold else self._missing(stats)

    def remark(self, stats: NodeStats) -> str:
        """Return a warning of nodes that are missing in a reading; empty if none is."""
        missing = self._missing(stats) if self.require == "all" else self._absent(stats)
        so = ", so require=all is not met" if self.require == "all" else ""
        return f"Only some of the nodes are watched{so}: {missing}." if missing else ""

    def _missing(self, stats: NodeStats) -> str:
        return "; ".join(filter(None, (self._absent(stats), _silent(stats))))

    def _absent(self, stats: NodeStats) -> str:
        """Return how many nodes did not answer, and which of the requested ones; empty if none is missing."""
        unknown = listed(stats.unknown(node_list(self.nodes)), _NAMED)
        if not stats.failed:
            return unknown and f"the cluster knows no node {unknown}"
        # One that failed has an id in its failure at best, so it looks like one that does not exist.
        absent = f"; not in its reply: {unknown}" if unknown else ""
        return f"the cluster gave no statistics of {counted(stats.failed, 'node')}{absent}"


def _silent(stats: NodeStats) -> str:
    silent = [node.label for node in stats.nodes if node.percent is None]
    return f"not known of {listed(silent, _NAMED)}" if silent else ""


class Spike(NamedTuple):
    """Nodes that have been hot for long enough."""

    nodes: tuple[NodeCpu, ...]  # the hottest first
    stats: NodeStats  # the whole reading that showed it


class Streaks:
    """The streaks of a watch: since when which nodes have been hot without a break."""

    def __init__(self, watch: CpuWatch) -> None:
        self.watch = watch
        # By the node whose streak it is: the times of its first and of its last high reading.
        self._since: dict[str, tuple[float, float]] = {}

    def add(self, stats: NodeStats | None, now: float) -> list[NodeCpu]:
        """
        Add a reading; return the nodes whose streaks it makes long enough, the hottest first.

        A reading that failed, which is None, neither breaks a streak nor makes one.
        """
        made: list[NodeCpu] = []
        needed = self.watch.sustained_for
        for whose, hot in ({} if stats is None else self._read(stats)).items():
            start = self._since.pop(whose, (now, now))[0]
            if hot:
                self._since[whose] = (start, now)
                made += hot if now - start >= needed else []
        # A watch without end sees any number of nodes come and go.
        self._since = {whose: times for whose, times in self._since.items() if now - times[1] < needed}
        return sorted(made, key=lambda node: -(node.percent or 0))

    def judge(self, stats: NodeStats | None, now: float) -> Verdict:
        """Judge readings, one after the other: done with a :class:`Spike`."""
        hot, watch = self.add(stats, now), self.watch
        within = self.pause(now) if self.running else None
        if stats is None:
            return Waiting(within=within)
        remark, lack = watch.remark(stats), watch.lack(stats)
        if hot:
            metrics.count("cluster.spikes")
            by_name = sorted(f"{node.label} ({node.measured_in})" for node in hot)
            seen = f"CPU at {watch.threshold:g} % or more: {listed(by_name, _NAMED)}"
            return Done(Spike(tuple(hot), stats), remark, seen)
        if within is None:
            return Waiting(watch.seen(stats), None, remark, lack)
        # Two readings that are minutes apart would prove no streak.
        seen = f"the CPU is at {watch.threshold:g} % or more, but not yet for {watch.sustained_for:g} s"
        return Waiting(seen, within, remark, lack)

    @property
    def running(self) -> bool:
        """Whether there are nodes of which it is open whether they are hot for long enough."""
        return bool(self._since)

    def pause(self, now: float) -> float:
        """Return the seconds until the next reading, while streaks run: at most until the first is long enough."""
        rests = [self.watch.sustained_for - (now - start) for start, _ in self._since.values()]
        return min([self.watch.reading_interval, *(rest for rest in rests if rest > 0)])

    def _read(self, stats: NodeStats) -> dict[str, list[NodeCpu]]:
        """Return the hot nodes by whose streak they count for: nobody breaks the streak; of others nothing is known."""
        known = [node for node in stats.nodes if node.percent is not None]
        hot = {node.node_id: node for node in known if (node.percent or 0.0) >= self.watch.threshold}
        if self.watch.require == "any":
            return {node.node_id: [node] if node.node_id in hot else [] for node in known}
        if self.watch.lack(stats):
            return {}
        return {_TOGETHER: list(hot.values()) if len(hot) == len(known) else []}


class Hysteresis(Streaks):
    """
    Streaks that are reported once: a reported node stays hot until it has cooled down, and is not reported until then.

    It has cooled down below ``clear_below`` percent, the threshold or less; None for the threshold. With
    ``require="any"`` each node has spikes of its own; with ``all`` the nodes have them together, and the spike is over
    as soon as one of them cools down. Only a reading with a node's CPU can cool it down: one that failed, or lacks the
    figure or the node, says nothing.
    """

    def __init__(self, watch: CpuWatch, clear_below: object = None) -> None:
        super().__init__(watch)
        given = watch.threshold if clear_below is None else clear_below
        self.clear_below = read_percentage("clear_below", given)
        if not watch.threshold > 0:
            raise InvalidArgumentError(f"threshold is a percentage above 0; not {watch.threshold:g}.")
        if not 0 < self.clear_below <= watch.threshold:
            raise InvalidArgumentError(
                f"clear_below is a percentage above 0, up to the threshold ({watch.threshold:g}); not {shown(given)}."
            )
        self._hot: dict[str, None] = {}

    def add(self, stats: NodeStats | None, now: float) -> list[NodeCpu]:
        """Add a reading; return the nodes that it makes hot, the hottest first."""
        if stats is None:
            return super().add(None, now)
        for node in stats.nodes:
            if node.percent is not None and node.percent < self.clear_below:
                self._hot.pop(node.node_id, None)
                self._hot.pop(_TOGETHER, None)
        rest = () if _TOGETHER in self._hot else (node for node in stats.nodes if node.node_id not in self._hot)
        nodes = super().add(replace(stats, nodes=tuple(rest)), now)
        if nodes:
            self._hot |= dict.fromkeys([node.node_id for node in nodes] if self.watch.require == "any" else [_TOGETHER])
            self._forget_gone(stats)
        return nodes

    @property
    def hot(self) -> tuple[str, ...]:
        """The ids of the reported nodes that have not cooled down; ``all`` for all of them together."""
        return tuple(self._hot)

    def restore(self, hot: object) -> None:
        """Take up the ids that :attr:`hot` had before a restart; raise ValueError for anything else."""
        if not isinstance(hot, list) or not all(isinstance(whose, str) for whose in hot):
            raise ValueError("What was kept is no list of nodes.")
        self._hot |= dict.fromkeys(hot)

    def _forget_gone(self, stats: NodeStats) -> None:
        # One that is still there would be taken for hot anew by the next reading.
        present = {_TOGETHER, *(node.node_id for node in stats.nodes)}
        gone = [whose for whose in self._hot if whose not in present]
        for oldest in gone[: max(len(self._hot) - MOST_NODES, 0)]:
            del self._hot[oldest]


def described(nodes: Sequence[NodeCpu]) -> list[dict[str, str | float | None]]:
    """Return nodes and their CPU as plain values, for XCom and events: as many as fit into 40 kB."""
    return fitting(
        [
            {
                "node_id": storable(node.node_id, _LONGEST_NAME),
                "name": node.name and storable(node.name, _LONGEST_NAME),
                "host": node.host and storable(node.host, _LONGEST_NAME),
                "percent": node.percent,
                "source": node.source,
            }
            for node in nodes
        ],
        _DESCRIBED_BYTES,
    )


def read_percentage(name: str, value: object) -> float:
    """Read a percentage; InvalidArgumentError for no number from 0 to 100, and for a share of 1, such as 0.85."""
    percentage = read_number(name, value, minimum=0, maximum=_HIGHEST)
    if 0 < percentage < 1:
        raise InvalidArgumentError(
            f"{name} is in percent, 0 or 1 to {_HIGHEST}; not {shown(value)}: if that is a share of 1, write "
            f"{percentage * 100:g}."
        )
    return percentage
