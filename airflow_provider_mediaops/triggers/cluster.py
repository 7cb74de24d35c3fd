"""The triggers of the search cluster: of the sensor, of the capture, and one that starts DAGs when a node runs hot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_mediaops.arguments import ordered, read_identifier, read_seconds
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.hooks.threads import import_in_thread
from airflow_provider_mediaops.triggers.base import (
    MAX_ARGUMENTS_BYTES,
    TaskTrigger,
    WatchTrigger,
    arguments_bytes,
    reading_row,
    serialized,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch, Hysteresis, Spike
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.waiting import Readings, Watch

# A DAG file is parsed without them, and the event loop does not wait for their import.
_RUN_TIME_MODULES = ("airflow_provider_mediaops.cluster.capture", "airflow_provider_mediaops.triggers.spike_series")
# What makes another watch, with a state of its own in the asset's store.
_WATCHED = ("cluster_conn_id", "threshold", "sustained_for", "nodes", "require", "clear_below")


class CpuSensorTrigger(WatchTrigger):
    """
    Waits in the triggerer for hot nodes, for a task; its ``watch`` has the fields of ``CpuWatch``.

    All triggers of a triggerer that wait on one connection share its session and its readings.
    """

    hook_class = "airflow_provider_mediaops.hooks.cluster:SearchClusterHook"
    watch_class = "airflow_provider_mediaops.cluster.cpu_watch:CpuWatch"

    @asynccontextmanager
    async def _readings(self, watch: Watch) -> AsyncIterator[tuple[ServiceHook, Readings[NodeStats]]]:
        await import_in_thread(*_RUN_TIME_MODULES)
        from airflow_provider_mediaops.triggers.shared_readings import shared_cluster

        async with shared_cluster(self.conn_id) as cluster:
            yield cluster.hook, cluster.readings(self.watch.get("nodes"), self.pace["interval_seconds"]).next


class CaptureHotThreadsTrigger(TaskTrigger):
    """
    Waits in the triggerer until nodes run hot, captures their hot threads in the same step, and writes the files.

    All that wait on one connection share its readings. There is one event, with paths and counts: what
    :func:`~airflow_provider_mediaops.cluster.capture.on_spike.capture_when_hot` says became of it, or a typed error.
    Where the triggerer restarts, a streak of high readings begins anew, and so does a series of captures. Its arguments
    are the fields of ``CapturePlan`` and of ``TakenFor``, and the deadline in seconds since 1970, so that a restart
    does not prolong it.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        plan: dict[str, Any],
        destination: str,
        formats: list[str],
        deadline: float,
        taken_for: dict[str, Any],
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.plan = plan
        self.destination = destination
        self.formats = formats
        self.deadline = deadline
        self.taken_for = taken_for

    async def _result(self) -> dict[str, Any]:
        await import_in_thread(*_RUN_TIME_MODULES)
        from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
        from airflow_provider_mediaops.cluster.capture.on_spike import capture_when_hot
        from airflow_provider_mediaops.cluster.capture.plan import CapturePlan, TakenFor
        from airflow_provider_mediaops.http.exchange import Clock
        from airflow_provider_mediaops.triggers.shared_readings import shared_cluster

        with reading_row():
            plan = CapturePlan.from_dict(self.plan)
            files = CaptureFiles(
                self.destination,
                self.formats,
                self.log,
                captures=plan.captures,
                taken_for=TakenFor(**self.taken_for),
            )
            # The clock of the shared readings, which get the deadline, too.
            monotonic = asyncio.get_running_loop().time
            deadline = monotonic() + (self.deadline - time.time())
        async with shared_cluster(self.conn_id) as cluster:
            flow = capture_when_hot(
                cluster.hook.asking,
                plan,
                files,
                readings=cluster.readings(plan.query.nodes, plan.poll_interval).next,
                deadline=deadline,
                log=self.log.log,
                clock=Clock(monotonic=monotonic),
            )
            return await cluster.hook.arun(flow)


class HighCpuTrigger(BaseEventTrigger):
    """
    Starts DAGs when nodes of a search cluster run hot.

    An ``AssetWatcher`` runs it for ever, and each spike is one event.

    The payload of an event names the nodes; see :class:`~airflow_provider_mediaops.results.HotNodesEvent`. A spike
    begins when a node has been hot for long enough, and is over when a reading shows the node below ``clear_below``;
    other nodes have spikes of their own. With ``require="all"`` the nodes have spikes together. Errors are never
    events: they are logged, once per change of state, and the watch continues with growing pauses; also if the
    connection is missing or wrong, until it is corrected.

    From Airflow 3.3 on, the hot nodes are kept in the asset's state store, under a key made of the arguments, so that a
    restart of the triggerer does not repeat events. They are kept by a reading some seconds after the event, when the
    event has reached the database: a triggerer killed before repeats the event, so every spike is reported at least
    once.
    Below 3.3, and if one watcher with equal arguments belongs to several assets, a restart repeats the events of the
    nodes that are hot then. A streak of readings that is not long enough yet begins anew.

    All triggers of a triggerer that wait on one connection share its session and its readings. The constructor never
    raises for a wrong value, because an exception there would stop the triggerer: arguments are checked when a DAG is
    parsed.

    :param cluster_conn_id: the connection's id.
    :param threshold: a node is hot if its CPU in percent is this or more: 1 to 100 (85, not 0.85).
    :param sustained_for: for how long every reading must be so high, in seconds or as a ``timedelta``; with 0, one
        reading suffices, which may be a short peak.
    :param nodes: ids or names of the nodes to read, in a list or in one text with commas; None for all.
    :param require: ``any``: one node suffices; ``all``: all nodes at the same time, and the CPU of each must be known.
    :param poll_interval: seconds between two readings.
    :param reading_interval: the maximum seconds between two readings while nodes are hot, but not yet for long enough.
    :param clear_below: CPU in percent below which a spike is over; None for the threshold.
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
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster_conn_id = cluster_conn_id
        self.threshold = threshold
        self.sustained_for = sustained_for.total_seconds() if isinstance(sustained_for, timedelta) else sustained_for
        nodes = ordered(nodes)
        self.nodes = list(nodes) if isinstance(nodes, tuple) else nodes
        self.require = require
        self.poll_interval = poll_interval
        self.reading_interval = reading_interval
        self.clear_below = clear_below

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """
        Return the class and the arguments from which Airflow makes this trigger again.

        Airflow calls it when it parses a DAG, not in the triggerer.

        :raises ValueError: if an argument cannot be used.
        """
        self._check()
        return serialized(self)

    def __repr__(self) -> str:
        # Airflow's own calls serialize(), which may refuse.
        return str(self.repr(*serialized(self)))

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch, and yield an event for each spike."""
        await import_in_thread(*_RUN_TIME_MODULES)
        try:
            hysteresis, poll_interval = self._check()
        except ValueError as error:
            # To return or to raise would make Airflow start it again every two seconds.
            self.log.error("This watch cannot begin until its arguments are corrected: %s", error)  # noqa: TRY400
            await asyncio.get_running_loop().create_future()
        from airflow_provider_mediaops.triggers.spike_series import spikes, state_key

        key = state_key({name: getattr(self, name) for name in _WATCHED})
        # Airflow has no such attribute below 3.3 (AIP-103).
        store = getattr(self, "asset_state_store", None)
        found = spikes(self.cluster_conn_id, hysteresis, poll_interval, store=store, key=key, log=self.log.log)
        async with aclosing(found):
            async for spike in found:
                yield TriggerEvent(self._payload(spike, hysteresis.watch))

    def _payload(self, spike: Spike, watch: CpuWatch) -> dict[str, Any]:
        from airflow_provider_mediaops.cluster.cpu_watch import described

        return {
            "nodes": described(spike.nodes),
            "node_count": len(spike.nodes),
            "threshold": watch.threshold,
            "sustained_for": watch.sustained_for,
            "cluster_conn_id": self.cluster_conn_id,
            "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        }

    def _check(self) -> tuple[Hysteresis, float]:
        """Return the spikes to watch for, and the interval; raise InvalidArgumentError for what cannot be used."""
        from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch, Hysteresis

        read_identifier("cluster_conn_id", self.cluster_conn_id)
        poll_interval = read_seconds("poll_interval", self.poll_interval)
        if not poll_interval:
            raise InvalidArgumentError("poll_interval is a number of seconds above 0; not 0.")
        watch = CpuWatch(self.threshold, self.sustained_for, self.nodes, self.require, self.reading_interval)
        hysteresis = Hysteresis(watch, self.clear_below)
        if (size := arguments_bytes(serialized(self)[1])) > MAX_ARGUMENTS_BYTES:
            raise InvalidArgumentError(
                f"nodes is too long: the arguments of the trigger have {size:,} bytes, and the databases of Airflow "
                f"take {MAX_ARGUMENTS_BYTES:,}. Name fewer nodes, or select them by a pattern such as data-*."
            )
        return hysteresis, poll_interval
