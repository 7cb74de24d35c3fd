"""The sensor of the search cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.sensors.base import ServiceSensor

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch


class ClusterCpuSensor(ServiceSensor):
    """
    Wait until nodes of a search cluster run hot, and return them with their CPU, the hottest first.

    Each is a :class:`~airflow_provider_mediaops.results.HotNodeReading`. A node without a figure for its CPU never
    counts as idle. From the first high reading on, the sensor reads until it knows whether the nodes stay hot, also
    with ``mode="reschedule"``: one poke then takes up to ``sustained_for``.

    :param threshold: a node is hot if its CPU in percent is this or more: 0, or 1 to 100 (85, not 0.85).
    :param sustained_for: for how long every reading must be so high, in seconds or as a ``timedelta``; with 0, one
        reading suffices, which may be a short peak.
    :param nodes: ids or names of the nodes to look at, in a list or in one text with commas; None or ``_all`` for all.
    :param require: ``any``: one node suffices; ``all``: all nodes at the same time, and the CPU of each must be known.
    :param reading_interval: the most seconds between two readings while nodes are hot, or a ``timedelta``.
    :param cluster_conn_id: the connection's id.
    :param kwargs: those of :class:`~airflow_provider_mediaops.sensors.base.ServiceSensor`.
    :raises InvalidArgumentError: for an argument that cannot be used: here, or, if it is templated, before the first
        request.
    """

    conn_id_field = "cluster_conn_id"
    watch_class = "airflow_provider_mediaops.cluster.cpu_watch:CpuWatch"
    watch_fields = ("threshold", "sustained_for", "nodes", "require", "reading_interval")
    trigger_class = "airflow_provider_mediaops.triggers.cluster:CpuSensorTrigger"
    template_fields: Sequence[str] = (*watch_fields, "cluster_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"nodes": "json"}

    def __init__(
        self,
        *,
        threshold: float | str = 85.0,
        sustained_for: float | str | timedelta = 0,
        nodes: str | Sequence[str] | None = None,
        require: Literal["any", "all"] = "any",
        reading_interval: float | str | timedelta = 10.0,
        cluster_conn_id: str = "mediaops_cluster_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.threshold = threshold
        self.sustained_for = sustained_for
        self.nodes = nodes
        self.require = require
        self.reading_interval = reading_interval
        self.cluster_conn_id = cluster_conn_id
        self._check_known()

    def make_watch(self) -> CpuWatch:
        """Make the watch from the rendered arguments."""
        watch: CpuWatch = super().make_watch()
        if watch.sustained_for and watch.sustained_for >= self.timeout:
            raise InvalidArgumentError(
                f"sustained_for ({watch.sustained_for:g} s) must be shorter than the sensor's timeout "
                f"({self.timeout:g} s), or the wait can only time out."
            )
        return watch
