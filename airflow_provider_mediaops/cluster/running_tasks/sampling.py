"""
Look at the tasks of hot nodes while their threads are measured.

The looks are a call flow of their own, beside the request for the report, so that they neither delay it nor can
fail it. The thread pools come first: a node with a huge queue would need long, and much memory, to list its tasks, so
it is not asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.cluster.cpu import name_some
from airflow_provider_mediaops.cluster.query import check_show_queries, node_list
from airflow_provider_mediaops.cluster.running_tasks.looks import (
    LookSeries,
    TaskSampling,
    failure_sentence,
    look_times,
)
from airflow_provider_mediaops.cluster.running_tasks.replies import thread_pools
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.http.exchange import Beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.cluster.query import HotThreadsQuery
    from airflow_provider_mediaops.cluster.running_tasks.model import PoolLoad
    from airflow_provider_mediaops.http.clock import Clock
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow

T = TypeVar("T")

#: How long the end of a report waits for what is still under way beside it, in seconds.
GRACE_SECONDS = 0.01

# The busiest nodes are asked; a list of all nodes of a large cluster would be a load of its own.
_MOST_NODES = 10
# With more tasks in the queues of a node, its tasks are not listed at all.
_HUGE_QUEUE = 1_000
# With more, they are listed at the start and at the end only.
_SHORT_QUEUE = 100
# With any other character, an id may stand for several nodes.
_ID = re.compile(r"[\w.-]+", re.ASCII)


def task_sampler(ask: Ask, clock: Clock, *, running_tasks: bool, show_queries: bool) -> TaskSampler | None:
    """Return a sampler of tasks; None without ``running_tasks``."""
    check_show_queries(running_tasks=running_tasks, show_queries=show_queries)
    return TaskSampler(ask, clock, shows_queries=show_queries) if running_tasks else None


class TaskSampler:
    """
    Looks at the tasks of hot nodes, for the captures of one series. What the cluster has refused is not asked again.

    :param ask: makes a call flow of a call.
    :param shows_queries: whether queries are kept with their literals.
    """

    def __init__(self, ask: Ask, clock: Clock, *, shows_queries: bool = False) -> None:
        self._ask = ask
        self._clock = clock
        self._shows_queries = shows_queries
        self._last: TaskSampling | None = None

    def beside(
        self, report: CallFlow[T], query: HotThreadsQuery, stats: NodeStats | None
    ) -> CallFlow[tuple[T, TaskSampling]]:
        """Ask for a report, and look at the tasks meanwhile; the result is that of ``report``, and what was seen."""
        sampling = self.begin(stats, node_list(query.nodes))
        looks = self.looks(sampling, query.interval_seconds, query.snapshots)
        text, error = yield Beside(report, looks, GRACE_SECONDS)
        if error:
            # Not its words: they could quote a query.
            sampling.warn(f"The tasks were not listed to the end, because of a fault ({type(error).__name__}).")
        return text, sampling.snapshot()

    def begin(self, stats: NodeStats | None, selectors: Sequence[str] | None) -> TaskSampling:
        """Choose the nodes to ask: the busiest of those that are captured."""
        sampling = TaskSampling(shows_queries=self._shows_queries)
        if self._last and self._last.refusal:
            # It was logged then.
            sampling.refusal = self._last.refusal
            sampling.remarks.append(sampling.refusal)
        self._last = sampling
        if stats:
            busiest = sorted(stats.nodes, key=lambda node: -(node.percent or 0.0))
            nodes = {node.node_id: node.name for node in busiest if _ID.fullmatch(node.node_id)}
        else:
            nodes = dict.fromkeys(selectors or ())
        if not nodes:
            sampling.warn("Tasks were not listed, because it is not known which nodes are hot: give nodes.")
        sampling.nodes = _at_most(sampling, nodes)
        return sampling

    def looks(self, sampling: TaskSampling, interval_seconds: float, snapshots: int) -> CallFlow[None]:
        """Look at the tasks until the report should be there. An error of the cluster is noted, not raised."""
        if not sampling.nodes:
            return
        begun = self._clock.monotonic()
        longest_queue = yield from self._read_pools(sampling)
        asked = [node for node in sampling.nodes if node not in sampling.node_remarks]
        if not asked:
            return
        is_short = longest_queue is not None and longest_queue <= _SHORT_QUEUE
        series = LookSeries(self._ask, self._clock, sampling, begun, asked, is_dense=is_short)
        # The statistics of shards need the same permission as those of thread pools.
        series.may_read_shards = longest_queue is not None
        series.may_list = not sampling.refusal
        times = list(look_times(interval_seconds, snapshots))
        for (after, moment), (following, _) in zip(times, [*times[1:], (float("inf"), "end")], strict=True):
            if series.is_wanted(after, moment, is_last=following == float("inf")):
                yield from series.look(after, moment)
                if moment == "start":
                    sampling.shards_before = yield from series.read_shards()
                elif moment == "end" and not sampling.shards_after:
                    sampling.shards_after = yield from series.read_shards()
                yield from series.look_up(begun + following)

    def _read_pools(self, sampling: TaskSampling) -> CallFlow[int | None]:
        """Read the thread pools, and return the longest queue of a node that may be asked; None if it is unknown."""
        try:
            pools = yield from self._ask(thread_pools(list(sampling.nodes)))
        except MediaOpsError as error:
            sampling.warn(failure_sentence("The thread pools could not be read", error))
            return None
        # The cluster knows nodes by their ids, whatever they were asked for.
        if pools and not pools.keys() & sampling.nodes.keys():
            # A name such as data:true stands for any number of nodes.
            busiest = sorted(filter(_ID.fullmatch, pools), key=lambda node: -_load(pools[node]))
            sampling.nodes = _at_most(sampling, dict.fromkeys(busiest))
        sampling.pools = pools
        queues = {node: sum(pool.queue for pool in pools.get(node, ())) for node in sampling.nodes}
        for node, queue in queues.items():
            if queue > _HUGE_QUEUE:
                waiting = f"{queue:,} tasks wait in its thread pools, and to list them would be a load of its own"
                sampling.node_remarks[node] = [f"Its tasks were not listed: {waiting}."]
        if huge := [sampling.nodes[node] or node for node in sampling.node_remarks]:
            sampling.warn(f"The tasks of {name_some(huge)} were not listed: too many wait in the thread pools.")
        return max((queue for queue in queues.values() if queue <= _HUGE_QUEUE), default=0)


def _at_most(sampling: TaskSampling, nodes: dict[str, str | None]) -> dict[str, str | None]:
    """Return the first nodes, and note that there are more."""
    if len(nodes) > _MOST_NODES:
        sampling.remarks.append(f"Tasks were listed of the {_MOST_NODES} busiest of {len(nodes)} nodes.")
    return dict(list(nodes.items())[:_MOST_NODES])


def _load(pools: Sequence[PoolLoad]) -> int:
    return sum(pool.active + pool.queue for pool in pools)
