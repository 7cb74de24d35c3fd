"""Waiting for nodes to run hot."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.arguments import read_choice, read_number, read_seconds, shown
from airflow_provider_mediaops.cluster.api import node_list, node_stats
from airflow_provider_mediaops.exceptions import InvalidArgumentError, TemporaryError
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.waiting import Done, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.http.exchange import Ask, Conversation
    from airflow_provider_mediaops.waiting import Verdict

_HIGHEST = 100
# The one streak that all nodes make together; no id of a node is that short.
_TOGETHER = "all"
# The version of what Hysteresis.to_dict returns.
_VERSION = 1
# Nodes that left the cluster while they were hot never cool down; the oldest are forgotten first.
_MOST = 1000
# A cluster has hundreds of nodes; a line of the log names some.
_NAMED = 20

# The hot nodes by whose streak they count for. Nobody in it: the streak is broken. Not in it: nothing is known.
_Reading = dict[str, "list[NodeCpu]"]


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
        object.__setattr__(self, "threshold", read_percentage("threshold", self.threshold))
        for name in ("sustained_for", "reading_interval"):
            object.__setattr__(self, name, read_seconds(name, getattr(self, name)))
        if not self.reading_interval:
            raise InvalidArgumentError("reading_interval is a number of seconds above 0; not 0.")
        object.__setattr__(self, "require", read_choice("require", self.require, ("any", "all")))

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
        streaks = Streaks(self)
        failure: TemporaryError | None = None
        stats: NodeStats = yield from ask(call)
        reading: NodeStats | None = stats
        while True:
            if hot := streaks.add(reading, monotonic()):
                return Done(described(hot))
            if not streaks.running:
                if failure:
                    raise failure
                return Waiting("; ".join(filter(None, (self.seen(stats), self.unknown(stats)))))
            asked = failure.retry_after if failure else None
            yield Wait(max(streaks.pause(monotonic()), asked or 0.0), self.open_question(failure))
            reading, failure = None, None
            try:
                reading = stats = yield from ask(call)
            except TemporaryError as error:
                failure = error

    def seen(self, stats: NodeStats) -> str:
        """
        Say that the nodes are not hot, or not for long enough.

        :param stats: what was read.
        :returns: words that stay the same while nothing changes.
        """
        silent = [node.label for node in stats.nodes if node.percent is None]
        if len(silent) == len(stats.nodes):
            return "no node tells its CPU"
        which = "no node's CPU is" if self.require == "any" else "the CPU of the nodes is not all"
        long = f" for {self.sustained_for:g} s" if self.sustained_for else ""
        seen = f"{which} at {self.threshold:g} % or more{long}"
        return f"{seen}; not known of {name_some(silent)}" if silent else seen

    def unknown(self, stats: NodeStats) -> str:
        """
        Say which of the nodes that were asked for are not among those that answered.

        :param stats: what was read.
        :returns: words that stay the same while nothing changes; none where all are there.
        """
        unknown = stats.unknown(node_list(self.nodes))
        if not unknown:
            return ""
        # One that failed has an id in its failure at best, so it cannot be told from one that does not exist.
        return f"the cluster {'gave no statistics of' if stats.failures else 'knows no'} node {name_some(unknown)}"

    def open_question(self, failure: TemporaryError | None = None) -> str:
        """
        Say why the nodes are read again while they are hot.

        :param failure: what the last reading ended with, if it failed.
        :returns: words that stay the same while nothing changes.
        """
        hot = f"the CPU is at {self.threshold:g} % or more; is it for {self.sustained_for:g} s?"
        return f"{hot} The last reading failed: {failure.message}" if failure else hot


@dataclass(slots=True)
class Streaks:
    """
    Since when which nodes of a watch have been hot without a break; whoever reads adds what was read.

    :param watch: which nodes, from what threshold on, and for how long.
    """

    watch: CpuWatch
    _since: dict[str, float] = field(default_factory=dict)
    _known: dict[str, float] = field(default_factory=dict)

    def add(self, stats: NodeStats | None, now: float) -> list[NodeCpu]:
        """
        Add a reading.

        :param stats: what was read; None for a reading that failed.
        :param now: when.
        :returns: the nodes whose streaks it makes long enough, the hottest first.
        """
        reading = {} if stats is None else self._read(stats)
        for whose, hot in reading.items():
            if hot:
                self._known[whose] = now
                self._since.setdefault(whose, now)
            else:
                self._since.pop(whose, None)
        needed = self.watch.sustained_for
        made = [whose for whose, hot in reading.items() if hot and now - self._since[whose] >= needed]
        self._since = {whose: start for whose, start in self._since.items() if now - self._known[whose] < needed}
        nodes = [node for whose in made for node in reading[whose]]
        return sorted(nodes, key=lambda node: -(node.percent or 0))

    @property
    def running(self) -> bool:
        """Whether there are nodes of which it is open whether they are hot for long enough."""
        return bool(self._since)

    def pause(self, now: float) -> float:
        """
        Give the seconds until the next reading, while streaks run.

        :param now: the time.
        :returns: no more than until the first streak is long enough; those that are wait for a reading that says so.
        """
        rests = [self.watch.sustained_for - (now - start) for start in self._since.values()]
        return min([self.watch.reading_interval, *(rest for rest in rests if rest > 0)])

    def _read(self, stats: NodeStats) -> _Reading:
        known = [node for node in stats.nodes if node.percent is not None]
        hot = [node for node in known if node.percent is not None and node.percent >= self.watch.threshold]
        if self.watch.require == "any":
            hot_ids = {node.node_id for node in hot}
            return {node.node_id: [node] if node.node_id in hot_ids else [] for node in known}
        if not known:
            return {}
        return {_TOGETHER: hot if len(hot) == len(known) else []}


class Hysteresis(Streaks):
    """
    Streaks that are told once: what was told of stays hot until it has cooled down, and is not told again until then.

    With ``require="any"`` each node has spikes of its own; with ``all`` the nodes have them together, and the spike is
    over as soon as one of them cools down. Only a reading that tells a node's CPU can cool it down: one that failed, or
    lacks the figure or the node, says nothing.

    :param watch: which nodes, from what threshold on, and for how long.
    :param clear_below: the CPU in percent below which a node has cooled down; no more than the threshold.
    :raises ValueError: for a figure that can never be.
    """

    def __init__(self, watch: CpuWatch, clear_below: float) -> None:
        super().__init__(watch)
        if not 0 < clear_below <= watch.threshold:
            raise InvalidArgumentError(
                f"clear_below is a percentage above 0 and up to the threshold ({watch.threshold:g}); "
                f"not {clear_below!r}."
            )
        self.clear_below = clear_below
        self._hot: dict[str, None] = {}

    def add(self, stats: NodeStats | None, now: float) -> list[NodeCpu]:
        """
        Add a reading.

        :param stats: what was read; None for a reading that failed.
        :param now: when.
        :returns: the nodes whose streaks it makes long enough, but for those that are hot already; the hottest first.
        """
        if stats is None:
            return super().add(None, now)
        for whose in self._cooled(stats):
            self._hot.pop(whose, None)
        nodes = super().add(self._untold(stats), now)
        if nodes:
            self._take_for_hot([node.node_id for node in nodes] if self.watch.require == "any" else [_TOGETHER])
        return nodes

    @property
    def hot(self) -> tuple[str, ...]:
        """The ids of the nodes that were told of and have not cooled down; ``all`` for all of them together."""
        return tuple(self._hot)

    def to_dict(self) -> dict[str, Any]:
        """
        Give what has to be known after a restart, as plain values.

        :returns: the nodes that are hot, and a version.
        """
        return {"version": _VERSION, "hot": list(self._hot)}

    def restore(self, stored: object) -> bool:
        """
        Take up what :meth:`to_dict` gave before a restart.

        :param stored: what was stored, perhaps by another version of this package, or by somebody else.
        :returns: whether it was understood; what was not changes nothing.
        """
        if not isinstance(stored, dict) or stored.get("version") != _VERSION:
            return False
        hot = stored.get("hot")
        if not isinstance(hot, list) or not all(isinstance(whose, str) for whose in hot):
            return False
        self._take_for_hot(hot)
        return True

    def _take_for_hot(self, whose: Iterable[str]) -> None:
        self._hot.update(dict.fromkeys(whose))
        for oldest in list(self._hot)[:-_MOST]:
            del self._hot[oldest]

    def _cooled(self, stats: NodeStats) -> list[str]:
        cooled = [node.node_id for node in stats.nodes if node.percent is not None and node.percent < self.clear_below]
        return [*cooled, _TOGETHER] if cooled else []

    def _untold(self, stats: NodeStats) -> NodeStats:
        if _TOGETHER in self._hot:
            return replace(stats, nodes=())
        return replace(stats, nodes=tuple(node for node in stats.nodes if node.node_id not in self._hot))


def described(nodes: Sequence[NodeCpu]) -> list[dict[str, str | float | None]]:
    """
    Give nodes and their CPU as plain values, for XCom and events.

    :param nodes: the nodes.
    :returns: a dictionary for each, in their order.
    """
    return [
        {
            "node_id": node.node_id,
            "name": node.name,
            "host": node.host,
            "percent": node.percent,
            "source": node.source,
        }
        for node in nodes
    ]


def name_some(names: Sequence[str]) -> str:
    """
    Name nodes in a sentence.

    :param names: any number of them.
    :returns: some of them, and how many more there are.
    """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def read_percentage(name: str, value: object) -> float:
    """
    Read a percentage.

    :param name: the argument, for the message.
    :param value: a number, or the text of one.
    :returns: the percentage.
    :raises InvalidArgumentError: if it is none from 0 to 100, or a share of 1, such as 0.85.
    """
    percentage = read_number(name, value, minimum=0, maximum=_HIGHEST)
    if 0 < percentage < 1:
        raise InvalidArgumentError(
            f"{name} is in percent, 0 or 1 to {_HIGHEST}; not {shown(value)}: if that is a share of 1, write "
            f"{percentage * 100:g}."
        )
    return percentage
