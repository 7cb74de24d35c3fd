"""The trigger of the search cluster's sensor, which also starts DAGs: a node runs hot."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.hooks.threads import import_in_thread
from airflow_provider_mediaops.triggers.event import done_event, error_event, unexpected
from airflow_provider_mediaops.triggers.serialized import serialized
from airflow_provider_mediaops.version_compat import asset_state_store
from airflow_provider_mediaops.waiting import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from airflow_provider_mediaops.cluster.hysteresis import Hysteresis
    from airflow_provider_mediaops.cluster.spike import Spike
    from airflow_provider_mediaops.cluster.watch import CpuWatch

# An event's payload stands in the database for good; of more nodes, the hottest.
_MOST_NODES = 100
# A DAG file is parsed without them, and the event loop does not wait for their import.
_RUN_TIME_MODULES = (
    "airflow_provider_mediaops.cluster.hysteresis",
    "airflow_provider_mediaops.triggers.asset_state",
    "airflow_provider_mediaops.triggers.spikes",
)
# What only a waiting task has a use for, with what it is for all others.
_OF_A_TASK = {"exponential_backoff": False, "max_wait": None, "silent_fail": False, "start_after": 0, "failures": 0}
# What makes another watch, with a memory of its own.
_WATCHED = ("cluster_conn_id", "threshold", "sustained_for", "nodes", "require", "clear_below")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _is_number_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "cluster_conn_id": (lambda value: isinstance(value, str) and value != "", "the id of a connection"),
    "nodes": (lambda value: value is None or isinstance(value, (str, list)), "ids or names, as a list or one text"),
    **dict.fromkeys(
        ("threshold", "sustained_for", "poll_interval", "reading_interval", "start_after", "failures"),
        (_is_number, "a number, 0 or more"),
    ),
    **dict.fromkeys(("clear_below", "max_wait"), (_is_number_or_none, "a number, 0 or more, or None")),
    **dict.fromkeys(("once", "exponential_backoff", "silent_fail"), (_is_flag, "True or False")),
}


class HighCpuTrigger(BaseEventTrigger):
    """
    Tells that nodes of a search cluster run hot: each time, to start DAGs; or once, to a task that waits for it.

    Under an ``AssetWatcher`` it goes on for ever, and each spike is one event. Its payload has ``nodes`` (dictionaries
    with ``node_id``, ``name``, ``host``, ``percent`` and ``source``, the hottest first, 100 at most), ``node_count``,
    ``threshold``, ``sustained_for``, ``cluster_conn_id`` and ``at``. A spike begins when a node has been hot for long
    enough, and is over when a reading shows the node below ``clear_below``; other nodes have spikes of their own. With
    ``require="all"`` the nodes have spikes together. Failures are never events: they are logged, once per change of
    state, and the watch goes on with growing pauses; also where the connection is missing or wrong, until it is not.

    From Airflow 3.3 on, which nodes are hot outlives the triggerer: it is kept in the asset's state store, under a key
    made of the arguments. It is kept some seconds after the event, when the event has reached the database: a triggerer
    killed in between tells of the spike again, so every spike is told at least once. Below 3.3, and where one watcher
    with equal arguments belongs to several assets, a restart tells again of the nodes that are hot then. A streak of
    readings that is not long enough yet begins anew.

    All triggers of a triggerer that wait on one connection share its session and its readings. The constructor never
    raises, because an exception there would stop the triggerer: arguments are judged when a DAG is parsed or a task
    defers.

    :param cluster_conn_id: the connection's id.
    :param threshold: CPU in percent, above 0 and up to 100; with ``once`` also 0.
    :param sustained_for: for how long, in seconds or as a ``timedelta``, every reading must be at or above it; 0 is
        content with one, but single readings spike.
    :param nodes: ids or names of the nodes to look at, in a list or in one text with commas; None for all.
    :param require: ``any``: one node suffices; ``all``: all nodes at the same time.
    :param poll_interval: seconds between two readings.
    :param reading_interval: the most seconds between two readings while nodes are hot, but not yet for long enough.
    :param clear_below: CPU in percent below which a spike is over; None for the threshold.
    :param once: whether it ends with its first event, which may be a typed error: for a task that waits. Only then:
    :param exponential_backoff: whether ``poll_interval`` grows.
    :param max_wait: the longest ``poll_interval`` in seconds, where it grows.
    :param silent_fail: whether a permanent error is only logged and the wait goes on.
    :param start_after: seconds to wait before the first reading.
    :param failures: how many readings have failed in a row before; the pauses go on growing from there.
    """

    def __init__(
        self,
        *,
        cluster_conn_id: str = "mediaops_cluster_default",
        threshold: float = 85.0,
        sustained_for: float | timedelta = 60.0,
        nodes: str | Sequence[str] | None = None,
        require: Literal["any", "all"] = "any",
        poll_interval: float = 30.0,
        reading_interval: float = 10.0,
        clear_below: float | None = None,
        once: bool = False,
        exponential_backoff: bool = False,
        max_wait: float | None = None,
        silent_fail: bool = False,
        start_after: float = 0.0,
        failures: int = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster_conn_id = cluster_conn_id
        self.threshold = threshold
        self.sustained_for = sustained_for.total_seconds() if isinstance(sustained_for, timedelta) else sustained_for
        self.nodes = list(nodes) if isinstance(nodes, tuple) else nodes
        self.require: Literal["any", "all"] = require
        self.poll_interval = poll_interval
        self.reading_interval = reading_interval
        self.clear_below = clear_below
        self.once = once
        self.exponential_backoff = exponential_backoff
        self.max_wait = max_wait
        self.silent_fail = silent_fail
        self.start_after = start_after
        self.failures = failures
        # Triggers of tasks keep to their task's queue (Airflow 3.2 and later), those that watch assets know none.
        self.supports_triggerer_queue = bool(once)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """
        Give the class and the arguments that make this trigger again.

        Airflow calls it when it parses a DAG and when a task defers, not in the triggerer.

        :raises ValueError: where an argument cannot be used.
        """
        self._check()
        return serialized(self)

    def __repr__(self) -> str:
        # Airflow's own calls serialize(), which may refuse.
        return str(self.repr(*serialized(self)))

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch, and yield an event for each spike; or wait, and yield one event: done, or a permanent error."""
        await import_in_thread(*_RUN_TIME_MODULES)
        if self.once:
            if asset_state_store(self) is not None:
                await self._never(ValueError("once=True is for a task that waits; not for an asset's watcher."))
            yield TriggerEvent(await self._end_of_the_wait())
            return
        try:
            self._check()
        except ValueError as error:
            await self._never(error)
        async with aclosing(self._spikes()) as spikes:
            async for spike in spikes:
                yield TriggerEvent(self._payload(spike))

    async def _never(self, error: ValueError) -> None:
        # To return or to raise would make Airflow start it again every two seconds.
        self.log.error("This watch cannot begin until its arguments are corrected: %s", error)
        await asyncio.get_running_loop().create_future()

    async def _end_of_the_wait(self) -> dict[str, Any]:
        from airflow_provider_mediaops.cluster.spike import await_spike
        from airflow_provider_mediaops.cluster.watch import described
        from airflow_provider_mediaops.triggers.cluster_readings import shared_cluster

        try:
            self._check()
            watch = self._watch()
            async with shared_cluster(self.cluster_conn_id) as cluster:
                wait = await_spike(
                    cluster.readings(watch.nodes, self.poll_interval),
                    watch,
                    Pace(self.poll_interval, self.exponential_backoff, self.max_wait),
                    tell=self.log.log,
                    monotonic=asyncio.get_running_loop().time,
                    failures=self.failures,
                    silent_fail=self.silent_fail,
                    first_pause=self.start_after,
                )
                spike = await cluster.wait(wait)
        except MediaOpsError as error:
            return error_event(error)
        except InvalidArgumentError as error:
            return error_event(InvalidConnectionError(str(error)))
        except ValueError as error:
            self.log.exception("The wait ended with an unexpected error.")
            return error_event(unexpected(error))
        return done_event(described(spike.nodes) if spike else [])

    def _spikes(self) -> AsyncGenerator[Spike, None]:
        from airflow_provider_mediaops.triggers.asset_state import AssetState, state_key
        from airflow_provider_mediaops.triggers.spikes import SpikeSeries

        store = asset_state_store(self)
        key = state_key("high_cpu", {name: getattr(self, name) for name in _WATCHED})
        state = AssetState(store, key, self.log.log)
        return SpikeSeries(self.cluster_conn_id, self._hysteresis(), self.poll_interval, state, self.log.log).spikes()

    def _payload(self, spike: Spike) -> dict[str, Any]:
        from airflow_provider_mediaops.cluster.watch import described

        return {
            "nodes": described(spike.nodes[:_MOST_NODES]),
            "node_count": len(spike.nodes),
            "threshold": self.threshold,
            "sustained_for": self.sustained_for,
            "cluster_conn_id": self.cluster_conn_id,
            "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        }

    def _watch(self) -> CpuWatch:
        from airflow_provider_mediaops.cluster.watch import CpuWatch

        return CpuWatch(
            threshold=self.threshold,
            sustained_for=self.sustained_for,
            nodes=self.nodes,
            require=self.require,
            reading_interval=self.reading_interval,
        )

    def _hysteresis(self) -> Hysteresis:
        from airflow_provider_mediaops.cluster.hysteresis import Hysteresis

        return Hysteresis(self._watch(), self.threshold if self.clear_below is None else self.clear_below)

    def _check(self) -> None:
        """Refuse what cannot be used, whatever its kind, with a ValueError."""
        for name, (is_one, kind) in _KINDS.items():
            if not is_one(getattr(self, name)):
                raise InvalidArgumentError(f"{name} is {kind}; not {getattr(self, name)!r}.")
        if self.once:
            self._watch()
            if self.clear_below is not None:
                raise InvalidArgumentError(
                    "clear_below has no meaning with once=True, which ends with the first spike."
                )
            return
        self._hysteresis()
        if not self.poll_interval:
            raise InvalidArgumentError("poll_interval is a number above 0; not 0.")
        for name, unset in _OF_A_TASK.items():
            if getattr(self, name) != unset:
                raise InvalidArgumentError(f"{name} has no meaning without once=True: it is for a task that waits.")
