"""Each spike told once: a node that ran hot has to cool down before it can run hot again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.watch import Streaks, read_percentage
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.cluster.watch import CpuWatch

_VERSION = 1
# What stands for all nodes together; no id of a node is that short.
_TOGETHER = "all"
# Nodes that left the cluster while they were hot never cool down; the oldest are forgotten first.
_MOST = 1000


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
        self.clear_below = read_percentage("clear_below", clear_below)
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
